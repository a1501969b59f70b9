//! Classes of characters, their small letters and scripts, by code point.

use crate::tables::{Ranges, Tables};

pub type Class = u32;

pub const LETTER: Class = 1;
pub const NUMERAL: Class = 1 << 1;
pub const MARK: Class = 1 << 2;
pub const UNSPACED: Class = 1 << 3;
pub const DIGIT: Class = 1 << 4;
pub const BLANK: Class = 1 << 5;
pub const LINE_END: Class = 1 << 6;
pub const SPACE: Class = 1 << 7;
pub const CURRENCY: Class = 1 << 8;
pub const BRACKET: Class = 1 << 9;
pub const APOSTROPHE: Class = 1 << 10;
pub const HYPHEN: Class = 1 << 11;
pub const SIGN: Class = 1 << 12;
pub const END: Class = 1 << 13;
/// `&`, `.` and `[`, which rule 20 leaves out.
pub const ALONE: Class = 1 << 14;
pub const WHITE: Class = 1 << 15;
pub const STABLE: Class = 1 << 16;
pub const WORD: Class = LETTER | NUMERAL | MARK;

const PAGE: u32 = 128;

/// A value per code point; most have the default.
pub struct Paged<T> {
    pages: Vec<u16>,
    values: Vec<T>,
}

impl<T: Copy + Default> Paged<T> {
    fn new() -> Self {
        let pages = (char::MAX as u32 / PAGE + 1) as usize;
        Self { pages: vec![0; pages], values: vec![T::default(); PAGE as usize] }
    }

    pub fn get(&self, code: u32) -> T {
        let page = self.pages[(code / PAGE) as usize];
        self.values[usize::from(page) * PAGE as usize + (code % PAGE) as usize]
    }

    fn value(&mut self, code: u32) -> &mut T {
        let page = &mut self.pages[(code / PAGE) as usize];
        if *page == 0 {
            *page = u16::try_from(self.values.len() / PAGE as usize).expect("there are fewer than 65,536 pages");
            self.values.resize(self.values.len() + PAGE as usize, T::default());
        }
        &mut self.values[usize::from(*page) * PAGE as usize + (code % PAGE) as usize]
    }
}

pub struct Classes {
    pub ascii: [Class; 128],
    all: Paged<Class>,
    /// The small letter of a capital, 0 for all other characters.
    folds: Paged<u32>,
    /// One more than the index in `script_names`, 0 for none.
    scripts: Paged<u8>,
    /// In alphabetical order, which decides between scripts of as many letters.
    pub script_names: Vec<String>,
    latin: usize,
}

impl Classes {
    pub fn new(tables: &Tables) -> Self {
        let mut all = Paged::new();
        let mut mark = |ranges: &Ranges, class: Class| {
            for &(first, last) in ranges {
                for code in first..=last {
                    *all.value(code) |= class;
                }
            }
        };
        for (ranges, class) in [
            (&tables.letters, LETTER),
            (&tables.numerals, NUMERAL),
            (&tables.marks, MARK),
            (&tables.unspaced, UNSPACED),
            (&tables.currencies, CURRENCY),
            (&tables.brackets, BRACKET),
            (&tables.stable, STABLE),
        ] {
            mark(ranges, class);
        }
        for (characters, class) in [
            (tables.blanks.as_str(), BLANK | SPACE),
            (&tables.line_ends, LINE_END | SPACE),
            (&tables.spaces, SPACE),
            (&tables.apostrophes, APOSTROPHE),
            (&tables.hyphens, HYPHEN),
            (&tables.signs, SIGN),
            (&tables.ends, END),
            (&tables.white, WHITE),
            ("0123456789", DIGIT),
            ("&.[", ALONE),
        ] {
            mark(&characters.chars().map(|each| (each as u32, each as u32)).collect(), class);
        }
        let mut folds = Paged::new();
        for &(capital, small) in &tables.folds {
            *folds.value(capital) = small;
        }
        let mut script_names: Vec<String> = tables.scripts.iter().map(|(_, name)| name.clone()).collect();
        script_names.retain(|name| !name.is_empty());
        script_names.sort();
        script_names.dedup();
        let mut scripts = Paged::new();
        let stops = tables.scripts.iter().skip(1).map(|(start, _)| *start).chain([char::MAX as u32 + 1]);
        for ((start, name), stop) in tables.scripts.iter().zip(stops) {
            if let Ok(index) = script_names.binary_search(name) {
                for code in *start..stop {
                    *scripts.value(code) = index as u8 + 1;
                }
            }
        }
        let latin = script_names.iter().position(|name| name == "Latin").expect("Latin is a script");
        let ascii = std::array::from_fn(|code| all.get(code as u32));
        Self { ascii, all, folds, scripts, script_names, latin }
    }

    pub fn get(&self, character: char) -> Class {
        self.all.get(character as u32)
    }

    pub fn fold(&self, character: char) -> char {
        match self.folds.get(character as u32) {
            0 => character,
            small => char::from_u32(small).unwrap_or(character),
        }
    }

    /// Returns true if the text is certainly its own NFC.
    pub fn is_stable(&self, text: &str) -> bool {
        text.is_ascii() || text.chars().all(|each| self.get(each) & STABLE != 0)
    }

    /// Returns the index of the script of most letters, the first by name of several.
    pub fn script(&self, text: &str) -> Option<usize> {
        if text.is_ascii() {
            return text.bytes().any(|byte| byte.is_ascii_alphabetic()).then_some(self.latin);
        }
        let mut letters = vec![0_usize; self.script_names.len()];
        for each in text.chars() {
            if each.is_ascii() {
                letters[self.latin] += usize::from(each.is_ascii_alphabetic());
            } else if let script @ 1.. = self.scripts.get(each as u32) {
                letters[usize::from(script) - 1] += 1;
            }
        }
        let most = *letters.iter().max()?;
        (most > 0).then(|| letters.iter().position(|&count| count == most))?
    }

    pub fn is_latin(&self, script: usize) -> bool {
        script == self.latin
    }
}
