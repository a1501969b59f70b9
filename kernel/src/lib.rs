//! Counts over tokenised texts, for ragweir's metrics. Everything that leaves is an integer, a text or a tuple of them.
//!
//! The specification is Python: `metrics/text` for the tokens and `metrics/counts` for the counts. All tables come from
//! there. The floors, of which each uses only those below: this file, `counts`, `wording`, `tokens` and `tables`.
//! One call reads the texts of an event, and nothing of it remains afterwards but words of its vocabulary.

mod counts;
mod tables;
mod tokens;
mod wording;

use std::borrow::Cow;
use std::sync::Mutex;

use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString, PyTuple};

use crate::counts::event::Event;
use crate::counts::record::{Value, Visitor, NAMES};
use crate::counts::rules::Rules;
use crate::tables::Tables;
use crate::tokens::text::{readable, Text, Tokeniser};
use crate::tokens::vocabulary::Vocabulary;

/// The version of the catalogue whose counts these are. Python refuses a kernel of another one.
const CATALOGUE_VERSION: &str = "3";

/// The size of an event in bytes above which its tables are not kept for the next one.
const MAX_CHARACTERS: usize = 1 << 18;

/// What one call works with. A call that ends in a panic drops it.
struct State {
    vocabulary: Vocabulary,
    event: Event,
}

/// Counts in the texts of events.
#[pyclass(frozen)]
struct Kernel {
    rules: Rules,
    /// The vocabulary of all lists.
    vocabulary: Vocabulary,
    normalised: Py<PyAny>,
    script_names: Vec<Py<PyString>>,
    panic: Option<String>,
    /// Those that no call has in use.
    states: Mutex<Vec<State>>,
}

/// A text in NFC, cut at the limit on characters.
struct Readable<'a> {
    text: Cow<'a, str>,
    was_cut: bool,
}

#[pymethods]
impl Kernel {
    #[new]
    fn new(py: Python, tables: Tables) -> PyResult<Self> {
        let mut vocabulary = Vocabulary::new(&tables);
        let rules = Rules::new(&tables, &mut vocabulary).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let names = &rules.grammar.classes.script_names;
        let script_names = names.iter().map(|name| PyString::intern(py, name).unbind()).collect();
        let (normalised, panic) = (tables.normalised, tables.panic);
        Ok(Self { rules, vocabulary, normalised, script_names, panic, states: Mutex::default() })
    }

    /// Returns the counts of one event as a tuple in the order of `NAMES`.
    ///
    /// `places` are the places of the passages in `contexts`. The limits are those of `ragweir.metrics.texts.TokenisedTexts`.
    ///
    /// Raises:
    ///     UnicodeEncodeError: if a text has a lone surrogate.
    #[allow(clippy::too_many_arguments)]
    fn counts<'py>(
        &self,
        py: Python<'py>,
        query: &Bound<'py, PyString>,
        response: &Bound<'py, PyString>,
        expected: Vec<Bound<'py, PyString>>,
        contexts: Vec<Bound<'py, PyString>>,
        places: Vec<usize>,
        max_tokens: usize,
        max_event_tokens: usize,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let mut state = self.state();
        state.event.words.clear();
        let limits = Limits { kernel: self, py, max_tokens };
        if self.panic.as_deref() == Some(query.to_str()?) {
            panic!("a test asks for it");
        }
        let (query_text, query_tokens) = limits.read(&mut state, Place::Query, query, max_tokens)?;
        let (response_text, response_tokens) = limits.read(&mut state, Place::Response, response, max_tokens)?;
        let mut left = max_event_tokens.saturating_sub(query_tokens + response_tokens);
        let mut expected_texts = Vec::with_capacity(expected.len());
        for (number, raw) in expected.iter().enumerate() {
            let (text, tokens) = limits.read(&mut state, Place::Answer(number), raw, left)?;
            expected_texts.push(text);
            left = left.saturating_sub(tokens);
        }
        let mut context_characters = 0;
        for (number, raw) in contexts.iter().enumerate() {
            let (text, tokens) = limits.read(&mut state, Place::Context(number), raw, left)?;
            left = left.saturating_sub(tokens);
            context_characters += text.len();
        }
        if places.iter().any(|&place| place >= contexts.len()) {
            return Err(PyValueError::new_err("a passage is at no place of the contexts"));
        }
        let expected: Vec<&str> = expected_texts.iter().map(AsRef::as_ref).collect();
        let State { vocabulary, event } = &mut state;
        (event.answer_count, event.context_count) = (expected.len(), contexts.len());
        let counts = event.count(&self.rules, vocabulary, &query_text, &response_text, &expected, &places);
        let mut items = Items { py, script_names: &self.script_names, items: Vec::with_capacity(NAMES.len()) };
        counts.visit(&mut items)?;
        let texts = [&query_text, &response_text].into_iter().chain(&expected_texts);
        let characters: usize = texts.map(|text| text.len()).sum();
        self.keep(state, characters + context_characters);
        PyTuple::new(py, items.items)
    }
}

impl Kernel {
    fn state(&self) -> State {
        let kept = self.states.lock().ok().and_then(|mut states| states.pop());
        kept.unwrap_or_else(|| State { vocabulary: self.vocabulary.clone(), event: Event::default() })
    }

    /// Keeps a state for the next call, unless it has grown large by the vocabulary or by texts of so many characters.
    fn keep(&self, state: State, characters: usize) {
        if !state.vocabulary.is_large() && characters <= MAX_CHARACTERS {
            if let Ok(mut states) = self.states.lock() {
                states.push(state);
            }
        }
    }
}

/// The text of an event that is read.
enum Place {
    Query,
    Response,
    Answer(usize),
    Context(usize),
}

struct Limits<'a, 'py> {
    kernel: &'a Kernel,
    py: Python<'py>,
    max_tokens: usize,
}

impl Limits<'_, '_> {
    /// Reads one text of at most `left` tokens; returns its characters and the number of its tokens.
    fn read<'a>(
        &self,
        state: &mut State,
        place: Place,
        raw: &'a Bound<PyString>,
        left: usize,
    ) -> PyResult<(Cow<'a, str>, usize)> {
        let limit = left.min(self.max_tokens);
        let found = self.readable(raw.to_str()?, limit)?;
        let event = &mut state.event;
        let is_response = matches!(place, Place::Response);
        let text = match place {
            Place::Query => &mut event.query,
            Place::Response => &mut event.response,
            Place::Answer(number) => at(&mut event.answers, number),
            Place::Context(number) => at(&mut event.contexts, number),
        };
        let (grammar, vocabulary, words) = (&self.kernel.rules.grammar, &mut state.vocabulary, &mut event.words);
        text.read(&mut Tokeniser { grammar, vocabulary, words }, &found.text, limit, is_response);
        text.cut |= found.was_cut;
        Ok((found.text, text.tokens.len()))
    }

    fn readable<'a>(&self, raw: &'a str, limit: usize) -> PyResult<Readable<'a>> {
        let rules = &self.kernel.rules;
        let (text, was_cut) = readable(raw, limit.saturating_mul(rules.sizes.characters_per_token));
        if rules.grammar.classes.is_stable(text) {
            return Ok(Readable { text: Cow::Borrowed(text), was_cut });
        }
        let normalised: String = self.kernel.normalised.bind(self.py).call1((text,))?.extract()?;
        Ok(Readable { text: Cow::Owned(normalised), was_cut })
    }
}

fn at(texts: &mut Vec<Text>, number: usize) -> &mut Text {
    if number == texts.len() {
        texts.push(Text::default());
    }
    &mut texts[number]
}

/// Collects the items of the tuple.
struct Items<'a, 'py> {
    py: Python<'py>,
    script_names: &'a [Py<PyString>],
    items: Vec<Bound<'py, PyAny>>,
}

impl Visitor<PyErr> for Items<'_, '_> {
    fn visit(&mut self, value: Value) -> PyResult<()> {
        let py = self.py;
        self.items.push(match value {
            Value::Number(number) => number.into_pyobject(py)?.into_any(),
            Value::Flag(flag) => PyBool::new(py, flag).to_owned().into_any(),
            Value::Script(None) => py.None().into_bound(py),
            Value::Script(Some(script)) => self.script_names[script].bind(py).clone().into_any(),
            Value::Numbers(numbers) => PyTuple::new(py, numbers)?.into_any(),
            Value::Flags(flags) => PyTuple::new(py, flags)?.into_any(),
            Value::Lists(lists) => {
                let lists = lists.iter().map(|each| PyTuple::new(py, each));
                PyTuple::new(py, lists.collect::<PyResult<Vec<_>>>()?)?.into_any()
            }
        });
        Ok(())
    }
}

#[pymodule]
mod ragweir_kernel {
    use super::*;

    #[pymodule_export]
    use super::Kernel;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        // The default hook writes the message of a panic, which may have a part of a text.
        std::panic::set_hook(Box::new(|panic| {
            let place = panic.location().map(ToString::to_string).unwrap_or_default();
            eprintln!("ragweir-kernel panicked at {place}");
        }));
        let py = module.py();
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add(intern!(py, "CATALOGUE_VERSION"), CATALOGUE_VERSION)?;
        module.add(intern!(py, "PanicException"), py.get_type::<pyo3::panic::PanicException>())?;
        module.add(intern!(py, "NAMES"), PyTuple::new(py, NAMES)?)
    }
}
