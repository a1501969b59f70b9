//! Texts as tokens, by the rules of `metrics/text`: classes of characters, the scanner, and the numbers of words.

pub mod classes;
mod cursor;
mod dates;
pub mod grammar;
mod numbers;
mod scan;
pub mod text;
mod values;
pub mod vocabulary;
pub mod words;
