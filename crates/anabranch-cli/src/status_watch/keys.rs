//! The keys, and what they mean.

use super::map::ColourBy;

/// What somebody wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    End,
    Next,
    Previous,
    By(ColourBy),
    Pause,
    Help,
    /// Back from the help.
    Back,
}

/// The keys as the help names them.
pub(super) const HELP: [(&str, &str); 8] = [
    ("q, Ctrl-C", "end"),
    ("Tab, ↓, →", "the next consumer"),
    ("Shift-Tab, ↑, ←", "the one before"),
    ("o", "colour the slots by their owner; red: it does not go on; grey: nobody has it"),
    ("l", "colour them by lag"),
    ("r", "colour them by the reason why they do not go on"),
    ("space", "stop looking, and go on"),
    ("?", "this help, and back"),
];

/// The keys that these bytes are.
pub(super) fn keys(bytes: &[u8]) -> Vec<Key> {
    let (mut keys, mut bytes) = (Vec::new(), bytes);
    while let Some((&first, rest)) = bytes.split_first() {
        let (key, rest) = match first {
            b'\x1b' => of_sequence(rest),
            first => (of_letter(first), rest),
        };
        keys.extend(key);
        bytes = rest;
    }
    keys
}

fn of_letter(letter: u8) -> Option<Key> {
    Some(match letter {
        // Ctrl-C, where the terminal makes no signal of it.
        b'q' | b'Q' | 3 => Key::End,
        b'\t' => Key::Next,
        b'o' | b'O' => Key::By(ColourBy::Owner),
        b'l' | b'L' => Key::By(ColourBy::Lag),
        b'r' | b'R' => Key::By(ColourBy::Reason),
        b' ' => Key::Pause,
        b'?' | b'h' => Key::Help,
        _ => return None,
    })
}

/// What begins with Escape: arrows in both ways that terminals send them, and others up to their last letter.
fn of_sequence(bytes: &[u8]) -> (Option<Key>, &[u8]) {
    let Some((b'[' | b'O', rest)) = bytes.split_first() else {
        return (Some(Key::Back), bytes);
    };
    let Some(last) = rest.iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
        return (None, &[]);
    };
    let key = match rest[last] {
        b'B' | b'C' => Some(Key::Next),
        b'A' | b'D' | b'Z' => Some(Key::Previous),
        _ => None,
    };
    (key, &rest[last + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_alone_or_in_one_burst() {
        assert_eq!(keys(b"q"), [Key::End]);
        assert_eq!(
            keys(b"\x1b[B\x1bOA\t\x1b[Z"),
            [Key::Next, Key::Previous, Key::Next, Key::Previous]
        );
        assert_eq!(keys(b"l ?"), [Key::By(ColourBy::Lag), Key::Pause, Key::Help]);
    }

    #[test]
    fn keys_that_mean_nothing_do_nothing() {
        // A key of functions, one with a modifier, a letter of two bytes, and a sequence that was cut off.
        assert_eq!(keys(b"x\x1b[15~\x1b[1;5H\xc3\xa4\x1b["), []);
        assert_eq!(keys(b"\x1b"), [Key::Back]);
    }
}
