//! What the skim knows about each byte: its class, and which words that begin with it are worth a look.

use crate::route::Dialect;
use crate::route::lexer::{DIGIT, WORD, classes};
use crate::route::words::{LONGEST_KEY, WORDS, Word, has_meaning_inside, is_main, word};

/// The classes of bytes and the shapes of the words that matter: most words are settled by their length, their
/// first and their last letter.
pub(super) struct Table {
    classes: [u8; 256],
    /// By first letter: a bit for each length.
    lengths: [u32; 256],
    /// By length: a bit for each last letter.
    last: [u32; LONGEST_KEY + 1],
    dialect: Dialect,
    in_main: bool,
}

impl Table {
    /// Words matter that mean something inside a read and, before the main statement of a WITH, those that
    /// may begin it.
    pub(super) fn new(dialect: Dialect, in_main: bool) -> &'static Self {
        static MYSQL: Table = Table::build(Dialect::MySql, true);
        static TSQL: Table = Table::build(Dialect::TSql, true);
        static MYSQL_WITH: Table = Table::build(Dialect::MySql, false);
        static TSQL_WITH: Table = Table::build(Dialect::TSql, false);
        match (dialect, in_main) {
            (Dialect::MySql, true) => &MYSQL,
            (Dialect::TSql, true) => &TSQL,
            (Dialect::MySql, false) => &MYSQL_WITH,
            (Dialect::TSql, false) => &TSQL_WITH,
        }
    }

    /// The class of a byte.
    #[inline]
    pub(super) const fn class(&self, byte: u8) -> u8 {
        self.classes[byte as usize]
    }

    /// Whether a byte is one of those that words and whole numbers consist of.
    #[inline]
    pub(super) const fn is_word(&self, byte: u8) -> bool {
        matches!(self.class(byte), WORD | DIGIT)
    }

    /// Whether a word of this length that begins with this byte may matter. Lengths beyond 31 count as
    /// shorter ones: that costs a look at most.
    #[inline]
    pub(super) const fn may_matter(&self, first: u8, length: usize) -> bool {
        self.lengths[first as usize].wrapping_shr(length as u32) & 1 != 0
    }

    /// Whether a word matters.
    pub(super) fn matters(&self, text: &[u8]) -> bool {
        match (self.last.get(text.len()), text.last()) {
            (Some(letters), Some(last)) if letters & letter(*last) != 0 => {
                self.is_listed(word(text))
            }
            _ => false,
        }
    }

    const fn is_listed(&self, word: Word) -> bool {
        has_meaning_inside(word, self.dialect) || !self.in_main && is_main(word)
    }

    const fn build(dialect: Dialect, in_main: bool) -> Self {
        let classes = classes(dialect);
        let (lengths, last) = ([0; 256], [0; LONGEST_KEY + 1]);
        let mut table = Self { classes, lengths, last, dialect, in_main };
        let mut next = 0;
        while next < WORDS.len() {
            let (text, word) = WORDS[next];
            let text = text.as_bytes();
            if table.is_listed(word) {
                table.lengths[text[0] as usize] |= 1 << text.len();
                table.lengths[text[0].to_ascii_uppercase() as usize] |= 1 << text.len();
                table.last[text.len()] |= letter(text[text.len() - 1]);
            }
            next += 1;
        }
        table
    }
}

/// The bit of a letter, the same in both cases.
const fn letter(byte: u8) -> u32 {
    1 << (byte & 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_words_matter_in_any_case_and_no_others() {
        for (dialect, in_main) in [Dialect::MySql, Dialect::TSql]
            .into_iter()
            .flat_map(|dialect| [(dialect, true), (dialect, false)])
        {
            let table = Table::new(dialect, in_main);
            let matters = |text: &str| {
                table.may_matter(text.as_bytes()[0], text.len()) && table.matters(text.as_bytes())
            };
            for (text, word) in WORDS {
                let listed = has_meaning_inside(*word, dialect) || !in_main && is_main(*word);
                for text in [*text, &text.to_uppercase()] {
                    assert_eq!(matters(text), listed, "{dialect:?} {in_main} {text}");
                    assert!(!matters(&format!("{text}_q")) && !matters(&text.repeat(40)), "{text}");
                }
            }
            assert_eq!(matters("select"), !in_main);
            assert!(matters("INSERT") && !matters("id") && !matters("_"));
        }
    }
}
