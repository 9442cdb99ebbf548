//! The file that `poolctl simulate` reads: checked as a whole before anything runs.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pool_core::access::AccessMode;
use pool_core::failover::sim::{HostState, Query, Session, World};
use pool_core::failover::{Call, DelayRule, FailoverPolicy, SessionOptions};
use pool_mssql::MsSqlOptions;
use pool_mysql::MySqlOptions;
use serde::Deserialize;
use toml::{Table, Value};

use crate::duration::parse;
use crate::failure::Failure;

/// The host states of a table that has a field for each.
macro_rules! states {
    ($table:expr) => {
        [
            (HostState::Auth, $table.auth.as_slice()),
            (HostState::Busy, $table.busy.as_slice()),
            (HostState::Down, $table.down.as_slice()),
            (HostState::Hang, $table.hang.as_slice()),
            (HostState::Inactive, $table.inactive.as_slice()),
            (HostState::ReadOnly, $table.readonly.as_slice()),
            (HostState::Up, $table.up.as_slice()),
        ]
    };
}

/// More repetitions than this are a slip of the pen.
const MAX_TIMES: u32 = 1_000_000;

/// A scenario that can be run.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) hosts: Vec<String>,
    pub(crate) steps: Vec<Step>,
    start: Vec<(usize, HostState)>,
    policy: Arc<dyn FailoverPolicy>,
    options: SessionOptions,
    socket_timeout: Option<Duration>,
}

/// State changes, then one action, so many times.
#[derive(Debug)]
pub(crate) struct Step {
    /// Places in the host list and their new states.
    pub(crate) changes: Vec<(usize, HostState)>,
    pub(crate) action: Action,
    pub(crate) times: u32,
}

#[derive(Clone, Debug)]
pub(crate) enum Action {
    Call(&'static str, Call),
    Query(&'static str, Query),
    Wait(Duration),
}

impl Action {
    /// The word that names it in a scenario.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Call(name, _) | Self::Query(name, _) => name,
            Self::Wait(_) => "wait",
        }
    }
}

impl Scenario {
    /// Reads and checks a scenario file.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let wrong = |what: String| Failure::Input(format!("{}: {what}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        let file: File = toml::from_str(&text).map_err(|error| {
            let line = error.span().map(|span| 1 + text[..span.start].matches('\n').count());
            let place = line.map(|line| format!("line {line}: ")).unwrap_or_default();
            wrong(format!("{place}{}", error.message()))
        })?;
        Self::check(file).map_err(wrong)
    }

    /// A new session in the state in which the scenario starts.
    pub(crate) fn session(&self) -> Session {
        let mut world = World::new(self.hosts.iter().cloned());
        let ids: Vec<_> = world.views().iter().map(|host| host.id).collect();
        for (place, state) in &self.start {
            world.set(ids[*place], *state);
        }
        let session = Session::new(world, Arc::clone(&self.policy), self.options.clone());
        match self.socket_timeout {
            Some(limit) => session.with_socket_timeout(limit),
            None => session,
        }
    }

    fn check(file: File) -> Result<Self, String> {
        let mut names = HashSet::new();
        if let Some(twice) = file.hosts.iter().find(|name| !names.insert(name.as_str())) {
            return Err(format!("hosts: `{twice}` is listed twice"));
        }
        if file.hosts.is_empty() {
            return Err("hosts: at least one is needed".to_owned());
        }
        if file.policy == Policy::Mirrored && file.hosts.len() > 2 {
            return Err("hosts: a mirrored pair has two at most".to_owned());
        }
        let start = resolve(states!(file), &file.hosts)?;
        let settings = Settings::read(file.policy, file.settings)
            .map_err(|what| format!("[settings]: {what}"))?;
        let steps = file.step.into_iter().enumerate().map(|(index, step)| {
            step.check(&file.hosts).map_err(|what| format!("step {}: {what}", index + 1))
        });
        Ok(Self {
            steps: steps.collect::<Result<_, _>>()?,
            start,
            policy: settings.policy,
            options: settings.options,
            socket_timeout: settings.socket_timeout,
            hosts: file.hosts,
        })
    }
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Policy {
    Cycling,
    Mirrored,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    policy: Policy,
    hosts: Vec<String>,
    #[serde(default)]
    settings: Table,
    #[serde(default)]
    step: Vec<StepFile>,
    #[serde(default)]
    auth: Vec<String>,
    #[serde(default)]
    busy: Vec<String>,
    #[serde(default)]
    down: Vec<String>,
    #[serde(default)]
    hang: Vec<String>,
    #[serde(default)]
    inactive: Vec<String>,
    #[serde(default)]
    readonly: Vec<String>,
    #[serde(default)]
    up: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StepFile {
    #[serde(rename = "do")]
    action: Option<Word>,
    set_read_only: Option<bool>,
    set_autocommit: Option<bool>,
    wait: Option<String>,
    times: Option<u32>,
    #[serde(default)]
    auth: Vec<String>,
    #[serde(default)]
    busy: Vec<String>,
    #[serde(default)]
    down: Vec<String>,
    #[serde(default)]
    hang: Vec<String>,
    #[serde(default)]
    inactive: Vec<String>,
    #[serde(default)]
    readonly: Vec<String>,
    #[serde(default)]
    up: Vec<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Begin,
    Close,
    Commit,
    Connect,
    Query,
    Rollback,
    Write,
}

/// The lists of host names in a table, by the state that they set.
fn resolve(
    lists: [(HostState, &[String]); 7],
    hosts: &[String],
) -> Result<Vec<(usize, HostState)>, String> {
    let mut changes: Vec<(usize, HostState)> = Vec::new();
    for (state, names) in lists {
        for name in names {
            let place = hosts
                .iter()
                .position(|host| host == name)
                .ok_or_else(|| format!("{state}: no host is called `{name}`"))?;
            if changes.iter().any(|(other, _)| *other == place) {
                return Err(format!("{state}: `{name}` is given two states"));
            }
            changes.push((place, state));
        }
    }
    Ok(changes)
}

impl StepFile {
    fn check(self, hosts: &[String]) -> Result<Step, String> {
        let mode = |read_only| if read_only { AccessMode::ReadOnly } else { AccessMode::ReadWrite };
        let wait = self.wait.as_deref().map(parse).transpose();
        let actions = [
            self.action.map(Word::action),
            self.set_read_only.map(|on| Action::Call("set_read_only", Call::SetMode(mode(on)))),
            self.set_autocommit.map(|on| Action::Call("set_autocommit", Call::SetAutocommit(on))),
            wait.map_err(|what| format!("wait: {what}"))?.map(Action::Wait),
        ];
        let changes = resolve(states!(self), hosts)?;
        let mut given = actions.into_iter().flatten();
        let Some(action) = given.next() else {
            return Err("no action (do, set_read_only, set_autocommit or wait)".to_owned());
        };
        if let Some(other) = given.next() {
            return Err(format!("two actions, {} and {}", action.name(), other.name()));
        }
        let times = self.times.unwrap_or(1);
        if !(1..=MAX_TIMES).contains(&times) {
            return Err(format!("times: must be between 1 and {MAX_TIMES}"));
        }
        Ok(Step { changes, action, times })
    }
}

impl Word {
    fn action(self) -> Action {
        match self {
            Self::Begin => Action::Call("begin", Call::Begin),
            Self::Close => Action::Call("close", Call::Close),
            Self::Commit => Action::Call("commit", Call::Commit),
            Self::Connect => Action::Call("connect", Call::Connect),
            Self::Query => Action::Query("query", Query::Read),
            Self::Rollback => Action::Call("rollback", Call::Rollback),
            Self::Write => Action::Query("write", Query::Write),
        }
    }
}

/// What `[settings]` says, read by the very code that reads URLs and connection strings.
struct Settings {
    policy: Arc<dyn FailoverPolicy>,
    options: SessionOptions,
    socket_timeout: Option<Duration>,
}

impl Settings {
    fn read(policy: Policy, mut table: Table) -> Result<Self, String> {
        let autocommit = match table.remove("autocommit") {
            None => true,
            Some(Value::Boolean(on)) => on,
            Some(_) => return Err("autocommit: must be true or false".to_owned()),
        };
        let mut settings = match policy {
            Policy::Cycling => Self::cycling(&table)?,
            Policy::Mirrored => Self::mirrored(table)?,
        };
        settings.options.autocommit = autocommit;
        Ok(settings)
    }

    fn cycling(table: &Table) -> Result<Self, String> {
        let mut pairs = Vec::new();
        for (key, value) in table {
            pairs.push(format!("{}={}", encode(key), encode(&text(key, value)?)));
        }
        let options = MySqlOptions::from_url(&format!("mysql://host/?{}", pairs.join("&")))
            .map_err(|error| error.to_string())?;
        let cycling = options.failover().map_err(|error| error.to_string())?;
        let socket_timeout = table.get("socketTimeout").and_then(|value| match value {
            Value::Integer(millis) => u64::try_from(*millis).ok(),
            Value::String(millis) => millis.parse().ok(),
            _ => None,
        });
        Ok(Self {
            options: cycling.session_options(),
            policy: Arc::new(cycling),
            socket_timeout: socket_timeout.filter(|millis| *millis > 0).map(Duration::from_millis),
        })
    }

    fn mirrored(mut table: Table) -> Result<Self, String> {
        let rule = match table.remove("delay") {
            None => None,
            Some(Value::String(word)) if word == "early" => Some(DelayRule::Early),
            Some(Value::String(word)) if word == "always" => Some(DelayRule::Always),
            Some(_) => return Err("delay: must be \"early\" or \"always\"".to_owned()),
        };
        let mut string = String::new();
        for (key, value) in &table {
            let quoted = text(key, value)?.replace('"', "\"\"");
            string.push_str(&format!("{key}=\"{quoted}\";"));
        }
        let mut options = MsSqlOptions::from_ado(&string).map_err(|error| error.to_string())?;
        if let Some(rule) = rule {
            options = options.delay_rule(rule);
        }
        let mirrored = options.mirrored().map_err(|error| error.to_string())?;
        Ok(Self {
            policy: Arc::new(mirrored),
            options: SessionOptions::default(),
            socket_timeout: None,
        })
    }
}

/// A setting as it stands in a URL or a connection string.
fn text(key: &str, value: &Value) -> Result<String, String> {
    Ok(match value {
        Value::Boolean(on) => on.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Integer(number) => number.to_string(),
        Value::String(text) => text.clone(),
        _ => return Err(format!("{key}: must be a text, a number, true or false")),
    })
}

/// Percent-encodes everything but letters and digits.
fn encode(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
        encoded
    })
}
