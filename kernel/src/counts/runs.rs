//! The response's pairs and triples of neighbouring tokens, and those of them that a context has.

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::tokens::text::Text;
use crate::tokens::vocabulary::NONE;
use crate::tokens::words::Words;

/// The response's distinct pairs and triples of neighbouring tokens.
#[derive(Default)]
pub struct Runs {
    /// The number of each pair, counted from 0, and of each triple, as the numbers of its two pairs.
    pairs: HashMap<u64, u32, RandomState>,
    triples: HashMap<u64, u32, RandomState>,
    pub pairs_found: Vec<bool>,
    pub triples_found: Vec<bool>,
    /// The pair at each position of the response but the last.
    pub at: Vec<u32>,
}

fn key(first: u32, second: u32) -> u64 {
    u64::from(first) << 32 | u64::from(second)
}

fn number(of: &mut HashMap<u64, u32, RandomState>, found: &mut Vec<bool>, key: u64) -> u32 {
    let fresh = found.len() as u32;
    let number = *of.entry(key).or_insert(fresh);
    if number == fresh {
        found.push(false);
    }
    number
}

impl Runs {
    pub fn read(&mut self, response: &Text) {
        self.pairs.clear();
        self.triples.clear();
        self.pairs_found.clear();
        self.triples_found.clear();
        self.at.clear();
        for pair in response.tokens.windows(2) {
            self.at.push(number(&mut self.pairs, &mut self.pairs_found, key(pair[0], pair[1])));
        }
        for pair in self.at.windows(2) {
            number(&mut self.triples, &mut self.triples_found, key(pair[0], pair[1]));
        }
    }

    pub fn search(&mut self, context: &Text, words: &Words) {
        let (mut before, mut pair_before) = (NONE, NONE);
        for &token in &context.tokens {
            if words[token].response == 0 {
                (before, pair_before) = (NONE, NONE);
                continue;
            }
            let found = if before == NONE { None } else { self.pairs.get(&key(before, token)) };
            before = token;
            let Some(&pair) = found else {
                pair_before = NONE;
                continue;
            };
            self.pairs_found[pair as usize] = true;
            if pair_before != NONE {
                if let Some(&triple) = self.triples.get(&key(pair_before, pair)) {
                    self.triples_found[triple as usize] = true;
                }
            }
            pair_before = pair;
        }
    }

    /// Returns true if each two neighbours of a run of tokens are a pair of the response.
    pub fn has_pairs(&self, run: &[u32]) -> bool {
        run.windows(2).all(|pair| self.pairs.contains_key(&key(pair[0], pair[1])))
    }
}
