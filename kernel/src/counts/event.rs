//! The counts of one event, defined in `metrics/counts`, by passes over its tokens.

use crate::counts::answers::Answers;
use crate::counts::passages::Passages;
use crate::counts::record::Counts;
use crate::counts::rules::Rules;
use crate::counts::runs::Runs;
use crate::tables::*;
use crate::tokens::classes::WHITE;
use crate::tokens::text::Text;
use crate::tokens::vocabulary::{Kind, Vocabulary, NONE};
use crate::tokens::words::*;
use crate::wording::claims::{Claims, Reader};
use crate::wording::phrases::{self, OwnPhrases};

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
        let stripped = response.trim_matches(|each| classes.get(each) & WHITE != 0);
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
            let reader = Reader { vocabulary, words, sizes, text, written, question_marks, question_bytes };
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
