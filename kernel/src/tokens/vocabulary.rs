//! The vocabulary: a number for each distinct token, kept from event to event.
//!
//! It starts with the words of all lists and returns to these when it has grown large. The hash has a random key per
//! process, so that texts with many collisions cannot be computed beforehand; no result depends on the numbers.

use std::hash::{BuildHasher, Hasher};

use foldhash::quality::RandomState;
use hashbrown::HashTable;

use crate::tables::*;

/// No stem, since the token is not content.
pub const NONE: u32 = u32::MAX;

const MAX_WORDS: usize = 1 << 15;
const MAX_BYTES: usize = 1 << 19;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Word,
    Pair,
    Number,
    Moment,
    Identifier,
}

#[derive(Clone)]
pub struct Entry {
    hash: u64,
    /// The token as a number, 0 if it is longer than eight bytes.
    short: u64,
    offset: u32,
    length: u32,
    /// The number of the token's stem, or `NONE`.
    pub stem: u32,
    /// The properties of `tables`.
    pub bits: u32,
    pub kind: Kind,
    /// The column of the automaton of phrases, 0 for none.
    pub column: u8,
    /// The letter of its roles in refusals.
    pub letter: char,
}

#[derive(Clone)]
pub struct Vocabulary {
    hasher: RandomState,
    /// The random key of the hash of short tokens.
    key: (u64, u64),
    table: HashTable<u32>,
    entries: Vec<Entry>,
    bytes: Vec<u8>,
    sizes: Sizes,
}

/// Returns a token of at most eight bytes as a number; 0 if it is longer, as no token has a byte of 0.
#[inline]
pub fn short(token: &[u8]) -> u64 {
    match token.len() {
        0..=8 => token.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)),
        _ => 0,
    }
}

/// The letter of words without a role.
pub const NEUTRAL: char = '-';

impl Vocabulary {
    pub fn new(tables: &Tables) -> Self {
        let hasher = RandomState::default();
        let mut own = Self {
            key: (hasher.hash_one(1), hasher.hash_one(2) | 1),
            hasher,
            table: HashTable::new(),
            entries: Vec::new(),
            bytes: Vec::new(),
            sizes: tables.sizes.clone(),
        };
        // The stop words come first, since they have no stems.
        for (name, bit) in LISTS {
            for word in &tables.words[name] {
                own.listed(word, bit);
            }
        }
        for (word, letter) in &tables.roles {
            let number = own.listed(word, 0);
            own.entries[number as usize].letter = *letter;
        }
        let indicators = tables.indicators.iter().map(|(phrase, _)| phrase);
        for phrase in tables.dont_know.iter().chain(&tables.non_answers).chain(&tables.hedges).chain(indicators) {
            for word in phrase {
                own.listed(word, IN_PHRASE);
            }
        }
        let in_phrases = own.entries.iter_mut().filter(|entry| entry.bits & IN_PHRASE != 0);
        for (column, entry) in in_phrases.enumerate() {
            entry.column = u8::try_from(column + 1).expect("the phrases have fewer than 256 distinct words");
        }
        own
    }

    fn listed(&mut self, word: &str, bit: u32) -> u32 {
        let start = self.start();
        self.bytes.extend_from_slice(word.as_bytes());
        let number = self.intern_with(start, Kind::Word, bit);
        self.entries[number as usize].bits |= bit;
        number
    }

    /// Returns the column of a listed word in the automaton of phrases.
    pub fn listed_column(&mut self, word: &str) -> u8 {
        let number = self.listed(word, 0);
        self.entry(number).column
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn entry(&self, number: u32) -> &Entry {
        &self.entries[number as usize]
    }

    pub fn text(&self, number: u32) -> &[u8] {
        let entry = self.entry(number);
        &self.bytes[entry.offset as usize..][..entry.length as usize]
    }

    /// Returns true if it has grown so large that it should be replaced.
    pub fn is_large(&self) -> bool {
        self.entries.len() > MAX_WORDS || self.bytes.len() > MAX_BYTES
    }

    /// Returns the start of a token whose bytes the caller then appends to `buffer`.
    pub fn start(&self) -> usize {
        self.bytes.len()
    }

    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Returns the number of the token that was appended to the buffer from `start`.
    #[inline]
    pub fn intern(&mut self, start: usize, kind: Kind) -> u32 {
        self.intern_with(start, kind, 0)
    }

    /// Returns the number of a word of at most eight bytes, as `short` gives it.
    #[inline]
    pub fn intern_short(&mut self, short: u64) -> u32 {
        let hash = self.hash_short(short);
        let entries = &self.entries;
        if let Some(&number) = self.table.find(hash, |&number| entries[number as usize].short == short) {
            return number;
        }
        let start = self.start();
        self.bytes.extend(short.to_le_bytes().into_iter().take_while(|byte| *byte != 0));
        self.insert(start, Kind::Word, 0, hash, short)
    }

    #[inline]
    fn intern_with(&mut self, start: usize, kind: Kind, bits: u32) -> u32 {
        let (token, entries, bytes) = (&self.bytes[start..], &self.entries, &self.bytes);
        let short = short(token);
        let (hash, found) = if short != 0 {
            let hash = self.hash_short(short);
            (hash, self.table.find(hash, |&number| entries[number as usize].short == short))
        } else {
            let mut hasher = self.hasher.build_hasher();
            hasher.write(token);
            let hash = hasher.finish();
            let same = |&number: &u32| {
                let entry: &Entry = &entries[number as usize];
                entry.hash == hash && &bytes[entry.offset as usize..][..entry.length as usize] == token
            };
            (hash, self.table.find(hash, same))
        };
        if let Some(&number) = found {
            self.bytes.truncate(start);
            return number;
        }
        self.insert(start, kind, bits, hash, short)
    }

    #[inline]
    fn hash_short(&self, short: u64) -> u64 {
        let product = u128::from(short ^ self.key.0) * u128::from(self.key.1);
        product as u64 ^ (product >> 64) as u64
    }

    #[inline(never)]
    fn insert(&mut self, start: usize, kind: Kind, bits: u32, hash: u64, short: u64) -> u32 {
        let number = u32::try_from(self.entries.len()).expect("an event has fewer than 2^32 tokens");
        let length = self.bytes.len() - start;
        let (offset, length) = (u32::try_from(start).expect("fewer than 4 GiB"), length as u32);
        let entry = Entry { hash, short, offset, length, stem: number, bits, kind, column: 0, letter: NEUTRAL };
        self.entries.push(entry);
        let entries = &self.entries;
        self.table.insert_unique(hash, number, |&each| entries[each as usize].hash);
        let (stem, long) = self.stem(start, number, kind, bits);
        let entry = &mut self.entries[number as usize];
        entry.stem = stem;
        entry.bits |= long;
        number
    }

    /// Returns the number of a token's stem, and properties that follow from its length.
    fn stem(&mut self, start: usize, number: u32, kind: Kind, bits: u32) -> (u32, u32) {
        if kind != Kind::Word {
            return (number, LONG);
        }
        let token = std::str::from_utf8(&self.bytes[start..]).expect("the text is UTF-8");
        let mut characters = token.char_indices();
        let cut = characters.by_ref().nth(self.sizes.stem_length).map(|(at, _)| at);
        let length = token.chars().take(self.sizes.min_keyword_letters.max(self.sizes.stem_length)).count();
        let mut properties = if length >= self.sizes.min_keyword_letters { LONG } else { 0 };
        if bits & STOP != 0 {
            return (NONE, properties);
        }
        if length == 1 {
            properties |= ABBREVIATION;
        }
        // A Hangul syllable is two or three letters in one code point.
        let is_content = length > 2 || (length == 2 && token.chars().any(|each| ('가'..='힣').contains(&each)));
        match cut {
            _ if !is_content => (NONE, properties),
            None => (number, properties),
            Some(cut) => {
                let end = self.start();
                self.bytes.extend_from_within(start..start + cut);
                (self.intern_with(end, Kind::Word, 0), properties)
            }
        }
    }
}
