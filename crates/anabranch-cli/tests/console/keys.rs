//! Keys of a keyboard, as the protocol wants them.

use serde_json::{Value, json};

/// Name, number in old events, and the text that it types.
const NAMED: [(&str, u32, &str); 15] = [
    ("Enter", 13, "\r"),
    ("Tab", 9, ""),
    ("Escape", 27, ""),
    ("Backspace", 8, ""),
    ("Space", 32, " "),
    ("PageUp", 33, ""),
    ("PageDown", 34, ""),
    ("End", 35, ""),
    ("Home", 36, ""),
    ("ArrowLeft", 37, ""),
    ("ArrowUp", 38, ""),
    ("ArrowRight", 39, ""),
    ("ArrowDown", 40, ""),
    ("Delete", 46, ""),
    ("F1", 112, ""),
];

const SHIFT: u32 = 8;

/// Down and up. A name, or one letter; `Shift+` before it.
pub fn key(name: &str) -> [Value; 2] {
    let (shift, name) = match name.strip_prefix("Shift+") {
        Some(rest) => (SHIFT, rest),
        None => (0, name),
    };
    let Some((_, number, text)) = NAMED.iter().find(|(known, ..)| *known == name) else {
        let mut letters = name.chars();
        let (Some(one), None) = (letters.next(), letters.next()) else {
            panic!("there is no key `{name}`");
        };
        return letter(one);
    };
    let key = if name == "Space" { " " } else { name };
    pair(key, name, *number, text, shift)
}

pub fn letter(letter: char) -> [Value; 2] {
    let text = letter.to_string();
    let upper = letter.to_ascii_uppercase();
    let (number, code) = match upper {
        'A'..='Z' => (u32::from(upper), format!("Key{upper}")),
        '0'..='9' => (u32::from(upper), format!("Digit{upper}")),
        _ => (0, String::new()),
    };
    pair(&text, &code, number, &text, 0)
}

fn pair(key: &str, code: &str, number: u32, text: &str, modifiers: u32) -> [Value; 2] {
    ["keyDown", "keyUp"].map(|kind| {
        let text = if kind == "keyDown" { text } else { "" };
        json!({
            "type": kind, "key": key, "code": code, "text": text, "modifiers": modifiers,
            "windowsVirtualKeyCode": number, "nativeVirtualKeyCode": number,
        })
    })
}
