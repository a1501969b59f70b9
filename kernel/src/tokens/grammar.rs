//! The names of months and powers of ten, and the classes of characters: what the scanner looks up.

use crate::tables::Tables;
use crate::tokens::classes::Classes;

/// The name of a month and its number.
type Name = (Vec<u8>, u32);

pub struct Grammar {
    pub classes: Classes,
    /// The names of months, longest first within a month, and their numbers, by their first three letters.
    pub months: Vec<(u32, Vec<Name>)>,
    /// For each byte, bits for the places 0, 1 and 2 at which a month's name has it, in any case.
    pub month_letters: [u8; 256],
    /// The powers of ten that are written in any case, and those of one letter.
    pub powers: Vec<(Vec<u8>, usize)>,
    pub short_powers: Vec<(u8, usize)>,
}

impl Grammar {
    pub fn new(tables: &Tables) -> Self {
        let mut names: Vec<Name> =
            tables.months.iter().map(|(name, number)| (name.clone().into_bytes(), *number)).collect();
        names.sort_by_key(|(name, number)| (*number, std::cmp::Reverse(name.len())));
        let mut month_letters = [0; 256];
        for (name, _) in &names {
            for (place, letter) in name.iter().take(3).enumerate() {
                month_letters[usize::from(letter.to_ascii_lowercase())] |= 1 << place;
                month_letters[usize::from(letter.to_ascii_uppercase())] |= 1 << place;
            }
        }
        let mut months: Vec<(u32, Vec<Name>)> = Vec::new();
        for (name, number) in names {
            let key = letters_key(&name);
            match months.iter_mut().find(|(own, _)| *own == key) {
                Some((_, known)) => known.push((name, number)),
                None => months.push((key, vec![(name, number)])),
            }
        }
        let (short, long): (Vec<_>, Vec<_>) = tables.powers.iter().partition(|(name, _)| name.len() == 1);
        Self {
            classes: Classes::new(tables),
            months,
            month_letters,
            powers: long.iter().map(|(name, power)| (name.clone().into_bytes(), *power)).collect(),
            short_powers: short.iter().map(|(name, power)| (name.as_bytes()[0], *power)).collect(),
        }
    }

    /// Returns the number of a month's name, in any case.
    pub fn month(&self, name: &[u8]) -> Option<u32> {
        let (_, names) = self.months.iter().find(|(key, _)| *key == letters_key(name))?;
        names.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, number)| *number)
    }

    /// Returns the power of ten of a multiplier.
    pub fn power(&self, name: &[u8]) -> usize {
        let short = self.short_powers.iter().find(|(own, _)| [*own] == name).map(|(_, power)| *power);
        let long = || self.powers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, power)| *power);
        short.or_else(long).unwrap_or(0)
    }
}

/// Returns the first three letters as a number, in any case.
pub fn letters_key(name: &[u8]) -> u32 {
    name.iter().take(3).fold(0, |key, letter| key << 8 | u32::from(letter | 0x20))
}
