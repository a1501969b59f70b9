//! Counts per expected answer: what the response has of it.

use crate::counts::record::Counts;
use crate::counts::rules::Rules;
use crate::counts::runs::Runs;
use crate::tables::LONG;
use crate::tokens::classes::{Classes, WHITE};
use crate::tokens::text::Text;
use crate::tokens::vocabulary::{Kind, NONE};
use crate::tokens::words::Words;
use crate::wording::phrases::OwnPhrases;

/// Tables that are filled again for each event.
#[derive(Default)]
pub struct Answers {
    phrases: OwnPhrases,
    /// The phrases of more than two tokens that the response may have, by answer and state.
    candidates: Vec<(usize, u32)>,
    /// A bit for each position of the response that has a token, in as many words of 64 bits as needed, by its row.
    positions: Vec<u64>,
    row: Vec<u64>,
}

impl Answers {
    #[allow(clippy::too_many_arguments)]
    pub fn count(
        &mut self,
        rules: &Rules,
        response: &str,
        expected: &[&str],
        response_text: &Text,
        answers: &[Text],
        runs: &Runs,
        words: &mut Words,
        counts: &mut Counts,
    ) {
        if answers.is_empty() {
            return;
        }
        self.phrases.clear();
        self.candidates.clear();
        let limit = rules.sizes.lcs_tokens;
        self.fill_positions(&response_text.tokens[..response_text.tokens.len().min(limit)], words);
        for (place, (text, written)) in answers.iter().zip(expected).enumerate() {
            counts.expected_tokens += text.tokens.len() as u64;
            counts.expected_cut |= text.cut;
            counts.answer_tokens.push(text.tokens.len() as u32);
            counts.answer_exact.push(is_same(&rules.grammar.classes, response, &written[..text.end]));
            read_tokens(text, place as u32 + 1, words, counts);
            self.read_phrases(text, place, runs, words, counts);
            let first = &text.tokens[..text.tokens.len().min(limit)];
            counts.answer_subsequence.push(self.subsequence(first, response_text.tokens.len().min(limit), words));
        }
        if !self.candidates.is_empty() {
            self.phrases.complete();
            self.phrases.search(response_text);
            for &(place, state) in &self.candidates {
                counts.answer_keywords_found[place] += u32::from(self.phrases.is_found(state));
            }
        }
    }

    /// Counts the capitalised phrases of an answer; those of more than two tokens that may be found become candidates.
    fn read_phrases(&mut self, text: &Text, place: usize, runs: &Runs, words: &mut Words, counts: &mut Counts) {
        let (mut all, mut found) = (0, 0);
        for (start, stop) in text.phrases() {
            let phrase = &text.tokens[start..stop];
            if let [token] = phrase {
                let word = &mut words[*token];
                if word.last_keyword != place as u32 + 1 {
                    word.last_keyword = place as u32 + 1;
                    all += 1;
                    found += u32::from(word.response > 0);
                }
            } else if let (state, true) = self.phrases.add(phrase, place as u32 + 1) {
                all += 1;
                if runs.has_pairs(phrase) {
                    match phrase.len() {
                        2 => found += 1,
                        _ => self.candidates.push((place, state)),
                    }
                }
            }
        }
        *counts.answer_keywords.last_mut().expect("the tokens came first") += all;
        *counts.answer_keywords_found.last_mut().expect("the tokens came first") += found;
    }

    fn fill_positions(&mut self, response: &[u32], words: &Words) {
        let width = response.len().div_ceil(64);
        let rows = response.iter().map(|&token| words[token].row as usize).max().unwrap_or(0);
        self.positions.clear();
        self.positions.resize(rows * width, 0);
        for (position, &token) in response.iter().enumerate() {
            let row = words[token].row as usize - 1;
            self.positions[row * width + position / 64] |= 1 << (position % 64);
        }
    }

    /// Returns the length of the longest common subsequence with the first `length` tokens of the response: Hyyrö,
    /// Bit-parallel LCS-length computation revisited (2004).
    fn subsequence(&mut self, answer: &[u32], length: usize, words: &Words) -> u32 {
        let width = length.div_ceil(64);
        self.row.clear();
        self.row.resize(width, u64::MAX);
        for &token in answer {
            let place = words[token].row as usize;
            let start = place.wrapping_sub(1).wrapping_mul(width);
            let Some(positions) = self.positions.get(start..start.wrapping_add(width)).filter(|_| place > 0) else {
                continue;
            };
            let mut carry = false;
            for (row, at) in self.row.iter_mut().zip(positions) {
                let matches = *row & at;
                let (sum, first) = row.overflowing_add(matches);
                let (sum, second) = sum.overflowing_add(u64::from(carry));
                carry = first || second;
                *row = sum | (*row - matches);
            }
        }
        if let (Some(last), rest @ 1..) = (self.row.last_mut(), length % 64) {
            *last |= u64::MAX << rest;
        }
        self.row.iter().map(|row| row.count_zeros()).sum()
    }
}

/// Counts the tokens that answer and response have in common, the numbers, and the keywords of one token.
fn read_tokens(text: &Text, number: u32, words: &mut Words, counts: &mut Counts) {
    let (mut common, mut numbers, mut numbers_found, mut keywords, mut keywords_found) = (0, 0, 0, 0, 0);
    for &token in &text.tokens {
        let word = &mut words[token];
        if word.last_answer != number {
            (word.last_answer, word.answer) = (number, 0);
            let is_found = u32::from(word.response > 0);
            if word.kind == Kind::Number {
                numbers += 1;
                numbers_found += is_found;
            }
            if word.stem != NONE && word.bits & LONG != 0 {
                word.last_keyword = number;
                keywords += 1;
                keywords_found += is_found;
            }
        }
        word.answer += 1;
        common += u32::from(word.answer <= word.response);
    }
    counts.answer_common.push(common);
    counts.answer_numbers.push(numbers);
    counts.answer_numbers_found.push(numbers_found);
    counts.answer_keywords.push(keywords);
    counts.answer_keywords_found.push(keywords_found);
}

/// Returns true if two texts are equal after folding, with each run of white space as one space and none at the ends.
fn is_same(classes: &Classes, one: &str, other: &str) -> bool {
    spaced(classes, one).eq(spaced(classes, other))
}

fn spaced<'a>(classes: &'a Classes, text: &'a str) -> impl Iterator<Item = char> + 'a {
    let is_white = |each: char| classes.get(each) & WHITE != 0;
    let mut was_white = false;
    text.trim_matches(is_white).chars().filter_map(move |each| {
        let is_repeated = was_white && is_white(each);
        was_white = is_white(each);
        match (is_repeated, was_white) {
            (true, _) => None,
            (false, true) => Some(' '),
            _ => Some(classes.fold(each)),
        }
    })
}
