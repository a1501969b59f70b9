//! Search for phrases, which are runs of tokens: the fixed lists of Python by one automaton, and those of an event.

use std::collections::VecDeque;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::tables::{Phrase, Tables};
use crate::tokens::text::Text;
use crate::tokens::vocabulary::Vocabulary;
use crate::tokens::words::Words;

pub const DONT_KNOW: u32 = 1;
pub const NON_ANSWER: u32 = 1 << 1;
/// The indicators of sources have one bit each, from this one.
const FIRST_INDICATOR: u32 = 2;

/// What a text has of the fixed lists.
#[derive(Default)]
pub struct Found {
    /// Occurrences of hedges.
    pub hedges: u64,
    bits: u32,
}

impl Found {
    pub fn has(&self, bit: u32) -> bool {
        self.bits & bit != 0
    }

    /// Returns the number of distinct indicators of sources.
    pub fn indicators(&self) -> u64 {
        u64::from((self.bits >> FIRST_INDICATOR).count_ones())
    }
}

/// The fixed lists as one automaton with a table of all steps: Aho and Corasick, Efficient string matching (1975).
pub struct FixedPhrases {
    columns: usize,
    /// The next state by state and column; column 0 is for words that occur in no phrase.
    next: Vec<u16>,
    /// The hedges that end in a state, and the bits of the other lists.
    hedges: Vec<u32>,
    bits: Vec<u32>,
}

impl FixedPhrases {
    pub fn new(tables: &Tables, vocabulary: &mut Vocabulary) -> Self {
        let mut names: Vec<&String> = tables.indicators.iter().map(|(_, name)| name).collect();
        names.sort();
        names.dedup();
        assert!(names.len() as u32 <= u32::BITS - FIRST_INDICATOR, "the indicators have a bit each");
        let bit = |name| 1 << (FIRST_INDICATOR + names.iter().position(|each| *each == name).unwrap_or(0) as u32);
        let mut phrases: Vec<(&Phrase, u32, u32)> = tables.hedges.iter().map(|phrase| (phrase, 1, 0)).collect();
        phrases.extend(tables.dont_know.iter().map(|phrase| (phrase, 0, DONT_KNOW)));
        phrases.extend(tables.non_answers.iter().map(|phrase| (phrase, 0, NON_ANSWER)));
        phrases.extend(tables.indicators.iter().map(|(phrase, name)| (phrase, 0, bit(name))));
        let mut column = |word: &String| usize::from(vocabulary.listed_column(word));
        let columns = 1 + phrases.iter().flat_map(|(phrase, ..)| *phrase).map(&mut column).max().unwrap_or(0);
        let mut own = Self { columns, next: vec![0; columns], hedges: vec![0], bits: vec![0] };
        for (phrase, hedges, bits) in phrases {
            let mut state = 0;
            for word in phrase {
                let step = state * columns + column(word);
                if own.next[step] == 0 {
                    own.next[step] = u16::try_from(own.hedges.len()).expect("the phrases have fewer than 65,536 words");
                    own.next.resize(own.next.len() + columns, 0);
                    own.hedges.push(0);
                    own.bits.push(0);
                }
                state = usize::from(own.next[step]);
            }
            own.hedges[state] += hedges;
            own.bits[state] |= bits;
        }
        own.complete();
        own
    }

    /// Fills in the steps that leave a phrase for its longest suffix that begins another one.
    fn complete(&mut self) {
        let mut fallback = vec![0; self.hedges.len()];
        let mut queue = VecDeque::from([0]);
        while let Some(state) = queue.pop_front() {
            for column in 1..self.columns {
                let step = state * self.columns + column;
                let shorter = match state {
                    0 => 0,
                    _ => usize::from(self.next[fallback[state] * self.columns + column]),
                };
                match usize::from(self.next[step]) {
                    0 => self.next[step] = shorter as u16,
                    child => {
                        fallback[child] = shorter;
                        self.hedges[child] += self.hedges[shorter];
                        self.bits[child] |= self.bits[shorter];
                        queue.push_back(child);
                    }
                }
            }
        }
    }

    pub fn find(&self, text: &Text, words: &Words) -> Found {
        let mut found = Found::default();
        let mut state = 0;
        for &token in &text.tokens {
            let column = usize::from(words[token].column);
            if column == 0 {
                state = 0;
                continue;
            }
            state = usize::from(self.next[state * self.columns + column]);
            found.hedges += u64::from(self.hedges[state]);
            found.bits |= self.bits[state];
        }
        found
    }
}

/// A set of phrases of one event, found in texts by an automaton.
///
/// Its steps are in a hash table, so that building it takes a time in proportion to the phrases' tokens.
#[derive(Default)]
pub struct OwnPhrases {
    next: HashMap<u64, u32, RandomState>,
    states: Vec<State>,
    /// The tokens of all phrases, and the end of each with the state that it has reached.
    tokens: Vec<u32>,
    phrases: Vec<(u32, u32, u32)>,
}

#[derive(Clone, Copy, Default)]
struct State {
    fallback: u32,
    /// The state of the longest phrase that ends here, which may be this one; 0 for none.
    last: u32,
    /// The text that had the phrase last.
    last_text: u32,
    is_end: bool,
    is_found: bool,
}

fn key(state: u32, token: u32) -> u64 {
    u64::from(state) << 32 | u64::from(token)
}

impl OwnPhrases {
    pub fn clear(&mut self) {
        self.next.clear();
        self.states.clear();
        self.states.push(State::default());
        self.tokens.clear();
        self.phrases.clear();
    }

    /// Adds a phrase of a text, counted from 1; returns its state, and true if it is new in the text.
    ///
    /// Texts are added one after the other.
    pub fn add(&mut self, phrase: &[u32], text: u32) -> (u32, bool) {
        let mut state = 0;
        for &token in phrase {
            let fresh = self.states.len() as u32;
            state = *self.next.entry(key(state, token)).or_insert(fresh);
            if state == fresh {
                self.states.push(State::default());
            }
        }
        let own = &mut self.states[state as usize];
        let is_new = own.last_text != text;
        own.last_text = text;
        if !std::mem::replace(&mut own.is_end, true) {
            let start = self.tokens.len() as u32;
            self.tokens.extend_from_slice(phrase);
            self.phrases.push((start, self.tokens.len() as u32, 0));
        }
        (state, is_new)
    }

    pub fn is_empty(&self) -> bool {
        self.phrases.is_empty()
    }

    /// Completes the automaton; no phrase can be added afterwards.
    pub fn complete(&mut self) {
        let mut running = std::mem::take(&mut self.phrases);
        let mut depth = 0;
        // All phrases advance by one token at a time, so that the fallback of a state is complete before its children.
        while !running.is_empty() {
            running.retain_mut(|(start, stop, state)| {
                if start == stop {
                    return false;
                }
                let token = self.tokens[*start as usize];
                let child = self.next[&key(*state, token)];
                let fallback = self.states[*state as usize].fallback;
                let shorter = if depth == 0 { 0 } else { self.step(fallback, token) };
                let last = self.states[shorter as usize].last;
                let own = &mut self.states[child as usize];
                own.fallback = shorter;
                own.last = if own.is_end { child } else { last };
                *start += 1;
                *state = child;
                true
            });
            depth += 1;
        }
    }

    fn step(&self, mut state: u32, token: u32) -> u32 {
        loop {
            match self.next.get(&key(state, token)) {
                Some(&child) => return child,
                None if state == 0 => return 0,
                None => state = self.states[state as usize].fallback,
            }
        }
    }

    /// Marks the phrases that occur in a text.
    pub fn search(&mut self, text: &Text) {
        let mut state = 0;
        for &token in &text.tokens {
            state = self.step(state, token);
            let mut last = self.states[state as usize].last;
            while last != 0 && !self.states[last as usize].is_found {
                self.states[last as usize].is_found = true;
                let fallback = self.states[last as usize].fallback;
                last = self.states[fallback as usize].last;
            }
        }
    }

    pub fn is_found(&self, state: u32) -> bool {
        self.states[state as usize].is_found
    }

    /// Returns the number of phrases that were found.
    pub fn count_found(&self) -> u64 {
        self.states.iter().filter(|state| state.is_found).count() as u64
    }
}
