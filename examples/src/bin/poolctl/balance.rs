//! `poolctl balance`: which host is picked.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use pool_core::balance::{
    BalancePolicy, Candidate, Eligible, LeastActive, Random, RoundRobin, Weighted,
};
use pool_core::host::{HostId, MAX_WEIGHT};
use serde::Serialize;

use crate::failure::Failure;

/// Options of `balance`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How the host is picked.
    #[arg(long, value_enum)]
    policy: PolicyArg,

    /// The read weights of the hosts, in list order, each 0 to 10000.
    #[arg(long, value_delimiter = ',', required = true, value_name = "W,W,…", value_parser = weight)]
    weights: Vec<u32>,

    /// The place, from 0, of a host that is down; may be given several times.
    #[arg(long, value_delimiter = ',', value_name = "INDEX")]
    down: Vec<usize>,

    /// How many picks; each lease is returned before the next.
    #[arg(long, default_value_t = 12, conflicts_with = "active_rows")]
    picks: u64,

    /// The seed of the random policy.
    #[arg(long, default_value_t = 7)]
    seed: u64,

    /// One pick for each line of this file, with these counts of active leases, such as `1,5,6`.
    #[arg(long, value_name = "FILE")]
    active_rows: Option<PathBuf>,

    /// Print one JSON object a line.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum PolicyArg {
    Weighted,
    LeastActive,
    RoundRobin,
    Random,
}

/// A policy and, if it keeps credits, how to read them.
enum Policy {
    Weighted(Weighted),
    LeastActive(LeastActive),
    Other(Box<dyn BalancePolicy>),
}

impl Policy {
    fn new(args: &Args) -> Self {
        match args.policy {
            PolicyArg::Weighted => Self::Weighted(Weighted::new()),
            PolicyArg::LeastActive => Self::LeastActive(LeastActive::new()),
            PolicyArg::RoundRobin => Self::Other(Box::new(RoundRobin::new())),
            PolicyArg::Random => Self::Other(Box::new(Random::new(args.seed))),
        }
    }

    fn pick(&self, eligible: &Eligible<'_>) -> Option<HostId> {
        match self {
            Self::Weighted(policy) => policy.pick(eligible),
            Self::LeastActive(policy) => policy.pick(eligible),
            Self::Other(policy) => policy.pick(eligible),
        }
    }

    /// The credit of each host after the last pick; `None` for a policy without.
    fn credits(&self, hosts: usize) -> Option<Vec<i64>> {
        let known = match self {
            Self::Weighted(policy) => policy.credits(),
            Self::LeastActive(policy) => policy.credits(),
            Self::Other(_) => return None,
        };
        let mut credits = vec![0; hosts];
        for (id, credit) in known {
            if let Some(slot) = credits.get_mut(id.index()) {
                *slot = credit;
            }
        }
        Some(credits)
    }
}

#[derive(Serialize)]
struct Line {
    pick: u64,
    /// `None` if no host is eligible.
    index: Option<usize>,
    credit: Option<Vec<i64>>,
}

/// Picks as often as asked.
pub(crate) fn run(args: &Args, out: &mut impl Write) -> Result<(), Failure> {
    if let Some(index) = args.down.iter().find(|index| **index >= args.weights.len()) {
        let last = args.weights.len() - 1;
        return Err(Failure::Input(format!("--down {index}: the hosts are 0 to {last}")));
    }
    let policy = Policy::new(args);
    match &args.active_rows {
        Some(path) => {
            for (pick, active) in (0..).zip(rows(path, args.weights.len())?) {
                print(args, pick, &policy, &active, out)?;
            }
        }
        None => {
            let idle = vec![0; args.weights.len()];
            for pick in 0..args.picks {
                print(args, pick, &policy, &idle, out)?;
            }
        }
    }
    Ok(())
}

fn print(
    args: &Args,
    pick: u64,
    policy: &Policy,
    active: &[u32],
    out: &mut impl Write,
) -> Result<(), Failure> {
    let eligible: Vec<Candidate> = (0_u32..)
        .zip(args.weights.iter().zip(active))
        .map(|(index, (&weight, &active))| Candidate {
            id: HostId::new(index),
            weight,
            active,
            latency: None,
        })
        .filter(|host| host.weight > 0 && !args.down.contains(&host.id.index()))
        .collect();
    let index = policy.pick(&Eligible::new(&eligible)).map(HostId::index);
    let line = Line { pick, index, credit: policy.credits(args.weights.len()) };
    if args.json {
        serde_json::to_writer(&mut *out, &line)?;
        writeln!(out)?;
        return Ok(());
    }
    match index {
        Some(index) => write!(out, "pick {pick:>4}: host {index}")?,
        None => write!(out, "pick {pick:>4}: nobody is eligible")?,
    }
    if let Some(credits) = line.credit {
        write!(out, "   credits {credits:?}")?;
    }
    writeln!(out)?;
    Ok(())
}

/// Reads the rows of active counts.
fn rows(path: &Path, hosts: usize) -> Result<Vec<Vec<u32>>, Failure> {
    let name = path.display();
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::Input(format!("cannot read {name}: {error}")))?;
    let mut rows = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() {
            continue;
        }
        let mut row = Vec::new();
        for count in line.split(',') {
            let count = count.trim();
            row.push(count.parse().map_err(|_| {
                Failure::Input(format!("{name}, line {number}: `{count}` is not a count"))
            })?);
        }
        if row.len() != hosts {
            let found = row.len();
            return Err(Failure::Input(format!(
                "{name}, line {number}: {found} counts for {hosts} hosts"
            )));
        }
        rows.push(row);
    }
    Ok(rows)
}

fn weight(text: &str) -> Result<u32, String> {
    match text.trim().parse() {
        Ok(weight) if weight <= MAX_WEIGHT => Ok(weight),
        _ => Err(format!("a weight is a whole number from 0 to {MAX_WEIGHT}")),
    }
}
