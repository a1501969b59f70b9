//! The distinct tokens of one event, numbered from 0, so that sets of tokens are marks in one small table.

use crate::tokens::vocabulary::{Kind, Vocabulary, NONE};

/// A distinct token or stem of the event, and what its texts have of it.
#[derive(Clone)]
pub struct Word {
    /// Its number in the vocabulary.
    pub number: u32,
    /// The word of its stem, or `NONE`.
    pub stem: u32,
    pub bits: u32,
    pub kind: Kind,
    pub column: u8,
    /// Its occurrences in the query, in the response and in the expected answer that is read.
    pub query: u32,
    pub response: u32,
    pub answer: u32,
    /// The expected answer, sentence and passage that had it last, counted from 1.
    pub last_answer: u32,
    pub last_keyword: u32,
    pub last_sentence: u32,
    pub last_passage: u32,
    /// One more than its place among the query's terms.
    pub term: u32,
    /// One more than its place among the response's distinct tokens, and as a stem among the response's stems.
    pub row: u32,
    pub stem_row: u32,
    /// Its occurrences as a stem in the contexts, if a claim has it.
    pub frequency: u32,
    pub marks: u32,
}

/// The stem occurs in the query, in a context.
pub const IN_QUERY: u32 = 1;
pub const IN_CONTEXT: u32 = 1 << 1;
/// The token is a number or moment of the response, or a capitalised phrase, and occurs in a context.
pub const WANTED: u32 = 1 << 2;
pub const FOUND: u32 = 1 << 3;
/// The token is a capitalised phrase of the response.
pub const NAME: u32 = 1 << 4;
/// The stem is one of a claim.
pub const IN_CLAIM: u32 = 1 << 5;

#[derive(Default)]
pub struct Words {
    event: u32,
    /// The event that had a word of the vocabulary last, and its place in `words`.
    places: Vec<(u32, u32)>,
    words: Vec<Word>,
}

impl Words {
    /// Empties the table for the next event.
    pub fn clear(&mut self) {
        self.words.clear();
        self.event = self.event.wrapping_add(1);
        if self.event == 0 {
            self.places.clear();
            self.event = 1;
        }
    }

    /// Returns the place of a word of the vocabulary.
    #[inline]
    pub fn place(&mut self, vocabulary: &Vocabulary, number: u32) -> u32 {
        match self.places.get(number as usize) {
            Some(&(event, place)) if event == self.event => place,
            _ => self.insert(vocabulary, number),
        }
    }

    fn insert(&mut self, vocabulary: &Vocabulary, number: u32) -> u32 {
        if self.places.len() < vocabulary.len() {
            self.places.resize(vocabulary.len(), (0, 0));
        }
        let place = self.words.len() as u32;
        self.places[number as usize] = (self.event, place);
        let entry = vocabulary.entry(number);
        self.words.push(Word {
            number,
            stem: NONE,
            bits: entry.bits,
            kind: entry.kind,
            column: entry.column,
            query: 0,
            response: 0,
            answer: 0,
            last_answer: 0,
            last_keyword: 0,
            last_sentence: 0,
            last_passage: 0,
            term: 0,
            row: 0,
            stem_row: 0,
            frequency: 0,
            marks: 0,
        });
        if entry.stem != NONE {
            let stem = if entry.stem == number { place } else { self.place(vocabulary, entry.stem) };
            self.words[place as usize].stem = stem;
        }
        place
    }

    pub fn len(&self) -> usize {
        self.words.len()
    }
}

impl std::ops::Index<u32> for Words {
    type Output = Word;

    #[inline]
    fn index(&self, place: u32) -> &Word {
        &self.words[place as usize]
    }
}

impl std::ops::IndexMut<u32> for Words {
    #[inline]
    fn index_mut(&mut self, place: u32) -> &mut Word {
        &mut self.words[place as usize]
    }
}
