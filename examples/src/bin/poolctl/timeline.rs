//! `poolctl timeline`: the walk over a mirrored pair.

use std::io::Write;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use pool_core::failover::sim::{Attempt, HostState, WalkEnd, World};
use pool_core::failover::{DelayRule, FailoverPolicy, GiveUp, Mirrored, Outcome, View};
use pool_core::host::HostId;
use pool_core::verdict::Verdict;
use serde::Serialize;
use serde_json::Number;

use crate::duration::{millis, parse, seconds};
use crate::failure::Failure;
use crate::svg;

const INITIAL: HostId = HostId::new(0);
const PARTNER: HostId = HostId::new(1);

/// Options of `timeline`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The login timeout, such as 15s or 500ms; 0 is unlimited.
    #[arg(long, default_value = "15s", value_parser = parse)]
    login_timeout: Duration,

    /// After which rounds the walk pauses: those with an attempt that ended early, or always.
    #[arg(long, value_enum, default_value = "early")]
    delay: Delay,

    /// What the initial partner does: hang, refuse, inactive, auth or up, or a list of changes such
    /// as `hang,up@3s`. An attempt keeps to the state in which it began.
    #[arg(long, value_name = "STATE", default_value = "hang")]
    initial: Script,

    /// What the failover partner does, likewise.
    #[arg(long, value_name = "STATE", default_value = "hang")]
    partner: Script,

    /// No attempt begins from this time on.
    #[arg(long, default_value = "60s", value_parser = parse)]
    limit: Duration,

    /// Print one JSON object a line.
    #[arg(long)]
    json: bool,

    /// Draw the walk into this SVG file as well.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Delay {
    Early,
    Always,
}

/// The states of one partner and since when.
#[derive(Clone, Debug)]
struct Script(Vec<(Duration, HostState)>);

impl FromStr for Script {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut states: Vec<(Duration, HostState)> = vec![(Duration::ZERO, HostState::Hang)];
        for (place, part) in text.split(',').enumerate() {
            let (word, at) = match part.split_once('@') {
                Some((word, at)) => (word, parse(at)?),
                None if place == 0 => (part, Duration::ZERO),
                None => return Err(format!("`{part}` needs a time, such as `{part}@3s`")),
            };
            let state = match word {
                "auth" => HostState::Auth,
                "hang" => HostState::Hang,
                "inactive" => HostState::Inactive,
                "refuse" => HostState::Down,
                "up" => HostState::Up,
                _ => {
                    return Err(format!(
                        "unknown state `{word}` (one of hang, refuse, inactive, auth, up)"
                    ));
                }
            };
            if states.last().is_some_and(|(since, _)| *since > at) {
                return Err(format!("`{part}` is earlier than the state before it"));
            }
            states.push((at, state));
        }
        Ok(Self(states))
    }
}

#[derive(Debug, Serialize)]
struct Line {
    start_ms: Number,
    host: &'static str,
    budget_ms: Number,
    end_ms: Number,
    outcome: &'static str,
}

#[derive(Debug, Serialize)]
struct Summary {
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<&'static str>,
    end_ms: Number,
    attempts: usize,
}

/// One walk, ready to be shown.
#[derive(Debug)]
pub(crate) struct Walk {
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) result: &'static str,
    pub(crate) host: Option<HostId>,
    pub(crate) end: Duration,
    pub(crate) login_timeout: Duration,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let policy = Mirrored::builder()
        .login_timeout(args.login_timeout)
        .delay_rule(match args.delay {
            Delay::Early => DelayRule::Early,
            Delay::Always => DelayRule::Always,
        })
        .build()
        .map_err(|error| {
            Failure::Input(format!("--{} {}", error.option().replace('_', "-"), error.reason()))
        })?;
    let walk = walk(&policy, args);
    if let Some(path) = &args.svg {
        svg::draw(&walk, path)?;
    }
    if args.json {
        print_json(&walk, out)?;
    } else {
        for warning in policy.warnings(2) {
            writeln!(out, "warning: {warning}")?;
        }
        print_table(&walk, out)?;
    }
    Ok(())
}

/// The name of a partner.
pub(crate) fn name(host: HostId) -> &'static str {
    if host == INITIAL { "initial" } else { "partner" }
}

/// How an attempt ended, in one word.
pub(crate) fn outcome(attempt: &Attempt) -> &'static str {
    match attempt.outcome {
        Outcome::Connected => "connected",
        Outcome::Failed { by_budget: true, .. } => "timed-out",
        Outcome::Failed { verdict: Verdict::Inactive, .. } => "inactive",
        Outcome::Failed { verdict: Verdict::Permanent, .. } => "auth-failed",
        Outcome::Failed { .. } | Outcome::Waited => "refused",
    }
}

fn walk(policy: &Mirrored, args: &Args) -> Walk {
    let mut world = World::new([name(INITIAL), name(PARTNER)]);
    for (host, script) in [(INITIAL, &args.initial), (PARTNER, &args.partner)] {
        for (at, state) in &script.0 {
            world.set_at(host, *at, *state);
        }
    }
    let hosts = world.views();
    let view = View { hosts: &hosts, current: None, left_source_at: None, statements: 0 };
    let end = world.walk(policy.plan(&view).as_mut(), Some(args.limit));
    let (result, host) = match end {
        WalkEnd::Connected(host) => ("connected", Some(host)),
        WalkEnd::GaveUp(GiveUp::Permanent) => ("permanent", None),
        WalkEnd::GaveUp(_) => ("timed-out", None),
        WalkEnd::Limit => ("limit", None),
    };
    Walk {
        attempts: world.attempts().to_vec(),
        result,
        host,
        end: world.now(),
        login_timeout: args.login_timeout,
    }
}

fn print_json(walk: &Walk, out: &mut dyn Write) -> Result<(), Failure> {
    for attempt in &walk.attempts {
        let line = Line {
            start_ms: millis(attempt.start),
            host: name(attempt.host),
            budget_ms: millis(attempt.budget),
            end_ms: millis(attempt.end),
            outcome: outcome(attempt),
        };
        writeln!(out, "{}", serde_json::to_string(&line)?)?;
    }
    let last = Summary {
        result: walk.result,
        host: walk.host.map(name),
        end_ms: millis(walk.end),
        attempts: walk.attempts.len(),
    };
    writeln!(out, "{}", serde_json::to_string(&last)?)?;
    Ok(())
}

fn print_table(walk: &Walk, out: &mut dyn Write) -> Result<(), Failure> {
    writeln!(out, "{:>9}  {:<8} {:>9} {:>9}  outcome", "start s", "host", "budget s", "end s")?;
    let mut free_since = Duration::ZERO;
    for attempt in &walk.attempts {
        if attempt.start > free_since {
            writeln!(out, "{:>9}  (delay {} s)", "", seconds(attempt.start - free_since))?;
        }
        free_since = attempt.end;
        writeln!(
            out,
            "{:>9}  {:<8} {:>9} {:>9}  {}",
            seconds(attempt.start),
            name(attempt.host),
            seconds(attempt.budget),
            seconds(attempt.end),
            outcome(attempt),
        )?;
    }
    let to = walk.host.map(|host| format!(" to {}", name(host))).unwrap_or_default();
    let (result, count) = (walk.result, walk.attempts.len());
    writeln!(out, "{result}{to} at {} s after {count} attempts", seconds(walk.end))?;
    Ok(())
}
