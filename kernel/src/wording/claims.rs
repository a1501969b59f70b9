//! Claims of a response, by the rules of `metrics/text/claims.py`, and those of them that the contexts support.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::tables::*;
use crate::tokens::text::Text;
use crate::tokens::vocabulary::{Vocabulary, NONE};
use crate::tokens::words::{Words, IN_CLAIM};

/// The rules of one text.
pub struct Reader<'a> {
    pub vocabulary: &'a Vocabulary,
    pub words: &'a Words,
    pub sizes: &'a Sizes,
    pub text: &'a Text,
    /// The text's characters, up to the cut.
    pub written: &'a str,
    pub question_marks: &'a [char],
    /// True for the first byte of a question mark.
    pub question_bytes: &'a [bool; 256],
}

/// The distinct claims of a response, each as its stems in ascending order.
#[derive(Default)]
pub struct Claims {
    stems: Vec<u32>,
    /// The end of each claim's stems in `stems`.
    ends: Vec<u32>,
    distinct: HashTable<u32>,
    hasher: RandomState,
    // Buffers.
    found: Vec<u32>,
    object: Vec<u32>,
    phrase: Vec<u32>,
    /// The next claim of a list, by claim, and the first one of each stem's list.
    next: Vec<u32>,
    first: Vec<u32>,
    /// The stems of a sentence that have a list.
    listed: Vec<u32>,
}

impl Claims {
    pub fn clear(&mut self) {
        self.stems.clear();
        self.ends.clear();
        self.distinct.clear();
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    fn get(&self, claim: u32) -> &[u32] {
        let start = if claim == 0 { 0 } else { self.ends[claim as usize - 1] };
        &self.stems[start as usize..self.ends[claim as usize] as usize]
    }

    /// Adds the claim of the stems in `found` and `object`, unless it is known.
    fn add(&mut self) {
        self.found.extend_from_slice(&self.object);
        self.found.sort_unstable();
        self.found.dedup();
        let hash = hash(&self.hasher, &self.found);
        if self.distinct.find(hash, |&claim| self.get(claim) == self.found).is_some() {
            return;
        }
        let claim = self.ends.len() as u32;
        self.stems.extend_from_slice(&self.found);
        self.ends.push(self.stems.len() as u32);
        let (stems, ends, hasher) = (&self.stems, &self.ends, &self.hasher);
        self.distinct.insert_unique(hash, claim, |&each| {
            let start = if each == 0 { 0 } else { ends[each as usize - 1] };
            self::hash(hasher, &stems[start as usize..ends[each as usize] as usize])
        });
    }

    /// Reads the claims of a text that the English tables serve.
    pub fn read(&mut self, reader: &Reader) {
        let has_questions = reader.written.bytes().any(|byte| reader.question_bytes[usize::from(byte)]);
        for (start, stop) in reader.text.sentences() {
            if reader.hedges(start, stop) || (has_questions && reader.asks(stop)) {
                continue;
            }
            let mut has_subject = false;
            let (mut opener, mut first) = (0, start);
            for position in start..=stop {
                let bits = if position < stop { reader.bits(position) } else { JOINT };
                if bits & JOINT == 0 {
                    continue;
                }
                if opener & CONDITION == 0 {
                    // "The plan covers care and includes ...": the next clause has the same subject, as after "who".
                    let before = if has_subject { RELATIVE } else { opener };
                    if self.clause(reader, first, position, before) {
                        self.add();
                        has_subject = true;
                    }
                }
                (opener, first) = (bits, position + 1);
            }
        }
    }

    /// Returns true if a clause has a claim, and leaves its stems in `found` and `object`.
    fn clause(&mut self, reader: &Reader, start: usize, stop: usize, opener: u32) -> bool {
        let Some(verb) = reader.verb(start, stop) else { return false };
        if !self.subject(reader, start, verb, opener) {
            return false;
        }
        let is_auxiliary = reader.bits(verb) & VERB == 0;
        if !is_auxiliary {
            self.found.push(reader.stem(verb));
        }
        let mut after = verb + 1;
        while after < stop && reader.bits(after) & BETWEEN != 0 {
            after += 1;
        }
        let has_participle = is_auxiliary && after < stop && reader.is_participle(after);
        if has_participle {
            self.found.push(reader.stem(after));
            after += 1;
        }
        self.object.clear();
        let object = &mut self.object;
        reader.phrases(after, stop, &mut self.phrase, |phrase| {
            object.extend(phrase.iter().take(reader.sizes.phrase_tokens));
            false
        });
        (!self.object.is_empty() || has_participle) && self.found.len() + self.object.len() >= reader.sizes.min_stems
    }

    /// Returns true if a clause has a subject, and leaves its stems in `found`: none for a pronoun.
    fn subject(&mut self, reader: &Reader, start: usize, verb: usize, opener: u32) -> bool {
        self.found.clear();
        let before = (start..verb).fold(0, |bits, position| bits | reader.bits(position));
        if before & EXCLUDED_SUBJECT != 0 {
            return false;
        }
        let found = &mut self.found;
        reader.phrases(start, verb, &mut self.phrase, |phrase| {
            found.clear();
            found.extend_from_slice(&phrase[phrase.len().saturating_sub(reader.sizes.phrase_tokens)..]);
            true
        });
        let refers = if verb == start { opener & RELATIVE } else { before & PRONOUN };
        !self.found.is_empty() || refers != 0 || reader.bits(verb) & CONTRACTED != 0
    }

    /// Marks the stems of the claims, so that their occurrences in contexts are counted.
    pub fn mark(&self, words: &mut Words) {
        for &stem in &self.stems {
            if stem != NONE {
                words[stem].marks |= IN_CLAIM;
            }
        }
    }

    /// Returns the number of claims whose stems no sentence of the contexts has in full.
    ///
    /// Each claim is looked up in the sentences that have its rarest stem; `sentence` is the number of the last one that
    /// was read in the event.
    pub fn unsupported(&mut self, contexts: &[Text], words: &mut Words, mut sentence: u32) -> u64 {
        let mut left = self.len() as u64;
        self.first.clear();
        self.next.clear();
        for claim in 0..self.len() as u32 {
            self.next.push(NONE);
            // A stem that no context has, as that of a stop word, is in no sentence.
            let frequency = |stem: &u32| if *stem == NONE { 0 } else { words[*stem].frequency };
            let rarest = *self.get(claim).iter().min_by_key(|stem| frequency(stem)).expect("a claim has a stem");
            if frequency(&rarest) > 0 {
                self.first.resize(words.len(), NONE);
                self.next[claim as usize] = self.first[rarest as usize];
                self.first[rarest as usize] = claim;
            }
        }
        if self.first.is_empty() {
            return left;
        }
        for text in contexts {
            for (start, stop) in text.sentences() {
                sentence += 1;
                self.listed.clear();
                for &token in &text.tokens[start..stop] {
                    let stem = words[token].stem;
                    if stem != NONE && words[stem].last_sentence != sentence {
                        words[stem].last_sentence = sentence;
                        if self.first[stem as usize] != NONE {
                            self.listed.push(stem);
                        }
                    }
                }
                for place in 0..self.listed.len() {
                    left -= self.drop_supported(self.listed[place], words, sentence);
                }
            }
        }
        left
    }

    /// Drops the claims from a stem's list that a sentence supports; returns their number.
    fn drop_supported(&mut self, stem: u32, words: &Words, sentence: u32) -> u64 {
        let mut dropped = 0;
        let (mut before, mut claim) = (NONE, self.first[stem as usize]);
        while claim != NONE {
            let after = self.next[claim as usize];
            if !self.get(claim).iter().all(|&each| words[each].last_sentence == sentence) {
                before = claim;
            } else {
                dropped += 1;
                match before {
                    NONE => self.first[stem as usize] = after,
                    _ => self.next[before as usize] = after,
                }
            }
            claim = after;
        }
        dropped
    }
}

fn hash(hasher: &RandomState, stems: &[u32]) -> u64 {
    let mut state = hasher.build_hasher();
    for stem in stems {
        state.write_u32(*stem);
    }
    state.finish()
}

impl Reader<'_> {
    fn bits(&self, position: usize) -> u32 {
        self.words[self.text.tokens[position]].bits
    }

    fn stem(&self, position: usize) -> u32 {
        self.words[self.text.tokens[position]].stem
    }

    fn hedges(&self, start: usize, stop: usize) -> bool {
        (start..stop).any(|position| match self.bits(position) & (HEDGE | MAY) {
            0 => false,
            bits if bits & MAY == 0 => true,
            _ => {
                let (first, last) = self.text.spans[position];
                &self.written[first as usize..last as usize] != "May"
            }
        })
    }

    fn asks(&self, stop: usize) -> bool {
        let end = self.text.spans.get(stop).map_or(self.written.len(), |span| span.0 as usize);
        self.written[self.text.spans[stop - 1].1 as usize..end].contains(self.question_marks)
    }

    fn verb(&self, start: usize, stop: usize) -> Option<usize> {
        (start..stop).find(|&position| {
            let bits = self.bits(position);
            bits & (VERB | AUXILIARY | CONTRACTED) != 0
                && (bits & VERB == 0 || position == start || self.bits(position - 1) & BEFORE_NOUN == 0)
        })
    }

    fn is_participle(&self, position: usize) -> bool {
        let word = &self.words[self.text.tokens[position]];
        word.bits & VERB != 0 || self.vocabulary.text(word.number).ends_with(b"ed")
    }

    /// Passes the phrases between two positions, as their stems, to a function that returns false to stop.
    fn phrases(&self, start: usize, stop: usize, phrase: &mut Vec<u32>, mut pass: impl FnMut(&[u32]) -> bool) {
        phrase.clear();
        let mut is_linked = false;
        for position in start..stop {
            let (bits, stem) = (self.bits(position), self.stem(position));
            if stem != NONE && bits & FILLER == 0 {
                phrase.push(stem);
                is_linked = false;
            } else if bits & OF != 0 {
                is_linked = true;
            } else if !phrase.is_empty() && (stem != NONE || bits & STOP != 0) && !(is_linked && bits & ARTICLE != 0) {
                if !pass(phrase) {
                    return;
                }
                phrase.clear();
                is_linked = false;
            }
        }
        if !phrase.is_empty() {
            pass(phrase);
        }
    }
}
