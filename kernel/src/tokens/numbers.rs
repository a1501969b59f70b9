//! Where a time of day or a number ends that begins at a position.

use crate::tokens::classes::*;
use crate::tokens::cursor::Cursor;

impl Cursor<'_> {
    pub fn time(&self, start: usize, whole: usize) -> Option<usize> {
        if whole - start == 1 || self.two_digits(start, 0, 23).is_some() {
            let minute = self.literal(whole, b':').and_then(|at| self.sixtieth(at));
            if let Some(end) = minute {
                let second = self.literal(end, b':').and_then(|at| self.sixtieth(at));
                let end = second.map_or(end, |end| self.fraction(end).unwrap_or(end));
                return Some(self.half_day(end).unwrap_or(end));
            }
        }
        self.half_day(self.value(start, 12)?)
    }

    fn sixtieth(&self, at: usize) -> Option<usize> {
        self.two_digits(at, 0, 59).and_then(|end| self.no_digit(end))
    }

    fn half_day(&self, at: usize) -> Option<usize> {
        let at = self.run(at, BLANK);
        if !matches!(self.byte(at), b'a' | b'A' | b'p' | b'P') {
            return None;
        }
        if matches!(self.byte(at + 1), b'm' | b'M') && !self.is(at + 2, WORD | UNSPACED) {
            return Some(at + 2);
        }
        let dotted = |part: &[u8]| matches!(part, b"a.m." | b"p.m." | b"A.M." | b"P.M.");
        self.bytes.get(at..at + 4).is_some_and(dotted).then_some(at + 4)
    }

    /// Returns the end of a full stop and digits.
    pub fn fraction(&self, at: usize) -> Option<usize> {
        let end = self.digits(self.literal(at, b'.')?);
        (end > at + 1).then_some(end)
    }

    fn group(&self, at: usize, width: usize) -> Option<usize> {
        self.exactly(self.literal(at, b',')?, width)
    }

    /// Returns the end of a plain number whose first run of digits ends at `whole`.
    pub fn plain(&self, start: usize, whole: usize) -> usize {
        let end = self.grouped(start, whole).unwrap_or(whole);
        self.fraction(end).unwrap_or(end)
    }

    fn grouped(&self, start: usize, whole: usize) -> Option<usize> {
        let thousands = |at| self.group(at, 3).and_then(|end| self.no_digit(end));
        if whole - start > 3 || self.byte(whole) != b',' {
            return None;
        }
        if let Some(mut end) = thousands(whole) {
            while let Some(after) = thousands(end) {
                end = after;
            }
            return Some(end);
        }
        if whole - start > 2 {
            return None;
        }
        let mut end = whole;
        for _ in 0..6 {
            match self.group(end, 2) {
                Some(after) if self.byte(after) == b',' => end = after,
                _ => break,
            }
        }
        if end > whole {
            thousands(end)
        } else {
            None
        }
    }

    pub fn power(&self, at: usize) -> usize {
        let run_on = |end| self.is(end, WORD | UNSPACED);
        let name = self.run(at, BLANK);
        if self.byte(name).is_ascii_alphabetic() {
            let long = self.grammar.powers.iter().find(|(own, _)| self.has_name(name, own));
            if let Some(end) = long.map(|(own, _)| name + own.len()).filter(|&end| !run_on(end)) {
                return end;
            }
        }
        let short = self.grammar.short_powers.iter().any(|&(own, _)| self.byte(at) == own);
        at + usize::from(short && !run_on(at + 1))
    }

    pub fn in_front(&self, at: usize) -> bool {
        at == 0 || self.is(self.before(at), SPACE | BRACKET | CURRENCY)
    }

    pub fn signed(&self, start: usize, width: usize) -> Option<usize> {
        if !self.in_front(start) {
            return None;
        }
        let mut at = start + width;
        let (class, width) = self.class(at);
        if class & CURRENCY != 0 {
            at += width;
        }
        let whole = self.digits(at);
        let end = if whole > at { Some(self.plain(at, whole)) } else { self.fraction(at) };
        end.map(|end| self.power(end))
    }
}
