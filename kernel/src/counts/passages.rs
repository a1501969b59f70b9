//! Counts per passage: terms of the query, words of earlier passages, and use in the response.

use crate::counts::record::Counts;
use crate::tokens::text::Text;
use crate::tokens::vocabulary::NONE;
use crate::tokens::words::{Words, IN_CONTEXT};

/// Tables that are filled again for each event.
#[derive(Default)]
pub struct Passages {
    /// A bit for each passage that has a stem, in as many words of 64 bits as needed, by the stem's row.
    having: Vec<u64>,
    /// The number of stems that each passage shares with a sentence: the bits of one power of two in each row.
    shares: Vec<u64>,
    best: Vec<u64>,
    used: Vec<u64>,
    terms: Vec<u32>,
}

impl Passages {
    /// Counts the passages, which are the contexts at `places`, and the response's sentences.
    pub fn count(
        &mut self,
        contexts: &[Text],
        places: &[usize],
        response: &Text,
        response_stems: &[u32],
        words: &mut Words,
        counts: &mut Counts,
    ) {
        let width = places.len().div_ceil(64);
        self.having.clear();
        self.having.resize(response_stems.len() * width, 0);
        self.terms.clear();
        self.terms.resize(counts.query_terms as usize, 0);
        counts.term_passages.resize(counts.query_terms as usize, 0);
        for (passage, &place) in places.iter().enumerate() {
            self.read(&contexts[place], passage, width, words, counts);
        }
        self.used.clear();
        self.used.resize(width, 0);
        let mut number = 0;
        for (start, stop) in response.sentences() {
            number += 1;
            self.read_sentence(&response.tokens[start..stop], number, width, words, counts);
        }
        let is_used = |passage: usize| self.used[passage / 64] >> (passage % 64) & 1 == 1;
        counts.passage_used.extend((0..places.len()).map(is_used));
    }

    fn read(&mut self, text: &Text, passage: usize, width: usize, words: &mut Words, counts: &mut Counts) {
        let number = passage as u32 + 1;
        let (mut content, mut distinct, mut repeated) = (0, 0, 0);
        let mut terms = Vec::new();
        for &token in &text.tokens {
            let word = &mut words[token];
            if word.stem == NONE {
                continue;
            }
            content += 1;
            if word.term > 0 {
                let occurrences = &mut self.terms[word.term as usize - 1];
                *occurrences += 1;
                if *occurrences == 1 {
                    terms.push(word.term - 1);
                }
            }
            if word.last_passage == number {
                continue;
            }
            distinct += 1;
            repeated += u32::from(word.last_passage > 0);
            word.last_passage = number;
            let stem = word.stem;
            let row = words[stem].stem_row as usize;
            if row > 0 {
                self.having[(row - 1) * width + passage / 64] |= 1 << (passage % 64);
            }
        }
        terms.sort_unstable();
        let mut occurrences = Vec::with_capacity(terms.len());
        for &term in &terms {
            counts.term_passages[term as usize] += 1;
            occurrences.push(std::mem::take(&mut self.terms[term as usize]));
        }
        counts.passage_tokens.push(text.tokens.len() as u32);
        counts.passage_content.push(content);
        counts.passage_distinct.push(distinct);
        counts.passage_repeated.push(repeated);
        counts.passage_terms.push(terms);
        counts.passage_occurrences.push(occurrences);
    }

    /// Counts a sentence of the response, and marks the passages that it draws on: those that share most of its stems,
    /// if these are at least half. The shares of 64 passages are added at once.
    fn read_sentence(&mut self, tokens: &[u32], number: u32, width: usize, words: &mut Words, counts: &mut Counts) {
        let (mut stems, mut known) = (0, 0);
        self.shares.clear();
        for &token in tokens {
            let stem = words[token].stem;
            if stem == NONE || words[stem].last_sentence == number {
                continue;
            }
            let word = &mut words[stem];
            word.last_sentence = number;
            stems += 1;
            known += u64::from(word.marks & IN_CONTEXT != 0);
            let row = (word.stem_row as usize - 1) * width;
            for place in 0..width {
                self.add(self.having[row + place], place, width);
            }
        }
        if stems == 0 {
            return;
        }
        counts.content_sentences += 1;
        counts.weak_sentences += u64::from(2 * known < stems);
        self.best.clear();
        self.best.resize(width, u64::MAX);
        let mut most = 0;
        for (power, row) in self.shares.chunks_exact(width.max(1)).enumerate().rev() {
            if row.iter().zip(&self.best).any(|(share, best)| share & best != 0) {
                self.best.iter_mut().zip(row).for_each(|(best, share)| *best &= share);
                most |= 1 << power;
            }
        }
        if 2 * most >= stems {
            self.used.iter_mut().zip(&self.best).for_each(|(used, best)| *used |= best);
        }
    }

    fn add(&mut self, mut carry: u64, place: usize, width: usize) {
        let mut at = place;
        while carry != 0 {
            if at >= self.shares.len() {
                self.shares.resize(self.shares.len() + width, 0);
            }
            let share = self.shares[at];
            self.shares[at] = share ^ carry;
            carry &= share;
            at += width;
        }
    }
}
