//! Where a date ends that begins at a position.

use crate::tokens::classes::BLANK;
use crate::tokens::cursor::Cursor;
use crate::tokens::grammar::letters_key;

impl Cursor<'_> {
    #[inline]
    pub fn month(&self, at: usize) -> Option<usize> {
        let letters = &self.grammar.month_letters;
        if letters[usize::from(self.bytes[at])] & 1 == 0
            || letters[usize::from(self.byte(at + 1))] & 2 == 0
            || letters[usize::from(self.byte(at + 2))] & 4 == 0
        {
            return None;
        }
        let key = letters_key(&self.bytes[at..]);
        let (_, names) = self.grammar.months.iter().find(|(own, _)| *own == key)?;
        let name = names.iter().find(|(name, _)| self.has_name(at, name))?;
        let end = at + name.0.len();
        Some(end + usize::from(self.byte(end) == b'.'))
    }

    pub fn after_month(&self, at: usize) -> Option<usize> {
        let day = self.gap(at)?;
        self.year(self.to_year(self.day_of_month(day)?)?)
    }

    fn gap(&self, at: usize) -> Option<usize> {
        let end = self.run(at, BLANK);
        (end > at).then_some(end).or_else(|| self.literal(at, b'-'))
    }

    fn to_year(&self, at: usize) -> Option<usize> {
        match self.literal(at, b',') {
            Some(comma) => Some(self.run(comma, BLANK)),
            None => self.gap(at),
        }
    }

    fn year(&self, at: usize) -> Option<usize> {
        self.exactly(at, 4).and_then(|end| self.no_digit(end))
    }

    fn day(&self, at: usize) -> Option<usize> {
        self.value(at, 31).and_then(|end| self.no_digit(end))
    }

    fn day_of_month(&self, at: usize) -> Option<usize> {
        let end = self.day(at)?;
        let suffix = self.bytes.get(end..end + 2).is_some_and(|part| matches!(part, b"st" | b"nd" | b"rd" | b"th"));
        Some(if suffix && !self.byte(end + 2).is_ascii_alphanumeric() { end + 2 } else { end })
    }

    pub fn iso(&self, at: usize) -> Option<usize> {
        let month = self.two_digits(self.literal(at + 4, b'-')?, 1, 12)?;
        let end = self.no_digit(self.two_digits(self.literal(month, b'-')?, 1, 31)?)?;
        let has_time = self.byte(end) == b'T' && self.exactly(end + 1, 2).is_some() && self.byte(end + 3) == b':';
        Some(end + usize::from(has_time))
    }

    pub fn day_first(&self, at: usize) -> Option<usize> {
        let name = self.gap(self.day_of_month(at)?)?;
        self.bytes.get(name)?;
        self.year(self.to_year(self.month(name)?)?)
    }

    pub fn slashed(&self, at: usize) -> Option<usize> {
        let month_first = || self.two_digits(self.literal(self.value(at, 12)?, b'/')?, 13, 31);
        let day_first = || self.value(self.literal(self.two_digits(at, 13, 31)?, b'/')?, 12);
        let end = self.year(self.literal(month_first().or_else(day_first)?, b'/')?)?;
        (self.byte(end) != b'/' || !self.is_digit(end + 1)).then_some(end)
    }

    pub fn year_slashed(&self, at: usize) -> Option<usize> {
        let month = self.value(self.literal(at + 4, b'/')?, 12)?;
        self.day(self.literal(month, b'/')?)
    }
}
