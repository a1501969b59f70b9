//! The counts of one event, as `metrics/counts` defines them, by passes over the tokens of its texts.

mod answers;
pub mod event;
mod passages;
pub mod record;
pub mod rules;
mod runs;
