//! The record of counts: their names, types and order.

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
