//! Canonical forms of numbers, dates and clock times, appended to a buffer; see `metrics/text/tokens.py`.

use std::io::Write;

use crate::tokens::grammar::Grammar;

/// Appends a number in plain decimal digits.
pub fn number(grammar: &Grammar, lexeme: &[u8], out: &mut Vec<u8>) {
    let (negative, mut rest) = match lexeme {
        [b'-', rest @ ..] | [0xe2, 0x88, 0x92, rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, lexeme),
    };
    // A currency sign may follow the sign.
    while let [first, after @ ..] = rest {
        if first.is_ascii_digit() || *first == b'.' {
            break;
        }
        rest = after;
    }
    let whole = rest.iter().position(|byte| !byte.is_ascii_digit() && *byte != b',').unwrap_or(rest.len());
    let (whole, rest) = rest.split_at(whole);
    let (mut fraction, mut multiplier) = (&rest[..0], rest);
    if let [b'.', after @ ..] = rest {
        let end = after.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(after.len());
        if end > 0 {
            (fraction, multiplier) = after.split_at(end);
        }
    }
    let start = out.len();
    if negative {
        out.push(b'-');
    }
    let first = out.len();
    let digits = whole.iter().filter(|byte| **byte != b',');
    let power = match multiplier.iter().position(u8::is_ascii_alphabetic) {
        Some(at) => grammar.power(&multiplier[at..]),
        None => 0,
    };
    let moved = power.min(fraction.len());
    let zeros = std::iter::repeat_n(&b'0', power - moved);
    out.extend(digits.chain(&fraction[..moved]).chain(zeros).skip_while(|byte| **byte == b'0'));
    if out.len() == first {
        out.push(b'0');
    }
    let end = fraction.iter().rposition(|byte| *byte != b'0').map_or(0, |last| last + 1);
    if end > moved {
        out.push(b'.');
        out.extend_from_slice(&fraction[moved..end]);
    } else if negative && out[first..] == *b"0" {
        out.truncate(start);
        out.push(b'0');
    }
}

/// Returns the runs of letters and of digits.
fn runs(lexeme: &[u8]) -> impl Iterator<Item = &[u8]> {
    lexeme
        .chunk_by(|one, other| {
            (one.is_ascii_digit() && other.is_ascii_digit())
                || (one.is_ascii_alphabetic() && other.is_ascii_alphabetic())
        })
        .filter(|run| run[0].is_ascii_alphanumeric())
}

fn value(run: &[u8]) -> u32 {
    run.iter().fold(0, |value, digit| value * 10 + u32::from(digit - b'0'))
}

/// Appends a date as 2025-12-09.
pub fn date(grammar: &Grammar, lexeme: &[u8], out: &mut Vec<u8>) {
    let mut numbers = [&lexeme[..0]; 3];
    let (mut count, mut month) = (0, None);
    for run in runs(lexeme) {
        if run[0].is_ascii_digit() {
            numbers[count] = run;
            count += 1;
        } else {
            month = month.or_else(|| grammar.month(run));
        }
    }
    let [first, second, third] = numbers;
    let (year, month, day) = match month {
        Some(month) => (second, month, value(first)),
        None if first.len() == 4 => (first, value(second), value(third)),
        None => (third, value(first).min(value(second)), value(first).max(value(second))),
    };
    out.extend_from_slice(year);
    write!(out, "-{month:02}-{day:02}").expect("a buffer takes everything");
}

/// Appends a time of day as 14:30 or, with seconds that are not 0, 14:30:05.
pub fn clock(lexeme: &[u8], out: &mut Vec<u8>) {
    let mut parts = [0; 3];
    let (mut count, mut half) = (0, 0);
    for (place, run) in runs(lexeme).enumerate() {
        if run[0].is_ascii_digit() {
            if place < 3 {
                parts[count] = value(run);
                count += 1;
            }
        } else if half == 0 {
            half = run[0].to_ascii_lowercase();
        }
    }
    let [mut hour, minute, second] = parts;
    if half != 0 && hour <= 12 {
        hour = hour % 12 + if half == b'p' { 12 } else { 0 };
    }
    write!(out, "{hour:02}:{minute:02}").expect("a buffer takes everything");
    if second > 0 {
        write!(out, ":{second:02}").expect("a buffer takes everything");
    }
}
