//! Reading characters at a position of a text: their classes, runs of them, digits and names.

use crate::tokens::classes::Class;
use crate::tokens::grammar::Grammar;

pub struct Cursor<'a> {
    pub grammar: &'a Grammar,
    pub bytes: &'a [u8],
}

impl Cursor<'_> {
    /// Returns the class and length of the character at a position; both are 0 at the end.
    #[inline]
    pub fn class(&self, at: usize) -> (Class, usize) {
        match self.bytes.get(at) {
            None => (0, 0),
            Some(&byte) if byte < 0x80 => (self.grammar.classes.ascii[usize::from(byte)], 1),
            Some(_) => self.far_class(at),
        }
    }

    #[inline(never)]
    fn far_class(&self, at: usize) -> (Class, usize) {
        let (character, width) = decode(self.bytes, at);
        (self.grammar.classes.get(character), width)
    }

    pub fn byte(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or(0)
    }

    pub fn is(&self, at: usize, class: Class) -> bool {
        self.class(at).0 & class != 0
    }

    pub fn is_digit(&self, at: usize) -> bool {
        self.byte(at).is_ascii_digit()
    }

    #[inline]
    pub fn run(&self, mut at: usize, allowed: Class) -> usize {
        loop {
            let (class, width) = self.class(at);
            if class & allowed == 0 {
                return at;
            }
            at += width;
        }
    }

    pub fn digits(&self, mut at: usize) -> usize {
        while self.is_digit(at) {
            at += 1;
        }
        at
    }

    /// Returns the end of exactly so many digits, whatever follows.
    pub fn exactly(&self, at: usize, count: usize) -> Option<usize> {
        (0..count).all(|offset| self.is_digit(at + offset)).then_some(at + count)
    }

    pub fn digit(&self, at: usize) -> u32 {
        u32::from(self.byte(at) - b'0')
    }

    /// Returns the end and value of two digits, if the value is in the range.
    pub fn two_digits(&self, at: usize, low: u32, high: u32) -> Option<usize> {
        let end = self.exactly(at, 2)?;
        let value = self.digit(at) * 10 + self.digit(at + 1);
        (low <= value && value <= high).then_some(end)
    }

    /// Returns the end of a number from 1 to `high`, of two digits before one, whatever follows.
    pub fn value(&self, at: usize, high: u32) -> Option<usize> {
        let one = || (self.is_digit(at) && self.digit(at) > 0).then_some(at + 1);
        self.two_digits(at, 1, high).or_else(one)
    }

    pub fn no_digit(&self, at: usize) -> Option<usize> {
        (!self.is_digit(at)).then_some(at)
    }

    pub fn literal(&self, at: usize, byte: u8) -> Option<usize> {
        (self.byte(at) == byte).then_some(at + 1)
    }

    pub fn has_name(&self, at: usize, name: &[u8]) -> bool {
        self.bytes.get(at..at + name.len()).is_some_and(|part| part.eq_ignore_ascii_case(name))
    }

    /// Returns the position of the character before one.
    pub fn before(&self, mut at: usize) -> usize {
        loop {
            at -= 1;
            if self.bytes[at] & 0xc0 != 0x80 {
                return at;
            }
        }
    }
}

/// Returns the character at a position of UTF-8, and its length.
fn decode(bytes: &[u8], at: usize) -> (char, usize) {
    let lead = u32::from(bytes[at]);
    let rest = |offset: usize| u32::from(bytes[at + offset]) & 0x3f;
    let (code, width) = match lead {
        0..=0x7f => (lead, 1),
        0x80..=0xdf => ((lead & 0x1f) << 6 | rest(1), 2),
        0xe0..=0xef => ((lead & 0x0f) << 12 | rest(1) << 6 | rest(2), 3),
        _ => ((lead & 0x07) << 18 | rest(1) << 12 | rest(2) << 6 | rest(3), 4),
    };
    (char::from_u32(code).expect("the text is UTF-8"), width)
}
