//! Detection of refusals: the expression of `metrics/text/refusal.py` over the letters of a sentence's words.

use regex::Regex;

use crate::tables::*;
use crate::tokens::text::Text;
use crate::tokens::vocabulary::Vocabulary;
use crate::tokens::words::Words;

pub struct Refusal {
    expression: Regex,
    /// The number of sentences that open a response.
    opening: usize,
}

impl Refusal {
    pub fn new(tables: &Tables) -> Result<Self, regex::Error> {
        Ok(Self { expression: Regex::new(&tables.refusal)?, opening: tables.sizes.opening })
    }

    /// Returns true if one of the first sentences, or at least half of all, declines to answer.
    pub fn declines(&self, text: &Text, written: &str, vocabulary: &Vocabulary, words: &Words) -> bool {
        if !text.tokens.iter().any(|&token| words[token].bits & NEGATIVE != 0) {
            return false;
        }
        let mut letters = String::new();
        let (mut count, mut later) = (0, 0);
        for sentence in text.sentences() {
            let declines = self.sentence_declines(text, written, vocabulary, words, sentence, &mut letters);
            if declines && count < self.opening {
                return true;
            }
            later += usize::from(declines);
            count += 1;
        }
        count > self.opening && 2 * later >= count
    }

    fn sentence_declines(
        &self,
        text: &Text,
        written: &str,
        vocabulary: &Vocabulary,
        words: &Words,
        (start, stop): (usize, usize),
        letters: &mut String,
    ) -> bool {
        let tokens = &text.tokens[start..stop];
        if !tokens.iter().any(|&token| words[token].bits & NEGATIVE != 0) {
            return false;
        }
        letters.clear();
        letters.extend(tokens.iter().map(|&token| vocabulary.entry(words[token].number).letter));
        if words[tokens[0]].bits & CONCEDING == 0 {
            return self.expression.is_match(letters);
        }
        // "While the documents give no examples, they explain ..." answers; "While I would like to, I cannot say"
        // declines.
        let (first, last) = (text.spans[start].0 as usize, text.spans[stop - 1].0 as usize);
        let Some(comma) = written[first..last].find(',') else { return false };
        let (mut end, mut token) = (0, start);
        self.expression.find_iter(letters).any(|found| {
            token += letters[end..found.end()].chars().count();
            end = found.end();
            text.spans[token - 1].0 as usize > first + comma
        })
    }
}
