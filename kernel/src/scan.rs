//! The 20 rules of `metrics/text/grammar.py`, as a scanner that reads each position once, apart from bounded lookahead.

use crate::classes::*;
use crate::tables::Tables;

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

pub struct Grammar {
    pub classes: Classes,
    /// The names of months, longest first within a month, and their numbers, by their first three letters.
    months: Vec<(u32, Vec<(Vec<u8>, u32)>)>,
    /// For each byte, bits for the places 0, 1 and 2 at which a month's name has it, in any case.
    month_letters: [u8; 256],
    /// The powers of ten that are written in any case, and those of one letter.
    powers: Vec<(Vec<u8>, usize)>,
    short_powers: Vec<(u8, usize)>,
}

impl Grammar {
    pub fn new(tables: &Tables) -> Self {
        let mut names: Vec<(Vec<u8>, u32)> =
            tables.months.iter().map(|(name, number)| (name.clone().into_bytes(), *number)).collect();
        names.sort_by_key(|(name, number)| (*number, std::cmp::Reverse(name.len())));
        let mut month_letters = [0; 256];
        for (name, _) in &names {
            for (place, letter) in name.iter().take(3).enumerate() {
                month_letters[usize::from(letter.to_ascii_lowercase())] |= 1 << place;
                month_letters[usize::from(letter.to_ascii_uppercase())] |= 1 << place;
            }
        }
        let mut months: Vec<(u32, Vec<(Vec<u8>, u32)>)> = Vec::new();
        for (name, number) in names {
            let key = letters_key(&name);
            match months.iter_mut().find(|(own, _)| *own == key) {
                Some((_, known)) => known.push((name, number)),
                None => months.push((key, vec![(name, number)])),
            }
        }
        let (short, long): (Vec<_>, Vec<_>) = tables.powers.iter().partition(|(name, _)| name.len() == 1);
        Self {
            classes: Classes::new(tables),
            months,
            month_letters,
            powers: long.iter().map(|(name, power)| (name.clone().into_bytes(), *power)).collect(),
            short_powers: short.iter().map(|(name, power)| (name.as_bytes()[0], *power)).collect(),
        }
    }

    /// Returns the number of a month's name, in any case.
    pub fn month(&self, name: &[u8]) -> Option<u32> {
        let (_, names) = self.months.iter().find(|(key, _)| *key == letters_key(name))?;
        names.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, number)| *number)
    }

    /// Returns the power of ten of a multiplier.
    pub fn power(&self, name: &[u8]) -> usize {
        let short = self.short_powers.iter().find(|(own, _)| [*own] == name).map(|(_, power)| *power);
        let long = || self.powers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, power)| *power);
        short.or_else(long).unwrap_or(0)
    }
}

/// Returns the first three letters as a number, in any case.
fn letters_key(name: &[u8]) -> u32 {
    name.iter().take(3).fold(0, |key, letter| key << 8 | u32::from(letter | 0x20))
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

pub struct Scanner<'a> {
    grammar: &'a Grammar,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    /// Starts after a list mark that opens the text, else at its start.
    pub fn new(grammar: &'a Grammar, text: &'a str) -> Self {
        let mut scanner = Self { grammar, bytes: text.as_bytes(), at: 0 };
        scanner.at = scanner.list_mark(scanner.run(0, SPACE)).unwrap_or(0);
        scanner
    }

    /// Returns the next match with its start and end.
    #[inline]
    pub fn next(&mut self) -> Option<(Lexeme, usize, usize)> {
        loop {
            let start = self.at;
            let (class, width) = self.class(start);
            if width == 0 {
                return None;
            }
            let (lexeme, end) = if class & LETTER != 0 {
                self.letter_match(start)
            } else if class & (SPACE | LINE_END) == SPACE {
                self.at += width;
                continue;
            } else {
                match self.other(start, class, width) {
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

    /// Returns the class and length of the character at a position; both are 0 at the end.
    #[inline]
    fn class(&self, at: usize) -> (Class, usize) {
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

    fn byte(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or(0)
    }

    fn is(&self, at: usize, class: Class) -> bool {
        self.class(at).0 & class != 0
    }

    fn is_digit(&self, at: usize) -> bool {
        self.byte(at).is_ascii_digit()
    }

    #[inline]
    fn run(&self, mut at: usize, allowed: Class) -> usize {
        loop {
            let (class, width) = self.class(at);
            if class & allowed == 0 {
                return at;
            }
            at += width;
        }
    }

    fn digits(&self, mut at: usize) -> usize {
        while self.is_digit(at) {
            at += 1;
        }
        at
    }

    /// Returns the end of exactly so many digits, whatever follows.
    fn exactly(&self, at: usize, count: usize) -> Option<usize> {
        (0..count).all(|offset| self.is_digit(at + offset)).then_some(at + count)
    }

    fn digit(&self, at: usize) -> u32 {
        u32::from(self.byte(at) - b'0')
    }

    /// Returns the end and value of two digits, if the value is in the range.
    fn two_digits(&self, at: usize, low: u32, high: u32) -> Option<usize> {
        let end = self.exactly(at, 2)?;
        let value = self.digit(at) * 10 + self.digit(at + 1);
        (low <= value && value <= high).then_some(end)
    }

    /// Returns the end of a number from 1 to `high`, of two digits before one, whatever follows.
    fn value(&self, at: usize, high: u32) -> Option<usize> {
        let one = || (self.is_digit(at) && self.digit(at) > 0).then_some(at + 1);
        self.two_digits(at, 1, high).or_else(one)
    }

    fn no_digit(&self, at: usize) -> Option<usize> {
        (!self.is_digit(at)).then_some(at)
    }

    fn literal(&self, at: usize, byte: u8) -> Option<usize> {
        (self.byte(at) == byte).then_some(at + 1)
    }

    fn has_name(&self, at: usize, name: &[u8]) -> bool {
        self.bytes.get(at..at + name.len()).is_some_and(|part| part.eq_ignore_ascii_case(name))
    }

    // Words -----------------------------------------------------------------------------------------------------------

    #[inline]
    fn letter_match(&self, start: usize) -> (Lexeme, usize) {
        if let Some(end) = self.month(start).and_then(|end| self.after_month(end)) {
            return (Lexeme::Date, end);
        }
        let mut at = start;
        // Most words have only letters of ASCII.
        while self.bytes.get(at).is_some_and(u8::is_ascii_alphabetic) {
            at += 1;
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

    /// Returns the position of the character before one.
    fn before(&self, mut at: usize) -> usize {
        loop {
            at -= 1;
            if self.bytes[at] & 0xc0 != 0x80 {
                return at;
            }
        }
    }

    // Dates -----------------------------------------------------------------------------------------------------------

    #[inline]
    fn month(&self, at: usize) -> Option<usize> {
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

    fn after_month(&self, at: usize) -> Option<usize> {
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

    fn iso(&self, at: usize) -> Option<usize> {
        let month = self.two_digits(self.literal(at + 4, b'-')?, 1, 12)?;
        let end = self.no_digit(self.two_digits(self.literal(month, b'-')?, 1, 31)?)?;
        let has_time = self.byte(end) == b'T' && self.exactly(end + 1, 2).is_some() && self.byte(end + 3) == b':';
        Some(end + usize::from(has_time))
    }

    fn day_first(&self, at: usize) -> Option<usize> {
        let name = self.gap(self.day_of_month(at)?)?;
        self.bytes.get(name)?;
        self.year(self.to_year(self.month(name)?)?)
    }

    fn slashed(&self, at: usize) -> Option<usize> {
        let month_first = || self.two_digits(self.literal(self.value(at, 12)?, b'/')?, 13, 31);
        let day_first = || self.value(self.literal(self.two_digits(at, 13, 31)?, b'/')?, 12);
        let end = self.year(self.literal(month_first().or_else(day_first)?, b'/')?)?;
        (self.byte(end) != b'/' || !self.is_digit(end + 1)).then_some(end)
    }

    fn year_slashed(&self, at: usize) -> Option<usize> {
        let month = self.value(self.literal(at + 4, b'/')?, 12)?;
        self.day(self.literal(month, b'/')?)
    }

    // Times and numbers -----------------------------------------------------------------------------------------------

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

    fn time(&self, start: usize, whole: usize) -> Option<usize> {
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
    fn fraction(&self, at: usize) -> Option<usize> {
        let end = self.digits(self.literal(at, b'.')?);
        (end > at + 1).then_some(end)
    }

    fn group(&self, at: usize, width: usize) -> Option<usize> {
        self.exactly(self.literal(at, b',')?, width)
    }

    /// Returns the end of a plain number whose first run of digits ends at `whole`.
    fn plain(&self, start: usize, whole: usize) -> usize {
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

    fn power(&self, at: usize) -> usize {
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

    fn in_front(&self, at: usize) -> bool {
        at == 0 || self.is(self.before(at), SPACE | BRACKET | CURRENCY)
    }

    fn signed(&self, start: usize, width: usize) -> Option<usize> {
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
