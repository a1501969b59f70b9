//! The 20 rules of `metrics/text/grammar.py`, as a scanner that reads each position once, apart from bounded lookahead.

use crate::tokens::classes::*;
use crate::tokens::cursor::Cursor;
use crate::tokens::grammar::Grammar;

/// A match of one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lexeme {
    /// Rules 3 and 19; true if it has only characters of ASCII.
    Word(bool),
    Identifier,
    Number,
    Date,
    Time,
    Pairs,
    /// Rules 4 and 13: an end of a sentence.
    End,
    /// Rule 5.
    FullStop,
    Citation,
    /// Rules 15 and 20.
    Signs,
}

/// Returns the number of letters of ASCII with which eight bytes begin, the lowest byte first.
#[inline]
fn leading_letters(bytes: u64) -> usize {
    const ONES: u64 = u64::MAX / 0xff;
    const HIGH: u64 = ONES << 7;
    // The high bit of each byte is set by the sums if it is at least `a`, and if it is above `z`.
    let small = (bytes | (ONES * 0x20)) & !HIGH;
    let from_a = small + ONES * (0x80 - b'a' as u64);
    let above_z = small + ONES * (0x80 - b'z' as u64 - 1);
    let letters = from_a & !above_z & !bytes & HIGH;
    (!letters & HIGH).trailing_zeros() as usize / 8
}

pub struct Scanner<'a> {
    cursor: Cursor<'a>,
    at: usize,
}

impl<'a> Scanner<'a> {
    /// Starts after a list mark that opens the text, else at its start.
    pub fn new(grammar: &'a Grammar, text: &'a str) -> Self {
        let cursor = Cursor { grammar, bytes: text.as_bytes() };
        let at = cursor.list_mark(cursor.run(0, SPACE)).unwrap_or(0);
        Self { cursor, at }
    }

    /// Returns the next match with its start and end.
    #[inline]
    pub fn next(&mut self) -> Option<(Lexeme, usize, usize)> {
        loop {
            let start = self.at;
            let (class, width) = self.cursor.class(start);
            if width == 0 {
                return None;
            }
            let (lexeme, end) = if class & LETTER != 0 {
                self.cursor.letter_match(start)
            } else if class & (SPACE | LINE_END) == SPACE {
                self.at += width;
                continue;
            } else {
                match self.cursor.other(start, class, width) {
                    Some(found) => found,
                    None => {
                        self.at += width;
                        continue;
                    }
                }
            };
            self.at = end;
            return Some((lexeme, start, end));
        }
    }
}

impl Cursor<'_> {
    fn other(&self, start: usize, class: Class, width: usize) -> Option<(Lexeme, usize)> {
        if class & DIGIT != 0 {
            return Some(self.digit_match(start));
        }
        if class & LINE_END != 0 {
            let end = self.run(start, SPACE);
            return Some((Lexeme::End, self.list_mark(end).unwrap_or(end)));
        }
        if class & END != 0 {
            return Some((Lexeme::End, start + width));
        }
        if class & ALONE != 0 {
            return match self.bytes[start] {
                b'.' => self.full_stop(start),
                b'[' => match self.citation(start) {
                    Some(end) => Some((Lexeme::Citation, end)),
                    None => Some((Lexeme::Signs, start + 1)),
                },
                _ => None,
            };
        }
        if class & SIGN != 0 {
            return self.signed(start, width).map(|end| (Lexeme::Number, end));
        }
        if class & UNSPACED != 0 {
            return Some((Lexeme::Pairs, self.run(start, UNSPACED | MARK)));
        }
        if class & NUMERAL != 0 {
            return Some((Lexeme::Word(false), self.word_tails(self.run(start, WORD))));
        }
        if class & (APOSTROPHE | HYPHEN | MARK) != 0 {
            return None;
        }
        const OUTSIDE: Class = SPACE | WORD | UNSPACED | HYPHEN | APOSTROPHE | SIGN | ALONE | END;
        let mut end = start + width;
        loop {
            let (class, width) = self.class(end);
            if width == 0 || class & OUTSIDE != 0 {
                return Some((Lexeme::Signs, end));
            }
            end += width;
        }
    }

    // Words -----------------------------------------------------------------------------------------------------------

    #[inline]
    fn letter_match(&self, start: usize) -> (Lexeme, usize) {
        if let Some(end) = self.month(start).and_then(|end| self.after_month(end)) {
            return (Lexeme::Date, end);
        }
        let mut at = start;
        // Most words have only letters of ASCII, and are short.
        while let Some(eight) = self.bytes.get(at..at + 8) {
            let count = leading_letters(u64::from_le_bytes(eight.try_into().expect("they are eight")));
            at += count;
            if count < 8 {
                break;
            }
        }
        let mut plain = true;
        loop {
            let (class, width) = self.class(at);
            if class & (LETTER | MARK) == 0 {
                if class & HYPHEN != 0 {
                    if let Some(end) = self.identifier_end(at + width) {
                        return (Lexeme::Identifier, end);
                    }
                    return (Lexeme::Word(plain), at);
                }
                if class & (NUMERAL | APOSTROPHE) == 0 {
                    return (Lexeme::Word(plain), at);
                }
                break;
            }
            plain &= width == 1;
            at += width;
        }
        let end = self.word_tails(self.run(at, WORD));
        (Lexeme::Word(self.bytes[start..end].is_ascii()), end)
    }

    /// Returns the end of what follows the hyphen of an identifier, which has a digit.
    fn identifier_end(&self, start: usize) -> Option<usize> {
        let mut at = start;
        let mut has_digit = false;
        loop {
            let (class, width) = self.class(at);
            if class & WORD == 0 {
                return has_digit.then_some(at);
            }
            has_digit |= class & DIGIT != 0;
            at += width;
        }
    }

    /// Returns the end of the parts of a word behind apostrophes, each between two letters.
    fn word_tails(&self, mut at: usize) -> usize {
        loop {
            let (class, width) = self.class(at);
            if class & APOSTROPHE == 0 || !self.is(self.before(at), LETTER | MARK) || !self.is(at + width, LETTER) {
                return at;
            }
            at = self.run(at + width, WORD);
        }
    }

    fn digit_match(&self, start: usize) -> (Lexeme, usize) {
        let whole = self.digits(start);
        let date = match whole - start {
            4 => self.iso(start).or_else(|| self.year_slashed(start)),
            1 | 2 => self.day_first(start).or_else(|| self.slashed(start)),
            _ => None,
        };
        if let Some(end) = date {
            return (Lexeme::Date, end);
        }
        if whole - start <= 2 {
            if let Some(end) = self.time(start, whole) {
                return (Lexeme::Time, end);
            }
        }
        (Lexeme::Number, self.power(self.plain(start, whole)))
    }

    // Signs -----------------------------------------------------------------------------------------------------------

    fn full_stop(&self, at: usize) -> Option<(Lexeme, usize)> {
        let next = self.byte(at + 1);
        if !next.is_ascii_lowercase() && !next.is_ascii_digit() {
            return Some((Lexeme::FullStop, at + 1));
        }
        let end = self.fraction(at).filter(|_| self.in_front(at))?;
        Some((Lexeme::Number, self.power(end)))
    }

    fn citation(&self, start: usize) -> Option<usize> {
        let mut at = start;
        loop {
            let first = self.run(at + 1, BLANK);
            let last = first + (0..3).take_while(|offset| self.is_digit(first + offset)).count();
            at = self.run(last, BLANK);
            match self.byte(at) {
                _ if last == first => return None,
                b']' => return Some(at + 1),
                b',' => {}
                _ => return None,
            }
        }
    }

    fn list_mark(&self, start: usize) -> Option<usize> {
        let last = self.digits(start);
        let is_mark = (1..=3).contains(&(last - start)) && matches!(self.byte(last), b'.' | b')');
        (is_mark && self.is(last + 1, BLANK)).then_some(last + 1)
    }
}
