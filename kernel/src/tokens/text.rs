//! A tokenised text: the places of its tokens in the words of the event, and their shape; see `metrics/text/text.py`.

use crate::tables::*;
use crate::tokens::grammar::Grammar;
use crate::tokens::scan::{Lexeme, Scanner};
use crate::tokens::values;
use crate::tokens::vocabulary::{Kind, Vocabulary};
use crate::tokens::words::Words;

const SMALL: u64 = u64::from_le_bytes([0x20; 8]);

#[derive(Default)]
pub struct Text {
    /// The tokens in order.
    pub tokens: Vec<u32>,
    /// One letter for each token, as in `metrics/text/tokens.py`, `.` for the end of a sentence, `,` for other signs.
    pub shape: Vec<u8>,
    /// Each token's start and stop in bytes; only of the response.
    pub spans: Vec<(u32, u32)>,
    /// The numbers of the citation marks with the marks' starts; only of the response.
    pub citations: Vec<(u32, u32)>,
    /// The end in bytes at which the text was cut.
    pub end: usize,
    pub cut: bool,
}

/// What is written and read while texts are tokenised.
pub struct Tokeniser<'a> {
    pub grammar: &'a Grammar,
    pub vocabulary: &'a mut Vocabulary,
    pub words: &'a mut Words,
}

/// The start of a text that a limit on tokens admits, and true if the text is longer.
pub fn readable(raw: &str, characters: usize) -> (&str, bool) {
    if raw.len() <= characters {
        return (raw, false);
    }
    match raw.char_indices().nth(characters) {
        Some((end, _)) => (&raw[..end], true),
        None => (raw, false),
    }
}

impl Text {
    fn clear(&mut self) {
        self.tokens.clear();
        self.shape.clear();
        self.spans.clear();
        self.citations.clear();
    }

    /// Reads a text of at most `limit` tokens; `is_response` keeps spans and citation marks.
    pub fn read(&mut self, tokeniser: &mut Tokeniser, text: &str, limit: usize, is_response: bool) {
        self.clear();
        let grammar = tokeniser.grammar;
        let mut scanner = Scanner::new(grammar, text);
        // The shape of the last match if it is an abbreviation, at which a full stop ends no sentence.
        let mut abbreviated = false;
        let mut last_end = 0;
        self.cut = false;
        while let Some((lexeme, start, end)) = scanner.next() {
            let (token, shape) = match lexeme {
                Lexeme::Word(plain) => {
                    let (token, shape, is_abbreviation) = tokeniser.word(text, start, end, plain);
                    abbreviated = is_abbreviation;
                    (token, shape)
                }
                Lexeme::FullStop if abbreviated => {
                    abbreviated = false;
                    continue;
                }
                Lexeme::Pairs => {
                    abbreviated = false;
                    let run = text[start..end].char_indices().map(|(at, each)| (start + at, each));
                    let mut previous: Option<(usize, char)> = None;
                    for (at, each) in run.chain([(end, '\0')]) {
                        let is_last = at == end;
                        if let Some((first, before)) = previous {
                            // A single character is a token of its own.
                            let is_single = is_last && first == start;
                            if !is_last || is_single {
                                if self.tokens.len() == limit {
                                    self.cut = true;
                                    break;
                                }
                                let token = tokeniser.pair(before, (!is_single).then_some(each));
                                last_end = at + if is_single { 0 } else { each.len_utf8() };
                                self.push(token, b'P', (first, last_end), is_response);
                            }
                        }
                        previous = Some((at, each));
                    }
                    if self.cut {
                        break;
                    }
                    continue;
                }
                Lexeme::Number => (tokeniser.value(Kind::Number, &text[start..end], values::number), b'N'),
                Lexeme::Date => (tokeniser.value(Kind::Moment, &text[start..end], values::date), b'D'),
                Lexeme::Time => {
                    (tokeniser.value(Kind::Moment, &text[start..end], |_, each, out| values::clock(each, out)), b'T')
                }
                Lexeme::Identifier => (tokeniser.identifier(&text[start..end]), b'I'),
                Lexeme::End | Lexeme::FullStop => {
                    abbreviated = false;
                    self.shape.push(b'.');
                    continue;
                }
                Lexeme::Citation | Lexeme::Signs => {
                    abbreviated = false;
                    self.shape.push(b',');
                    if is_response && lexeme == Lexeme::Citation {
                        let numbers = text[start + 1..end - 1].split(',');
                        let digits = numbers.map(|each| each.bytes().filter(u8::is_ascii_digit));
                        let values =
                            digits.map(|each| each.fold(0, |value, digit| value * 10 + u32::from(digit - b'0')));
                        self.citations.extend(values.map(|value| (value, start as u32)));
                    }
                    continue;
                }
            };
            if self.tokens.len() == limit {
                self.cut = true;
                break;
            }
            if lexeme_is_value(shape) {
                abbreviated = false;
            }
            last_end = end;
            self.push(token, shape, (start, end), is_response);
        }
        self.end = if self.cut { last_end } else { text.len() };
        self.citations.retain(|(_, start)| (*start as usize) < self.end);
    }

    #[inline]
    fn push(&mut self, token: u32, shape: u8, span: (usize, usize), is_response: bool) {
        self.tokens.push(token);
        self.shape.push(shape);
        if is_response {
            self.spans.push((span.0 as u32, span.1 as u32));
        }
    }

    /// Returns the sentences that have tokens, as the start and stop of their tokens.
    pub fn sentences(&self) -> Sentences<'_> {
        Sentences { shape: self.shape.iter(), token: 0 }
    }

    /// Returns the capitalised phrases, as the start and stop of their tokens.
    pub fn phrases(&self) -> Phrases<'_> {
        Phrases { shape: &self.shape, at: 0, token: 0, is_start: true }
    }
}

/// Returns true for the shape of a number, date, time or identifier.
fn lexeme_is_value(shape: u8) -> bool {
    matches!(shape, b'N' | b'D' | b'T' | b'I')
}

impl Tokeniser<'_> {
    /// Returns a word's token, its shape, and true for an abbreviation.
    #[inline]
    fn word(&mut self, text: &str, start: usize, end: usize, plain: bool) -> (u32, u8, bool) {
        let (bytes, length) = (text.as_bytes(), end - start);
        let (number, capital) = if plain {
            let number = match bytes.get(start..start + 8) {
                Some(eight) if length <= 8 => {
                    let eight = u64::from_le_bytes(eight.try_into().expect("they are eight"));
                    // The bit is that of small letters; digits and apostrophes have it as well.
                    self.vocabulary.intern_short((eight | SMALL) & (u64::MAX >> (64 - 8 * length)))
                }
                _ => {
                    let from = self.vocabulary.start();
                    self.vocabulary.buffer().extend(bytes[start..end].iter().map(u8::to_ascii_lowercase));
                    self.vocabulary.intern(from, Kind::Word)
                }
            };
            (number, bytes[start].is_ascii_uppercase())
        } else {
            let written = &text[start..end];
            let first = written.chars().next().expect("a word has a character");
            let from = self.vocabulary.start();
            self.fold(written);
            let capital = first != 'ς' && self.grammar.classes.fold(first) != first;
            (self.vocabulary.intern(from, Kind::Word), capital)
        };
        let token = self.words.place(self.vocabulary, number);
        let bits = self.words[token].bits;
        let shape = match (capital, bits & STOP != 0) {
            (true, true) => b'c',
            (true, false) => b'C',
            (false, _) => b'w',
        };
        (token, shape, bits & (STOP | ABBREVIATION) == ABBREVIATION)
    }

    fn fold(&mut self, written: &str) {
        let classes = &self.grammar.classes;
        let buffer = self.vocabulary.buffer();
        let mut encoded = [0; 4];
        for each in written.chars() {
            buffer.extend_from_slice(classes.fold(each).encode_utf8(&mut encoded).as_bytes());
        }
    }

    fn identifier(&mut self, written: &str) -> u32 {
        let start = self.vocabulary.start();
        self.fold(written);
        self.place(start, Kind::Identifier)
    }

    fn pair(&mut self, first: char, second: Option<char>) -> u32 {
        let start = self.vocabulary.start();
        let mut encoded = [0; 4];
        for each in [Some(first), second].into_iter().flatten() {
            self.fold(each.encode_utf8(&mut encoded));
        }
        self.place(start, Kind::Pair)
    }

    fn value(&mut self, kind: Kind, written: &str, canonical: impl Fn(&Grammar, &[u8], &mut Vec<u8>)) -> u32 {
        let start = self.vocabulary.start();
        canonical(self.grammar, written.as_bytes(), self.vocabulary.buffer());
        self.place(start, kind)
    }

    fn place(&mut self, start: usize, kind: Kind) -> u32 {
        let number = self.vocabulary.intern(start, kind);
        self.words.place(self.vocabulary, number)
    }
}

pub struct Sentences<'a> {
    shape: std::slice::Iter<'a, u8>,
    token: usize,
}

impl Iterator for Sentences<'_> {
    type Item = (usize, usize);

    fn next(&mut self) -> Option<(usize, usize)> {
        let start = self.token;
        for letter in self.shape.by_ref() {
            match letter {
                b',' => {}
                b'.' if self.token > start => return Some((start, self.token)),
                b'.' => {}
                _ => self.token += 1,
            }
        }
        (self.token > start).then_some((start, self.token))
    }
}

pub struct Phrases<'a> {
    shape: &'a [u8],
    at: usize,
    token: usize,
    /// True at the start of a sentence.
    is_start: bool,
}

impl Iterator for Phrases<'_> {
    type Item = (usize, usize);

    fn next(&mut self) -> Option<(usize, usize)> {
        while let Some(&letter) = self.shape.get(self.at) {
            if letter != b'C' {
                self.at += 1;
                match letter {
                    b'.' => self.is_start = true,
                    b',' => {}
                    _ => {
                        self.is_start = false;
                        self.token += 1;
                    }
                }
                continue;
            }
            let run = self.run();
            let (start, is_start) = (self.token, self.is_start);
            self.at += run;
            self.token += run;
            self.is_start = false;
            if run > 1 || !is_start {
                return Some((start, start + run));
            }
        }
        None
    }
}

impl Phrases<'_> {
    /// Returns the length of the phrase here: capitalised words, numbers and identifiers, with capitalised stop words
    /// between them.
    fn run(&self) -> usize {
        let rest = &self.shape[self.at..];
        let (mut length, mut stops) = (1, 0);
        for letter in &rest[1..] {
            match letter {
                b'C' | b'N' | b'I' => {
                    length += stops + 1;
                    stops = 0;
                }
                b'c' => stops += 1,
                _ => break,
            }
        }
        length
    }
}
