//! What the tables give to the counting of every event.

use crate::tables::*;
use crate::tokens::grammar::Grammar;
use crate::tokens::vocabulary::Vocabulary;
use crate::wording::phrases::FixedPhrases;
use crate::wording::refusal::Refusal;

/// Everything that is made of the tables once.
pub struct Rules {
    pub grammar: Grammar,
    pub phrases: FixedPhrases,
    pub refusal: Refusal,
    pub sizes: Sizes,
    pub question_marks: Vec<char>,
    /// True for the first byte of a question mark.
    pub question_bytes: [bool; 256],
}

impl Rules {
    pub fn new(tables: &Tables, vocabulary: &mut Vocabulary) -> Result<Self, regex::Error> {
        let mut question_bytes = [false; 256];
        for mark in tables.question_marks.split_inclusive(|_| true) {
            question_bytes[usize::from(mark.as_bytes()[0])] = true;
        }
        Ok(Self {
            question_bytes,
            grammar: Grammar::new(tables),
            phrases: FixedPhrases::new(tables, vocabulary),
            refusal: Refusal::new(tables)?,
            sizes: tables.sizes.clone(),
            question_marks: tables.question_marks.chars().collect(),
        })
    }
}
