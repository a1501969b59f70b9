//! The counts of one event, defined in `metrics/counts`, by passes over its tokens.

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::answers::Answers;
use crate::claims::{self, Claims};
use crate::passages::Passages;
use crate::phrases::{self, FixedPhrases, OwnPhrases};
use crate::refusal::Refusal;
use crate::scan::Grammar;
use crate::tables::*;
use crate::text::Text;
use crate::vocabulary::{Kind, Vocabulary, NONE};
use crate::words::*;

/// Names of scripts, as indices in `Classes::script_names`.
pub type Script = Option<usize>;

macro_rules! counts {
    ($($name:ident: $type:ty,)*) => {
        /// The counts; each is documented in `metrics/counts`.
        #[derive(Default)]
        pub struct Counts {
            $(pub $name: $type,)*
        }

        /// The names of the counts, in the order of the tuple that Python gets.
        pub const NAMES: &[&str] = &[$(stringify!($name)),*];

        impl Counts {
            /// Passes each count to a visitor, in the order of `NAMES`.
            pub fn visit<E>(&self, visitor: &mut impl Visitor<E>) -> Result<(), E> {
                $(visitor.visit(Value::from(&self.$name))?;)*
                Ok(())
            }
        }
    };
}

/// The value of a count.
pub enum Value<'a> {
    Number(u64),
    Flag(bool),
    Script(Script),
    Numbers(&'a [u32]),
    Flags(&'a [bool]),
    Lists(&'a [Vec<u32>]),
}

pub trait Visitor<E> {
    fn visit(&mut self, value: Value) -> Result<(), E>;
}

macro_rules! values {
    ($($type:ty => $make:expr,)*) => {
        $(impl<'a> From<&'a $type> for Value<'a> {
            fn from(value: &'a $type) -> Self {
                $make(value)
            }
        })*
    };
}

values! {
    u64 => |value: &u64| Value::Number(*value),
    bool => |value: &bool| Value::Flag(*value),
    Script => |value: &Script| Value::Script(*value),
    Vec<u32> => Value::Numbers,
    Vec<bool> => Value::Flags,
    Vec<Vec<u32>> => Value::Lists,
}

counts! {
    query_tokens: u64,
    response_tokens: u64,
    expected_tokens: u64,
    context_tokens: u64,
    query_cut: bool,
    response_cut: bool,
    expected_cut: bool,
    contexts_cut: bool,
    response_stems: u64,
    context_stems: u64,
    supported_stems: u64,
    unsupported_stems: u64,
    query_stems: u64,
    covered_query_stems: u64,
    response_pairs: u64,
    supported_pairs: u64,
    response_triples: u64,
    supported_triples: u64,
    response_numbers: u64,
    supported_numbers: u64,
    response_moments: u64,
    supported_moments: u64,
    response_phrases: u64,
    supported_phrases: u64,
    content_sentences: u64,
    weak_sentences: u64,
    query_distinct: u64,
    response_distinct: u64,
    common_distinct: u64,
    cosine_dot: u64,
    query_squares: u64,
    response_squares: u64,
    query_common_squares: u64,
    response_common_squares: u64,
    query_keywords: u64,
    answered_keywords: u64,
    response_supported: bool,
    response_claims: u64,
    unsupported_claims: u64,
    dont_know: bool,
    non_answer: bool,
    declines: bool,
    hedges: u64,
    source_indicators: u64,
    citations: Vec<u32>,
    query_script: Script,
    response_script: Script,
    query_terms: u64,
    term_passages: Vec<u32>,
    passage_tokens: Vec<u32>,
    passage_content: Vec<u32>,
    passage_distinct: Vec<u32>,
    passage_repeated: Vec<u32>,
    passage_terms: Vec<Vec<u32>>,
    passage_occurrences: Vec<Vec<u32>>,
    passage_used: Vec<bool>,
    answer_tokens: Vec<u32>,
    answer_exact: Vec<bool>,
    answer_keywords: Vec<u32>,
    answer_keywords_found: Vec<u32>,
    answer_numbers: Vec<u32>,
    answer_numbers_found: Vec<u32>,
    answer_common: Vec<u32>,
    answer_subsequence: Vec<u32>,
}

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

/// The tokenised texts of one event and the tables over them, kept from event to event to be filled again.
#[derive(Default)]
pub struct Event {
    pub words: Words,
    pub query: Text,
    pub response: Text,
    pub answers: Vec<Text>,
    pub contexts: Vec<Text>,
    /// The number of expected answers and contexts; the vectors may be longer.
    pub answer_count: usize,
    pub context_count: usize,
    runs: Runs,
    claims: Claims,
    names: OwnPhrases,
    /// The distinct capitalised phrases of several tokens, as their first places in the response.
    long_names: Vec<(usize, usize)>,
    passages: Passages,
    expected: Answers,
    query_words: Vec<u32>,
    response_words: Vec<u32>,
    query_stems: Vec<u32>,
    response_stems: Vec<u32>,
}

/// The response's distinct pairs and triples of neighbouring tokens.
#[derive(Default)]
pub struct Runs {
    /// The number of each pair, counted from 0, and of each triple, as the numbers of its two pairs.
    pairs: HashMap<u64, u32, RandomState>,
    triples: HashMap<u64, u32, RandomState>,
    pub pairs_found: Vec<bool>,
    triples_found: Vec<bool>,
    /// The pair at each position of the response but the last.
    at: Vec<u32>,
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
    fn read(&mut self, response: &Text) {
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

    fn search(&mut self, context: &Text, words: &Words) {
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

fn count(found: &[bool]) -> u64 {
    found.iter().filter(|each| **each).count() as u64
}

impl Event {
    /// Counts what the texts have, which were tokenised before; `response` and `expected` are those in NFC.
    pub fn count(
        &mut self,
        rules: &Rules,
        vocabulary: &Vocabulary,
        query: &str,
        response: &str,
        expected: &[&str],
        places: &[usize],
    ) -> Counts {
        let mut counts = Counts::default();
        let response = &response[..self.response.end];
        self.read_query(&mut counts);
        self.read_response(&mut counts);
        counts.query_script = rules.grammar.classes.script(&query[..self.query.end]);
        counts.response_script = rules.grammar.classes.script(response);
        self.read_wording(rules, vocabulary, response, &mut counts);
        self.read_contexts(&mut counts);
        self.read_names(&mut counts);
        let contexts = &self.contexts[..self.context_count];
        self.passages.count(contexts, places, &self.response, &self.response_stems, &mut self.words, &mut counts);
        if self.claims.len() > 0 {
            let last_sentence = self.response.tokens.len() as u32;
            counts.unsupported_claims = self.claims.unsupported(contexts, &mut self.words, last_sentence);
        }
        let answers = &self.answers[..self.answer_count];
        self.expected.count(
            rules,
            response,
            expected,
            &self.response,
            answers,
            &self.runs,
            &mut self.words,
            &mut counts,
        );
        counts
    }

    fn read_query(&mut self, counts: &mut Counts) {
        let words = &mut self.words;
        self.query_words.clear();
        self.query_stems.clear();
        for &token in &self.query.tokens {
            let word = &mut words[token];
            word.query += 1;
            if word.query > 1 {
                continue;
            }
            self.query_words.push(token);
            let stem = word.stem;
            if stem != NONE {
                counts.query_terms += 1;
                word.term = counts.query_terms as u32;
                if words[stem].marks & IN_QUERY == 0 {
                    words[stem].marks |= IN_QUERY;
                    self.query_stems.push(stem);
                }
            }
        }
        counts.query_tokens = self.query.tokens.len() as u64;
        counts.query_cut = self.query.cut;
        counts.query_distinct = self.query_words.len() as u64;
        counts.query_stems = self.query_stems.len() as u64;
    }

    fn read_response(&mut self, counts: &mut Counts) {
        let words = &mut self.words;
        self.response_words.clear();
        self.response_stems.clear();
        for &token in &self.response.tokens {
            let word = &mut words[token];
            word.response += 1;
            if word.response > 1 {
                continue;
            }
            self.response_words.push(token);
            word.row = self.response_words.len() as u32;
            match word.kind {
                Kind::Number => counts.response_numbers += 1,
                Kind::Moment => counts.response_moments += 1,
                _ => {}
            }
            if matches!(word.kind, Kind::Number | Kind::Moment) {
                word.marks |= WANTED;
            }
            let stem = word.stem;
            if stem != NONE && words[stem].stem_row == 0 {
                self.response_stems.push(stem);
                words[stem].stem_row = self.response_stems.len() as u32;
            }
        }
        self.runs.read(&self.response);
        counts.response_tokens = self.response.tokens.len() as u64;
        counts.response_cut = self.response.cut;
        counts.response_distinct = self.response_words.len() as u64;
        counts.response_stems = self.response_stems.len() as u64;
        counts.response_pairs = self.runs.pairs_found.len() as u64;
        counts.response_triples = self.runs.triples_found.len() as u64;
        counts.citations.extend(self.response.citations.iter().map(|(number, _)| *number));
        for &token in &self.query_words {
            let word = &words[token];
            let (query, response) = (u64::from(word.query), u64::from(word.response));
            let is_common = response > 0;
            counts.common_distinct += u64::from(is_common);
            if word.bits & STOP == 0 {
                counts.query_keywords += 1;
                counts.query_squares += query * query;
                if is_common {
                    counts.answered_keywords += 1;
                    counts.cosine_dot += query * response;
                    counts.query_common_squares += query * query;
                    counts.response_common_squares += response * response;
                }
            }
        }
        for &token in &self.response_words {
            let word = &words[token];
            if word.bits & STOP == 0 {
                counts.response_squares += u64::from(word.response) * u64::from(word.response);
            }
        }
    }

    fn read_wording(&mut self, rules: &Rules, vocabulary: &Vocabulary, response: &str, counts: &mut Counts) {
        let (text, words) = (&self.response, &mut self.words);
        counts.response_supported = match counts.response_script {
            None => true,
            Some(script) if !rules.grammar.classes.is_latin(script) => false,
            Some(_) => is_english(text, words, rules.sizes.long),
        };
        let classes = &rules.grammar.classes;
        let stripped = response.trim_matches(|each| classes.get(each) & crate::classes::WHITE != 0);
        let is_short =
            stripped.chars().take(rules.sizes.non_answer_characters).count() < rules.sizes.non_answer_characters;
        let found = rules.phrases.find(text, words);
        counts.dont_know = found.has(phrases::DONT_KNOW);
        counts.non_answer = is_short && found.has(phrases::NON_ANSWER);
        counts.source_indicators = found.indicators();
        counts.hedges = found.hedges - if found.hedges > 0 { months_of_may(text, words, response) } else { 0 };
        counts.declines = rules.refusal.declines(text, response, vocabulary, words);
        self.claims.clear();
        if counts.response_supported {
            let Rules { sizes, question_marks, question_bytes, .. } = rules;
            let written = response;
            let reader = claims::Reader { vocabulary, words, sizes, text, written, question_marks, question_bytes };
            self.claims.read(&reader);
            self.claims.mark(words);
            counts.response_claims = self.claims.len() as u64;
        }
        self.names.clear();
        self.long_names.clear();
        for (start, stop) in text.phrases() {
            let phrase = &text.tokens[start..stop];
            if let [name] = phrase {
                let word = &mut words[*name];
                counts.response_phrases += u64::from(word.marks & NAME == 0);
                word.marks |= NAME | WANTED;
            } else if self.names.add(phrase, 1).1 {
                self.long_names.push((start, stop));
            }
        }
        counts.response_phrases += self.long_names.len() as u64;
    }

    fn read_contexts(&mut self, counts: &mut Counts) {
        let words = &mut self.words;
        for context in &self.contexts[..self.context_count] {
            counts.context_tokens += context.tokens.len() as u64;
            counts.contexts_cut |= context.cut;
            for &token in &context.tokens {
                let word = &mut words[token];
                if word.marks & (WANTED | FOUND) == WANTED {
                    word.marks |= FOUND;
                    match word.kind {
                        Kind::Number => counts.supported_numbers += 1,
                        Kind::Moment => counts.supported_moments += 1,
                        _ => {}
                    }
                    counts.supported_phrases += u64::from(word.marks & NAME != 0);
                }
                let stem = word.stem;
                if stem == NONE {
                    continue;
                }
                let stem = &mut words[stem];
                if stem.marks & IN_CLAIM != 0 {
                    stem.frequency += 1;
                }
                if stem.marks & IN_CONTEXT == 0 {
                    stem.marks |= IN_CONTEXT;
                    counts.context_stems += 1;
                    counts.supported_stems += u64::from(stem.stem_row > 0);
                    counts.covered_query_stems += u64::from(stem.marks & IN_QUERY != 0);
                }
            }
            self.runs.search(context, words);
        }
        counts.supported_pairs = count(&self.runs.pairs_found);
        counts.supported_triples = count(&self.runs.triples_found);
        let is_unsupported = |stem: &&u32| words[**stem].marks & (IN_CONTEXT | IN_QUERY) == 0;
        counts.unsupported_stems = self.response_stems.iter().filter(is_unsupported).count() as u64;
    }

    /// Counts the capitalised phrases of several tokens that occur in a context. Pairs decide those of two, and exclude
    /// most longer ones; the automaton is only built for the rest.
    fn read_names(&mut self, counts: &mut Counts) {
        self.names.clear();
        for &(start, stop) in &self.long_names {
            let mut pairs = self.runs.at[start..stop - 1].iter();
            if pairs.all(|&pair| self.runs.pairs_found[pair as usize]) {
                if stop - start == 2 {
                    counts.supported_phrases += 1;
                } else {
                    self.names.add(&self.response.tokens[start..stop], 1);
                }
            }
        }
        if !self.names.is_empty() {
            self.names.complete();
            self.contexts[..self.context_count].iter().for_each(|context| self.names.search(context));
            counts.supported_phrases += self.names.count_found();
        }
    }
}

/// Returns true if the English word lists serve a text of Latin letters.
fn is_english(text: &Text, words: &Words, long: usize) -> bool {
    let (mut english, mut other) = (0_usize, 0_usize);
    for &token in &text.tokens {
        let bits = words[token].bits;
        english += usize::from(bits & ENGLISH != 0);
        other += usize::from(bits & NOT_ENGLISH != 0);
    }
    let is_short = || text.tokens.iter().filter(|&&token| words[token].kind == Kind::Word).count() <= long;
    other <= english.max(1) && (english > 0 || is_short())
}

/// Returns the number of words "May", which are the month and not the verb.
fn months_of_may(text: &Text, words: &Words, written: &str) -> u64 {
    let written = written.as_bytes();
    let spans = text.tokens.iter().zip(&text.spans);
    let is_month = |(&token, &(start, end)): (&u32, &(u32, u32))| {
        words[token].bits & MAY != 0 && written[start as usize] == b'M' && written[end as usize - 1] == b'y'
    };
    spans.filter(|each| is_month(*each)).count() as u64
}
