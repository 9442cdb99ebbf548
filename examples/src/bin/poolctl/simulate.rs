//! `poolctl simulate`: a logical connection over several hosts.

use std::io::Write;
use std::path::PathBuf;

use pool_core::failover::sim::{CallEnd, Session};
use serde::Serialize;
use serde_json::Number;

use crate::duration::{millis, seconds};
use crate::failure::Failure;
use crate::scenario::{Action, Scenario, Step};

/// Options of `simulate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The scenario, a TOML file.
    scenario: PathBuf,

    /// Print one JSON object a line.
    #[arg(long)]
    json: bool,
}

/// What a step came to.
#[derive(Debug, Serialize)]
struct Line {
    step: usize,
    #[serde(rename = "do")]
    action: &'static str,
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
    host: Option<String>,
    mode: Option<&'static str>,
    attempts: Vec<String>,
    t_ms: Number,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let scenario = Scenario::read(&args.scenario)?;
    let mut session = scenario.session();
    for (index, step) in scenario.steps.iter().enumerate() {
        let line = perform(&mut session, index + 1, step);
        if args.json {
            writeln!(out, "{}", serde_json::to_string(&line)?)?;
        } else {
            print(&line, &session, out)?;
        }
    }
    Ok(())
}

/// Applies the changes and runs the action; with `times`, the first error is the step's.
fn perform(session: &mut Session, number: usize, step: &Step) -> Line {
    let ids: Vec<_> = session.world().views().iter().map(|host| host.id).collect();
    for (place, state) in &step.changes {
        session.world_mut().set(ids[*place], *state);
    }
    let seen = session.world().attempts().len();
    let mut error = None;
    for _ in 0..step.times {
        error = error.or(act(session, &step.action));
    }
    let world = session.world();
    let logical = session.logical();
    let host = logical.host();
    Line {
        step: number,
        action: step.action.name(),
        result: if error.is_some() { "error" } else { "ok" },
        error,
        host: host.map(|id| world.name(id).to_owned()),
        mode: logical.mode().filter(|_| host.is_some()).map(|mode| mode.as_str()),
        attempts: world.history().split_off(seen),
        t_ms: millis(world.now()),
    }
}

/// The name of the error, if there is one.
fn act(session: &mut Session, action: &Action) -> Option<&'static str> {
    let end = match action {
        Action::Call(_, call) => session.call(call.clone()),
        Action::Query(_, query) => session.query(*query),
        Action::Wait(time) => {
            session.world_mut().advance(*time);
            return None;
        }
    };
    match end {
        CallEnd::Done(result) => result.err().map(|failure| failure.as_str()),
        CallEnd::Limit => Some("StillTrying"),
    }
}

fn print(line: &Line, session: &Session, out: &mut dyn Write) -> Result<(), Failure> {
    writeln!(
        out,
        "{:>3}  {:<14} {:<15} {:<8} {:<3} {:>9} s  {}",
        line.step,
        line.action,
        line.error.unwrap_or(line.result),
        line.host.as_deref().unwrap_or("-"),
        line.mode.unwrap_or("-"),
        seconds(session.world().now()),
        line.attempts.join(" "),
    )?;
    Ok(())
}
