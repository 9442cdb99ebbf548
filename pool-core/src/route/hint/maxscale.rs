//! `-- maxscale route to …`.

use std::time::Duration;

use crate::route::hint::{Comments, Hint, HintParser, Wish};
use crate::route::lexer::Syntax;

/// The routing hints of MaxScale: `maxscale route to master`, `slave`, `server NAME` or `last`, and
/// `maxscale max_slave_replication_lag=N` (seconds), in the first comment of the text, wherever it stands.
///
/// Such a hint may send a write to a replica. The named and stacked forms (`prepare`, `begin`, `end`) keep
/// state over statements and are not understood: they stay in the text and change nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct MaxScaleHints {
    _private: (),
}

impl MaxScaleHints {
    /// The parser has no settings.
    #[must_use]
    pub const fn new() -> Self {
        Self { _private: () }
    }
}

impl HintParser for MaxScaleHints {
    fn parse<'s>(&'s self, sql: &'s str, syntax: Syntax) -> Option<Hint<'s>> {
        let comment = Comments::new(sql, syntax).next()?;
        let mut words = comment.text.split_ascii_whitespace();
        if !words.next()?.eq_ignore_ascii_case("maxscale") {
            return None;
        }
        let first = words.next()?;
        if first.eq_ignore_ascii_case("route") {
            let to = words.next()?;
            let wish =
                if to.eq_ignore_ascii_case("to") { target(&mut words)? } else { return None };
            return words.next().is_none().then(|| Hint::new(wish, comment.span));
        }
        let rest = comment.text.get("maxscale".len()..)?;
        let (key, value) = rest.split_once('=')?;
        if !key.trim().eq_ignore_ascii_case("max_slave_replication_lag") {
            return None;
        }
        let limit = Duration::from_secs(u64::from(value.trim().parse::<u32>().ok()?));
        Some(Hint { wish: None, max_lag: Some(limit), span: comment.span, moves_session: false })
    }
}

fn target<'s>(words: &mut impl Iterator<Item = &'s str>) -> Option<Wish<'s>> {
    let word = words.next()?;
    if word.eq_ignore_ascii_case("master") {
        Some(Wish::Source)
    } else if word.eq_ignore_ascii_case("slave") {
        Some(Wish::Replica)
    } else if word.eq_ignore_ascii_case("last") {
        Some(Wish::Stay)
    } else if word.eq_ignore_ascii_case("server") {
        words.next().map(Wish::Host)
    } else {
        None
    }
}
