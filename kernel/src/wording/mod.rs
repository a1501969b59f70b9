//! Statements of one text, over its tokens: claims, refusals and phrases of lists.

pub mod claims;
pub mod phrases;
pub mod refusal;
