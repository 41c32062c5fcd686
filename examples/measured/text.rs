//! Numbers and bars on a terminal.

/// `12,345`
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `0.8 ms` or `38 ms`
pub fn millis(micros: i64) -> String {
    match micros {
        ..10_000 => format!("{:.1} ms", micros as f64 / 1000.0),
        _ => format!("{} ms", (micros + 500) / 1000),
    }
}

/// A bar for a share of a whole.
pub fn bar(part: usize, whole: usize) -> String {
    const WIDTH: usize = 40;
    "█".repeat((part * WIDTH).div_ceil(whole.max(1)))
}
