//! The words that matter to the classifier, found with one multiplication and usually one comparison.

use crate::route::Dialect;
use crate::route::functions::{BOTH, MYSQL as MYSQL_FUNCTIONS, TSQL as TSQL_FUNCTIONS};

macro_rules! words {
    ($($variant:ident $text:literal)*) => {
        /// A word with a meaning for routing, at the start of a statement or inside.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Word { $($variant),* , Plain }
        pub(super) const WORDS: &[(&str, Word)] = &[$(($text, Word::$variant)),*];
    };
}

words! {
    Add "add" Alter "alter" Analyze "analyze" Backup "backup" Begin "begin" Binlog "binlog" Bulk "bulk"
    Cache "cache" Call "call" Change "change" Check "check" Checkpoint "checkpoint"
    Checksum "checksum" Clone "clone" Close "close" Commit "commit" Conversation "conversation"
    Create "create" Dbcc "dbcc"
    Deallocate "deallocate" Declare "declare" Delete "delete" Deny "deny" Desc "desc"
    Describe "describe" Do "do" Drop "drop" Exec "exec" Execute "execute" Explain "explain"
    Fetch "fetch" Flush "flush" Get "get" Goto "goto" Grant "grant" Handler "handler"
    HoldLock "holdlock" If "if" Import "import" Insert "insert" Install "install" Into "into"
    Kill "kill" Load "load" Lock "lock" Merge "merge" Open "open" Optimize "optimize"
    PagLock "paglock" Prepare "prepare" Print "print" Purge "purge" RaisError "raiserror"
    Reconfigure "reconfigure" Release "release" Rename "rename" Repair "repair"
    RepeatableRead "repeatableread" Replace "replace" Reset "reset" Resignal "resignal"
    Restart "restart" Restore "restore" Return "return" Revert "revert" Revoke "revoke"
    Rollback "rollback" Save "save" Savepoint "savepoint" Select "select"
    Serializable "serializable" Set "set" SetUser "setuser" Share "share" Show "show" Shutdown "shutdown"
    Signal "signal" Start "start" Stop "stop" Table "table" TabLock "tablock"
    TabLockX "tablockx" Throw "throw" Truncate "truncate" Uninstall "uninstall" Unlock "unlock"
    Update "update" UpdLock "updlock" Use "use" Value "value" Values "values" WaitFor "waitfor"
    While "while" With "with" WriteText "writetext" UpdateText "updatetext" Xa "xa" XLock "xlock"
}

/// Words that mean something inside a MySQL read.
const INSIDE_MYSQL: &[Word] = &[
    Word::Delete,
    Word::Insert,
    Word::Into,
    Word::Lock,
    Word::Replace,
    Word::Share,
    Word::Update,
    Word::Value,
];

/// Words that mean something at the start of a T-SQL statement only if they are the first of the text; T-SQL
/// needs no `;` between statements, so that every other one ends a read.
const NOT_INSIDE_TSQL: &[Word] = &[
    Word::Analyze,
    Word::Binlog,
    Word::Cache,
    Word::Call,
    Word::Change,
    Word::Check,
    Word::Checksum,
    Word::Clone,
    Word::Desc,
    Word::Describe,
    Word::Do,
    Word::Explain,
    Word::Flush,
    Word::Get,
    Word::Handler,
    Word::Import,
    Word::Install,
    Word::Load,
    Word::Lock,
    Word::Optimize,
    Word::Prepare,
    Word::Purge,
    Word::Release,
    Word::Rename,
    Word::Repair,
    Word::Replace,
    Word::Reset,
    Word::Resignal,
    Word::Restart,
    Word::Savepoint,
    Word::Select,
    Word::Share,
    Word::Show,
    Word::Signal,
    Word::Start,
    Word::Stop,
    Word::Table,
    Word::Uninstall,
    Word::Unlock,
    Word::Values,
    Word::With,
    Word::Xa,
];

/// The meaning of a word anywhere.
#[inline]
pub(super) fn word(text: &[u8]) -> Word {
    const SELECT: u128 = key(b"select");
    if text.len() > LONGEST_KEY {
        return Word::Plain;
    }
    let key = key(text);
    if key == SELECT {
        // By far the most common one.
        return Word::Select;
    }
    let mut slot = slot(key, WORD_SLOTS);
    loop {
        let (found, word) = WORD_TABLE[slot];
        if found == key {
            return word;
        }
        if found == 0 {
            return Word::Plain;
        }
        slot = (slot + 1) % WORD_SLOTS;
    }
}

/// The meaning of a word inside a read; [`Word::Plain`] for those that have none there.
pub(super) fn word_inside(text: &[u8], dialect: Dialect) -> Word {
    match word(text) {
        word if has_meaning_inside(word, dialect) => word,
        _ => Word::Plain,
    }
}

/// Whether a word has a meaning inside a read.
pub(super) const fn has_meaning_inside(word: Word, dialect: Dialect) -> bool {
    match (word, dialect) {
        (Word::Plain, _) => false,
        (_, Dialect::MySql) => holds(INSIDE_MYSQL, word),
        (_, Dialect::TSql) => !holds(NOT_INSIDE_TSQL, word),
    }
}

/// Whether a word begins the main statement of a WITH.
pub(super) const fn is_main(word: Word) -> bool {
    matches!(
        word,
        Word::Delete
            | Word::Insert
            | Word::Merge
            | Word::Replace
            | Word::Select
            | Word::Table
            | Word::Update
            | Word::Values
    )
}

/// Whether a word before `(` is harmless: a built-in function without side effects whose value does not
/// depend on the connection or the node, or a keyword, or a type.
pub(super) fn is_harmless_call(text: &[u8], dialect: Dialect) -> bool {
    if text.len() > LONGEST_KEY {
        let list = match dialect {
            Dialect::MySql => MYSQL_FUNCTIONS,
            Dialect::TSql => TSQL_FUNCTIONS,
        };
        return BOTH.iter().chain(list).any(|name| name.as_bytes().eq_ignore_ascii_case(text));
    }
    let table = match dialect {
        Dialect::MySql => &MYSQL_CALLS,
        Dialect::TSql => &TSQL_CALLS,
    };
    let key = key(text);
    let mut slot = slot(key, CALL_SLOTS);
    loop {
        match table[slot] {
            0 => return false,
            found if found == key => return true,
            _ => slot = (slot + 1) % CALL_SLOTS,
        }
    }
}

/// The longest word that is looked up.
pub(super) const LONGEST_KEY: usize = 16;
const WORD_SLOTS: usize = 512;
const CALL_SLOTS: usize = 2048;

static WORD_TABLE: [(u128, Word); WORD_SLOTS] = {
    let mut table = [(0, Word::Plain); WORD_SLOTS];
    let mut next = 0;
    while next < WORDS.len() {
        let (text, word) = WORDS[next];
        let key = key(text.as_bytes());
        let mut at = slot(key, WORD_SLOTS);
        while table[at].0 != 0 {
            at = (at + 1) % WORD_SLOTS;
        }
        table[at] = (key, word);
        next += 1;
    }
    table
};

static MYSQL_CALLS: [u128; CALL_SLOTS] = calls(MYSQL_FUNCTIONS);
static TSQL_CALLS: [u128; CALL_SLOTS] = calls(TSQL_FUNCTIONS);

const fn calls(list: &[&str]) -> [u128; CALL_SLOTS] {
    let mut table = [0; CALL_SLOTS];
    let lists = [BOTH, list];
    let mut which = 0;
    while which < 2 {
        let mut next = 0;
        while next < lists[which].len() {
            let text = lists[which][next].as_bytes();
            next += 1;
            if text.len() > LONGEST_KEY {
                continue;
            }
            let key = key(text);
            let mut at = slot(key, CALL_SLOTS);
            while table[at] != 0 {
                at = (at + 1) % CALL_SLOTS;
            }
            table[at] = key;
        }
        which += 1;
    }
    table
}

const fn holds(list: &[Word], word: Word) -> bool {
    let mut next = 0;
    while next < list.len() {
        if list[next] as u8 == word as u8 {
            return true;
        }
        next += 1;
    }
    false
}

/// The lower-case bytes of a word of at most 16 bytes, as one number.
#[inline]
const fn key(text: &[u8]) -> u128 {
    const HALF: usize = 8;
    if text.len() <= HALF {
        return half_key(text) as u128;
    }
    let (head, tail) = text.split_at(text.len() - HALF);
    (half_key(head) as u128) << 64 | half_key(tail) as u128
}

#[inline]
const fn half_key(text: &[u8]) -> u64 {
    if let (Some(head), Some(tail)) = (text.first_chunk(), text.last_chunk()) {
        let head = (u32::from_be_bytes(*head) | 0x2020_2020) as u64;
        let tail = (u32::from_be_bytes(*tail) | 0x2020_2020) as u64;
        // They overlap unless there are 8 bytes.
        return head << 32 >> (8 * (8 - text.len())) & !(u32::MAX as u64) | tail;
    }
    let mut key = 0;
    let mut at = 0;
    while at < text.len() {
        key = key << 8 | (text[at] | 0x20) as u64;
        at += 1;
    }
    key
}

#[inline]
const fn slot(key: u128, slots: usize) -> usize {
    let folded = (key as u64) ^ ((key >> 64) as u64).rotate_left(29);
    (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % slots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_any_case_and_only_as_a_whole() {
        for (text, meaning) in WORDS {
            assert_eq!(word(text.as_bytes()), *meaning);
            assert_eq!(word(text.to_uppercase().as_bytes()), *meaning);
            assert_eq!(word(format!("{text}s_").as_bytes()), Word::Plain);
        }
        assert_eq!(word(b""), Word::Plain);
        assert_eq!(word(b"a_word_that_is_longer_than_any_key"), Word::Plain);
    }

    #[test]
    fn inside_a_read_only_some_words_matter() {
        for text in ["update", "UPDATE", "Insert", "into", "lock", "share"] {
            assert_ne!(word_inside(text.as_bytes(), Dialect::MySql), Word::Plain, "{text}");
        }
        for text in ["set", "begin", "use", "for_update", "updates", "commit"] {
            assert_eq!(word_inside(text.as_bytes(), Dialect::MySql), Word::Plain, "{text}");
        }
        for text in ["set", "begin", "exec", "updlock", "merge", "commit"] {
            assert_ne!(word_inside(text.as_bytes(), Dialect::TSql), Word::Plain, "{text}");
        }
        for text in ["replace", "lock", "select", "values", "share"] {
            assert_eq!(word_inside(text.as_bytes(), Dialect::TSql), Word::Plain, "{text}");
        }
    }

    #[test]
    fn every_listed_call_is_found_and_none_is_listed_twice() {
        for (dialect, list) in [(Dialect::MySql, MYSQL_FUNCTIONS), (Dialect::TSql, TSQL_FUNCTIONS)]
        {
            let mut seen = std::collections::BTreeSet::new();
            for name in BOTH.iter().chain(list) {
                assert!(is_harmless_call(name.as_bytes(), dialect), "{name}");
                assert!(is_harmless_call(name.to_uppercase().as_bytes(), dialect), "{name}");
                assert!(seen.insert(name), "{name} twice");
            }
        }
        for name in ["get_lock", "last_insert_id", "nextval", "my_function", "load_file", ""] {
            assert!(!is_harmless_call(name.as_bytes(), Dialect::MySql), "{name}");
        }
    }
}
