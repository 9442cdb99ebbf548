//! The router of the statement facade: hint, pin, statement, in this order of importance.

use std::borrow::Cow;
use std::ops::Range;

use crate::route::classify::{Class, classify};
use crate::route::hint::{ForceHints, Hint, HintParser, WhilePinned, Wish};
use crate::route::lexer::Syntax;
use crate::route::{
    Change, Dialect, Effect, HintFate, Kind, Pin, Pins, Place, Refusal, Route, RoutePolicy,
    SessionState, Target, Why,
};

/// Routes statements by what they are (sections 3, 8 and 9 of the routing rules).
///
/// A pinned session stays where it is. Otherwise a hint decides, else the statement: a plain read goes to a
/// replica, everything else, and everything unknown, to the source.
#[derive(Debug)]
pub struct StatementRouter {
    syntax: Syntax,
    hints: Option<Box<dyn HintParser>>,
    strips_hints: bool,
    while_pinned: WhilePinned,
    read_functions: Vec<Box<str>>,
}

impl StatementRouter {
    /// Routes a dialect in the default modes of its servers, with [`ForceHints`].
    #[must_use]
    pub fn new(dialect: Dialect) -> Self {
        Self {
            syntax: Syntax::new(dialect),
            hints: Some(Box::new(ForceHints::new())),
            strips_hints: true,
            while_pinned: WhilePinned::Ignore,
            read_functions: Vec::new(),
        }
    }

    /// Sets how texts are read. Defaults to [`Syntax::new`] of the dialect.
    ///
    /// **It must match the `sql_mode` of the servers**: with another idea of where a string ends, a write
    /// could be taken for a read.
    #[must_use]
    pub const fn with_syntax(mut self, syntax: Syntax) -> Self {
        self.syntax = syntax;
        self
    }

    /// Sets the syntax of hints. Defaults to [`ForceHints`].
    #[must_use]
    pub fn with_hints(mut self, hints: impl HintParser + 'static) -> Self {
        self.hints = Some(Box::new(hints));
        self
    }

    /// Switches hints off: they are comments like any other and stay in the text.
    #[must_use]
    pub fn without_hints(mut self) -> Self {
        self.hints = None;
        self
    }

    /// Sends hints to the server instead of cutting them out. Defaults to cutting them out.
    #[must_use]
    pub const fn keeping_hint_text(mut self) -> Self {
        self.strips_hints = false;
        self
    }

    /// Sets what a hint means on a pinned session. Defaults to [`WhilePinned::Ignore`].
    #[must_use]
    pub const fn with_hints_while_pinned(mut self, rule: WhilePinned) -> Self {
        self.while_pinned = rule;
        self
    }

    /// Adds stored functions that only read: calling them does not send a read to the source. Names without
    /// a schema, in any ASCII case. **A function that writes must not be listed**: on a replica it fails.
    #[must_use]
    pub fn with_read_functions<'n>(mut self, names: impl IntoIterator<Item = &'n str>) -> Self {
        self.read_functions.extend(names.into_iter().map(Box::from));
        self
    }

    fn decide<'s>(
        &self,
        class: Class,
        hint: Option<&Hint<'s>>,
        session: &SessionState,
    ) -> (Target<'s>, Why, HintFate) {
        let wish = hint.and_then(|hint| hint.wish);
        let found = if hint.is_some() { HintFate::Ignored } else { HintFate::None };
        let refused = |refusal| (Target::Refused(refusal), Why::Refused(refusal), found);
        if class.is_set && hint.is_some() {
            return refused(Refusal::HintOnSet);
        }
        let may_move = hint.is_some_and(|hint| hint.moves_session)
            && session.pins.without(Pin::SessionSetting).is_empty();
        if let (Some(pin), false) = (session.pins.strongest(), may_move) {
            let rule = self.hints.as_ref().and_then(|hints| hints.while_pinned());
            if hint.is_some() && rule.unwrap_or(self.while_pinned) == WhilePinned::Refuse {
                return refused(Refusal::HintWhilePinned);
            }
            return (Target::Held, Why::Pinned(pin), found);
        }
        let target = match wish {
            Some(Wish::Host(name)) => Target::Host(name),
            // Any one replica is not a certain node.
            Some(Wish::Replica) if !class.acts_on_host => Target::Replica,
            Some(Wish::Source) => Target::Source,
            Some(Wish::Stay) => Target::Held,
            _ if class.needs_host => return refused(Refusal::NeedsHost),
            _ => {
                let target = match class.kind {
                    Kind::Explain | Kind::ReadOnlyTransaction | Kind::Select => Target::Replica,
                    _ => Target::Source,
                };
                // A limit for the lag goes with whatever the statement is.
                let fate = match hint {
                    Some(hint) if hint.max_lag.is_some() => HintFate::Applied,
                    _ => found,
                };
                return (target, Why::Kind(class.kind), fate);
            }
        };
        (target, Why::Hint, HintFate::Applied)
    }
}

impl Default for StatementRouter {
    fn default() -> Self {
        Self::new(Dialect::MySql)
    }
}

impl RoutePolicy for StatementRouter {
    fn route<'s>(&'s self, sql: &'s str, session: &SessionState) -> Route<'s> {
        let hint = self.hints.as_ref().and_then(|hints| hints.parse(sql, self.syntax));
        let text = match &hint {
            // A hint that is part of the statement would not be understood.
            Some(hint) if hint.moves_session => &sql[..hint.span.start],
            _ => sql,
        };
        let mut effect = Effect::default();
        let class = classify(text, self.syntax, &self.read_functions, &mut effect);
        if class.kind == Kind::Select && hint.is_none() && session.pins.is_empty() {
            // By far the most common case: only the statement decides, and it has no effect.
            return Route::new(Target::Replica, Kind::Select, sql);
        }
        let mut route = Route::new(Target::Source, class.kind, sql);
        route.effect = effect;
        (route.target, route.why, route.hint) = self.decide(class, hint.as_ref(), session);
        if let Some(hint) = hint {
            route.max_lag = hint.max_lag;
            if self.strips_hints {
                route.sent = cut(sql, hint.span);
            }
        }
        if matches!(route.target, Target::Refused(_)) {
            route.effect = Effect::default();
        } else {
            route.pin = pin_after(session.pins, &route.effect);
        }
        route
    }
}

/// What binds the session once the statement has succeeded, or binds this statement.
fn pin_after(pins: Pins, effect: &Effect) -> Option<Pin> {
    if effect.changes.is_empty() && pins.is_empty() {
        return effect.needs.map(|needs| needs.pin());
    }
    let mut after = pins;
    for change in effect.changes.iter() {
        after = match change {
            Change::Begin(pin, _) => after.with(pin),
            Change::End(pin, _) => after.without(pin),
        };
    }
    after.union(effect.changes.beyond()).strongest().or(effect.needs.map(|needs| needs.pin()))
}

/// The text without a span: a hint at the start goes with the blanks around it, one in the middle leaves a
/// blank where two words would grow together.
fn cut(sql: &str, span: Range<usize>) -> Cow<'_, str> {
    let (head, tail) = (&sql[..span.start], &sql[span.end..]);
    if head.trim_ascii_start().is_empty() {
        return Cow::Borrowed(tail.trim_ascii_start());
    }
    if tail.trim_ascii().is_empty() {
        return Cow::Borrowed(head.trim_ascii_end());
    }
    let apart = head.ends_with(|char: char| char.is_ascii_whitespace())
        || tail.starts_with(|char: char| char.is_ascii_whitespace() || ";,)".contains(char));
    let mut text = String::with_capacity(head.len() + tail.len() + 1);
    text.push_str(head);
    if !apart {
        text.push(' ');
    }
    text.push_str(tail);
    Cow::Owned(text)
}

/// Where an explanation says a pinned session is.
impl From<Place> for Target<'_> {
    fn from(place: Place) -> Self {
        match place {
            Place::Host => Self::Held,
            Place::Replica => Self::Replica,
            Place::Source => Self::Source,
        }
    }
}
