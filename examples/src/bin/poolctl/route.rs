//! `poolctl route`: where a statement would go, and why.

use std::io::{self, BufRead, Write};

use clap::ValueEnum;
use pool_core::route::{
    Dialect, Pin, Place, Route, RoutePolicy, SessionState, StatementRouter, Target,
};
use serde::Serialize;

use crate::failure::Failure;

/// Options of `route`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The dialect of the statements.
    #[arg(long, value_enum, default_value = "mysql")]
    dialect: DialectArg,

    /// Whether the session commits every statement by itself.
    #[arg(long, value_enum, default_value = "on")]
    autocommit: Switch,

    /// The session has a transaction open, on the source.
    #[arg(long)]
    in_transaction: bool,

    /// Take hints for plain comments.
    #[arg(long)]
    no_hints: bool,

    /// Print one JSON object a line.
    #[arg(long)]
    json: bool,

    /// The statements, each in one argument; without any, one a line from standard input.
    #[arg(value_name = "SQL")]
    statements: Vec<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DialectArg {
    Mysql,
    Mssql,
}

#[derive(Clone, Copy, Debug, ValueEnum, PartialEq, Eq)]
enum Switch {
    On,
    Off,
}

#[derive(Serialize)]
struct Line<'s> {
    route: String,
    why: &'static str,
    /// `None` if the statement is refused.
    sent: Option<&'s str>,
    pin: Option<Pin>,
}

/// Routes each statement on its own, in the session that the options describe.
pub(crate) fn run(args: &Args, out: &mut impl Write) -> Result<(), Failure> {
    let mut router = StatementRouter::new(match args.dialect {
        DialectArg::Mysql => Dialect::MySql,
        DialectArg::Mssql => Dialect::TSql,
    });
    if args.no_hints {
        router = router.without_hints();
    }
    let mut session = SessionState::new();
    if args.in_transaction {
        session = session.pinned_by(Pin::Transaction);
    }
    if args.autocommit == Switch::Off {
        session = session.pinned_by(Pin::AutocommitOff);
    }
    let mut show = |sql: &str| print(&router.route(sql, &session), session.place, args.json, out);
    if !args.statements.is_empty() {
        return args.statements.iter().try_for_each(|sql| show(sql));
    }
    for (number, line) in (1..).zip(io::stdin().lock().lines()) {
        let line = line.map_err(|error| {
            Failure::Input(format!("cannot read line {number} of standard input: {error}"))
        })?;
        show(&line)?;
    }
    Ok(())
}

fn print(route: &Route<'_>, place: Place, json: bool, out: &mut impl Write) -> Result<(), Failure> {
    let refused = matches!(route.target, Target::Refused(_));
    let line = Line {
        route: name(route.target, place),
        why: route.why.as_str(),
        sent: (!refused).then_some(&*route.sent),
        pin: route.pin,
    };
    if json {
        serde_json::to_writer(&mut *out, &line)?;
        writeln!(out)?;
        return Ok(());
    }
    write!(out, "{:<8}  {:<16}  {}", line.route, line.why, line.sent.unwrap_or("(not sent)"))?;
    match line.pin {
        Some(pin) => writeln!(out, "  [bound by: {pin}]")?,
        None => writeln!(out)?,
    }
    Ok(())
}

fn name(target: Target<'_>, place: Place) -> String {
    match target {
        Target::Held => match place {
            Place::Replica => "replica".into(),
            _ => "source".into(),
        },
        Target::Host(host) => format!("host:{host}"),
        Target::Refused(_) => "refused".into(),
        Target::Replica => "replica".into(),
        _ => "source".into(),
    }
}
