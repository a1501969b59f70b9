//! The tables that Python passes to the constructor, and the properties of words that the lists among them give.

use std::collections::HashMap;

use pyo3::prelude::*;

/// Ranges of code points, first and last.
pub type Ranges = Vec<(u32, u32)>;
/// A phrase, as its tokens.
pub type Phrase = Vec<String>;

/// The items of the dictionary that `metrics/native.py` makes of the Python tables.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Tables {
    pub letters: Ranges,
    pub numerals: Ranges,
    pub marks: Ranges,
    pub unspaced: Ranges,
    pub currencies: Ranges,
    pub brackets: Ranges,
    /// Ranges in which every character is its own NFC, whatever its neighbours in these ranges.
    pub stable: Ranges,
    pub blanks: String,
    pub line_ends: String,
    pub spaces: String,
    pub apostrophes: String,
    pub hyphens: String,
    pub signs: String,
    pub ends: String,
    pub question_marks: String,
    /// The characters that Python's `str.split` and `str.strip` remove.
    pub white: String,
    pub folds: Vec<(u32, u32)>,
    /// The first code point of each range of one script, in ascending order; an empty name for no script.
    pub scripts: Vec<(u32, String)>,
    pub months: Vec<(String, u32)>,
    pub powers: Vec<(String, usize)>,
    /// The word lists by the names of `LISTS`.
    pub words: HashMap<String, Vec<String>>,
    pub dont_know: Vec<Phrase>,
    pub non_answers: Vec<Phrase>,
    pub hedges: Vec<Phrase>,
    pub indicators: Vec<(Phrase, String)>,
    /// The letter of each word that has a role in refusals, and the expression over these letters.
    pub roles: HashMap<String, char>,
    pub refusal: String,
    pub sizes: Sizes,
    /// `metrics.text.text.normalised`: the NFC of a text.
    pub normalised: Py<PyAny>,
    /// A query at which the kernel panics, for tests.
    pub panic: Option<String>,
}

/// The constants of the Python modules.
#[derive(FromPyObject, Clone)]
#[pyo3(from_item_all)]
pub struct Sizes {
    pub characters_per_token: usize,
    pub stem_length: usize,
    pub min_keyword_letters: usize,
    pub long: usize,
    pub non_answer_characters: usize,
    pub phrase_tokens: usize,
    pub min_stems: usize,
    pub opening: usize,
    pub lcs_tokens: usize,
}

pub const STOP: u32 = 1;
pub const ABBREVIATION: u32 = 1 << 1;
pub const ENGLISH: u32 = 1 << 2;
pub const NOT_ENGLISH: u32 = 1 << 3;
pub const VERB: u32 = 1 << 4;
pub const AUXILIARY: u32 = 1 << 5;
pub const CONTRACTED: u32 = 1 << 6;
pub const HEDGE: u32 = 1 << 7;
pub const MAY: u32 = 1 << 8;
pub const OF: u32 = 1 << 9;
pub const JOINT: u32 = 1 << 10;
pub const CONDITION: u32 = 1 << 11;
pub const RELATIVE: u32 = 1 << 12;
pub const PRONOUN: u32 = 1 << 13;
pub const EXCLUDED_SUBJECT: u32 = 1 << 14;
pub const BEFORE_NOUN: u32 = 1 << 15;
pub const ARTICLE: u32 = 1 << 16;
pub const FILLER: u32 = 1 << 17;
pub const BETWEEN: u32 = 1 << 18;
pub const CONCEDING: u32 = 1 << 19;
pub const NEGATIVE: u32 = 1 << 20;
/// A word that occurs in a list of phrases.
pub const IN_PHRASE: u32 = 1 << 21;
/// A keyword of expected answers if it is content: it is long enough, or no word.
pub const LONG: u32 = 1 << 22;

/// The properties of the words of each list.
pub const LISTS: [(&str, u32); 21] = [
    ("stop", STOP),
    ("abbreviations", ABBREVIATION),
    ("english", ENGLISH),
    ("not_english", NOT_ENGLISH),
    ("verbs", VERB),
    ("auxiliaries", AUXILIARY),
    ("contracted", CONTRACTED),
    ("hedges", HEDGE),
    ("may", MAY),
    ("of", OF),
    ("joints", JOINT),
    ("conditions", CONDITION),
    ("relatives", RELATIVE),
    ("pronouns", PRONOUN),
    ("excluded_subjects", EXCLUDED_SUBJECT),
    ("before_nouns", BEFORE_NOUN),
    ("articles", ARTICLE),
    ("fillers", FILLER),
    ("between", BETWEEN),
    ("conceding", CONCEDING),
    ("negative", NEGATIVE),
];
