//! `/* hostgroup=1;max_lag_ms=100 */`.

use std::sync::Arc;
use std::time::Duration;

use crate::route::hint::{Comments, Hint, HintParser, Wish};
use crate::route::lexer::Syntax;

/// What a hostgroup of ProxySQL stands for here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Hostgroup {
    /// One host, by name.
    Host(Arc<str>),
    /// The replicas: a reader hostgroup.
    Replicas,
    /// The source: a writer hostgroup.
    Source,
}

/// The annotations of ProxySQL: `key=value` pairs with `;` between, in the first comment of the text.
///
/// `hostgroup` is translated by the given mapping (an unknown number is no hint), `max_lag_ms` limits the
/// lag for this statement. The other keys of ProxySQL (cache, mirror, delay, retries …) concern that proxy
/// alone: they are not acted on, and a comment with nothing else stays in the text.
#[derive(Clone, Debug, Default)]
pub struct ProxySqlHints {
    groups: Vec<(u32, Hostgroup)>,
}

impl ProxySqlHints {
    /// A mapping from hostgroup numbers.
    #[must_use]
    pub fn new(groups: impl IntoIterator<Item = (u32, Hostgroup)>) -> Self {
        Self { groups: groups.into_iter().collect() }
    }

    fn group(&self, group: &str) -> Option<&Hostgroup> {
        let number: u32 = group.parse().ok()?;
        self.groups.iter().find(|(known, _)| *known == number).map(|(_, group)| group)
    }
}

impl HintParser for ProxySqlHints {
    fn parse<'s>(&'s self, sql: &'s str, syntax: Syntax) -> Option<Hint<'s>> {
        let comment = Comments::new(sql, syntax).next()?;
        let mut wish = None;
        let mut max_lag = None;
        for pair in comment.text.split(';').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=')?;
            let (key, value) = (key.trim(), value.trim());
            if key.eq_ignore_ascii_case("hostgroup") {
                wish = self.group(value);
            } else if key.eq_ignore_ascii_case("max_lag_ms") {
                max_lag = value.parse().ok().map(Duration::from_millis);
            }
        }
        let wish = match wish {
            Some(Hostgroup::Host(name)) => Some(Wish::Host(name)),
            Some(Hostgroup::Replicas) => Some(Wish::Replica),
            Some(Hostgroup::Source) => Some(Wish::Source),
            None => None,
        };
        (wish.is_some() || max_lag.is_some()).then_some(Hint {
            wish,
            max_lag,
            span: comment.span,
            moves_session: false,
        })
    }
}
