//! Asks the policies "what would happen if": no server, no waiting, the code that the pool runs.

mod balance;
mod duration;
mod failure;
mod route;
mod scenario;
mod simulate;
mod svg;
mod timeline;

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use clap::error::ErrorKind as Usage;
use clap::{Parser, Subcommand};

use self::failure::Failure;

/// Runs the policies of the pool in simulated time and shows what they would do.
#[derive(Debug, Parser)]
#[command(name = "poolctl", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Which host a balance policy picks, read after read.
    Balance(balance::Args),
    /// Where a statement would go, and why.
    Route(route::Args),
    /// A logical connection over several hosts that fail and recover as a scenario says.
    Simulate(simulate::Args),
    /// The attempts of the mirrored-partner walk, with their budgets and delays.
    Timeline(timeline::Args),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let mut out = io::stdout().lock();
    let done = match cli.command {
        Command::Balance(args) => balance::run(&args, &mut out),
        Command::Route(args) => route::run(&args, &mut out),
        Command::Simulate(args) => simulate::run(&args, &mut out),
        Command::Timeline(args) => timeline::run(&args, &mut out),
    };
    match done.and_then(|()| Ok(out.flush()?)) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read the output has seen enough.
        Err(Failure::Output(error)) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("poolctl: {failure}");
            ExitCode::from(2)
        }
    }
}

/// Help and version as clap prints them; anything wrong on one line.
fn usage(error: &clap::Error) -> ExitCode {
    match error.kind() {
        Usage::DisplayHelp | Usage::DisplayVersion => {
            // Nothing is left to do if standard output is closed.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        Usage::DisplayHelpOnMissingArgumentOrSubcommand | Usage::MissingSubcommand => {
            eprintln!("poolctl: no subcommand given; see `poolctl --help`");
        }
        _ => {
            let text = error.to_string();
            let first = text.split("\n\n").next().unwrap_or_default();
            let words: Vec<&str> = first.split_whitespace().collect();
            let line = words.join(" ");
            eprintln!("poolctl: {}", line.strip_prefix("error: ").unwrap_or(&line));
        }
    }
    ExitCode::from(2)
}
