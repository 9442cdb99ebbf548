//! One client's connection: greeting, login, commands.

mod login;
mod prepared;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use mysql_common::constants::{Command, StatusFlags};
use tokio::net::TcpStream;
use tokio::sync::watch;

use prepared::Prepared;

use super::Ending;
use super::context::Context;
use super::counters::{Outcome, count};
use super::error::MySqlError;
use super::handshake;
use super::packet::PacketStream;
use super::reader::Reader;
use super::session::{Reply, Session};
use super::state::{HostState, Shared};
use super::statement::{self, Statement};
use super::switches::{Fault, take_fault};
use super::text::pieces;
use super::wire::{Done, Format, Writer};
use crate::alive::Guard;
use crate::port;
use crate::sql::Interrupt;
use crate::sql::lexer::{Dialect, Token, split, tokens};

const CHANGE_USER: u8 = Command::COM_CHANGE_USER as u8;
const INIT_DB: u8 = Command::COM_INIT_DB as u8;
const PING: u8 = Command::COM_PING as u8;
const PROCESS_KILL: u8 = Command::COM_PROCESS_KILL as u8;
const QUERY: u8 = Command::COM_QUERY as u8;
const QUIT: u8 = Command::COM_QUIT as u8;
const RESET_CONNECTION: u8 = Command::COM_RESET_CONNECTION as u8;
const SET_OPTION: u8 = Command::COM_SET_OPTION as u8;
const STATISTICS: u8 = Command::COM_STATISTICS as u8;
const STMT_CLOSE: u8 = Command::COM_STMT_CLOSE as u8;
const STMT_EXECUTE: u8 = Command::COM_STMT_EXECUTE as u8;
const STMT_PREPARE: u8 = Command::COM_STMT_PREPARE as u8;
const STMT_RESET: u8 = Command::COM_STMT_RESET as u8;
const STMT_SEND_LONG_DATA: u8 = Command::COM_STMT_SEND_LONG_DATA as u8;

/// What a new connection brings with it.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) cluster: Arc<Shared>,
    pub(super) host: usize,
    pub(super) id: u32,
    pub(super) interrupt: Arc<Interrupt>,
    pub(super) end: watch::Receiver<Option<Ending>>,
    pub(super) alive: Guard,
}

/// Serves a connection to its end and closes it.
pub(super) async fn serve(arrival: Arrival, stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let mut end = arrival.end.clone();
    let mut packets = PacketStream::new(stream);
    let guard = arrival.alive.clone();
    let ending = tokio::select! {
        biased;
        // Cancellation safety: dropping the connection rolls back what it has open.
        end = end.wait_for(Option::is_some) => end.ok().and_then(|end| *end).unwrap_or(Ending::Reset),
        // A client that goes away is no error of the server.
        ending = login::accept(arrival, &mut packets) => ending.unwrap_or(Ending::Fin),
    };
    match ending {
        Ending::Fin => drop(packets),
        Ending::Reset => port::reset(packets.into_stream()),
    }
    drop(guard);
}

struct Connection<'a> {
    host: &'a HostState,
    packets: &'a mut PacketStream,
    writer: Writer,
    session: Session,
    statements: HashMap<u32, Prepared>,
    next_statement: u32,
    capabilities: u32,
    nonce: [u8; 20],
    /// Set when a switch or a KILL ends the connection.
    end: watch::Receiver<Option<Ending>>,
}

/// How a command ends.
enum Next {
    Answer,
    End(Ending),
    Nothing,
    /// The connection stays open and silent.
    Silence,
}

impl Connection<'_> {
    async fn commands(&mut self) -> io::Result<Ending> {
        loop {
            let message = self.next_message().await?;
            self.thaw().await?;
            match self.command(&message).await? {
                Next::Answer => self.send().await?,
                Next::End(ending) => {
                    if ending == Ending::Fin {
                        self.send().await?;
                    }
                    return Ok(ending);
                }
                Next::Nothing => {}
                Next::Silence => std::future::pending().await,
            }
        }
    }

    /// Waits for the next message; meanwhile a demotion may take the open transaction.
    async fn next_message(&mut self) -> io::Result<Vec<u8>> {
        let mut demotions = self.host.demotions.subscribe();
        // A demotion may have come while a statement ran.
        if self.host.switches.borrow().check_writable().is_err() {
            self.session.demoted().await;
        }
        loop {
            tokio::select! {
                message = self.packets.read() => return message,
                changed = demotions.changed() => {
                    changed.map_err(io::Error::other)?;
                    self.session.demoted().await;
                }
            }
        }
    }

    /// Waits while the host is frozen; meanwhile a demotion may take the open transaction.
    async fn thaw(&mut self) -> io::Result<()> {
        let mut switches = self.host.switches.subscribe();
        let mut demotions = self.host.demotions.subscribe();
        loop {
            tokio::select! {
                biased;
                // The lock on the switches must not be held across an await.
                thawed = async { switches.wait_for(|switches| !switches.frozen).await.is_ok() } => {
                    return if thawed { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) };
                }
                changed = demotions.changed() => {
                    changed.map_err(io::Error::other)?;
                    self.session.demoted().await;
                }
            }
        }
    }

    async fn send(&mut self) -> io::Result<()> {
        self.thaw().await?;
        if self.end.borrow().is_some() {
            // Whoever dies says nothing, not even that a statement was interrupted.
            return std::future::pending().await;
        }
        self.packets.flush().await
    }

    fn ok(&mut self) {
        let status = self.session.status();
        self.writer.ok(self.packets, &Done::default(), status);
    }

    fn answer(&mut self, result: Result<(), MySqlError>) -> Next {
        match result {
            Ok(()) => self.ok(),
            Err(error) => self.writer.error(self.packets, &error),
        }
        Next::Answer
    }

    async fn command(&mut self, message: &[u8]) -> io::Result<Next> {
        let Some((&command, rest)) = message.split_first() else {
            return Ok(self.answer(Err(MySqlError::new(1047, "Unknown command"))));
        };
        let counts = &self.host.counts;
        let next = match command {
            QUIT => {
                count(&counts.quits);
                Next::End(Ending::Fin)
            }
            PING => {
                count(&counts.pings);
                self.answer(Ok(()))
            }
            INIT_DB => {
                let result = self.session.change_database(&String::from_utf8_lossy(rest));
                self.answer(result)
            }
            QUERY => self.query(&String::from_utf8_lossy(rest)).await,
            STMT_PREPARE => {
                count(&counts.prepares);
                self.prepare(&String::from_utf8_lossy(rest)).await
            }
            STMT_EXECUTE => self.execute(rest).await,
            STMT_SEND_LONG_DATA => {
                self.long_data(rest);
                Next::Nothing
            }
            STMT_CLOSE => {
                count(&counts.closes);
                if let Some(id) = Reader::new(rest).u32() {
                    self.statements.remove(&id);
                }
                Next::Nothing
            }
            STMT_RESET => {
                self.reset_statement(rest);
                self.answer(Ok(()))
            }
            RESET_CONNECTION => {
                count(&counts.resets);
                self.statements.clear();
                let result = self.session.reset().await;
                self.answer(result)
            }
            CHANGE_USER => return self.change_user(rest).await,
            PROCESS_KILL => {
                let id = Reader::new(rest).u32().unwrap_or(0);
                let found = self.host.end(id, Ending::Fin);
                let unknown = || MySqlError::new(1094, format!("Unknown thread id: {id}"));
                self.answer(if found { Ok(()) } else { Err(unknown()) })
            }
            STATISTICS => {
                self.packets.write(b"Embedded test server");
                Next::Answer
            }
            SET_OPTION => self.answer(Ok(())),
            _ => self.answer(Err(MySqlError::new(1047, "Unknown command"))),
        };
        Ok(next)
    }

    async fn query(&mut self, text: &str) -> Next {
        let cut = tokens(text, Dialect::MySql);
        let parts = split(&cut);
        if parts.is_empty() {
            return self.answer(Err(MySqlError::new(1065, "Query was empty")));
        }
        let last = parts.len() - 1;
        for (at, part) in parts.iter().enumerate() {
            let Some(statement) = statement::parse(&pieces(part)) else {
                let text = source(part);
                return self.answer(Err(MySqlError::syntax(&text)));
            };
            // A single statement is logged as it came, comments included.
            let text = if last == 0 { text.to_owned() } else { source(part).trim().to_owned() };
            let more = at < last;
            let next = self.run(&text, &statement, Vec::new(), Format::Text, more).await;
            match next {
                Ok(true) => {}
                Ok(false) => return Next::Answer,
                Err(next) => return next,
            }
        }
        Next::Answer
    }

    /// Runs one statement and writes its answer. `Ok(false)` after an error, which ends the
    /// statements sent together with this one.
    async fn run(
        &mut self,
        text: &str,
        statement: &Statement,
        params: Vec<crate::sql::Value>,
        format: Format,
        more: bool,
    ) -> Result<bool, Next> {
        let context = Arc::clone(self.session.context());
        count(&self.host.counts.statements);
        let prepared = format == Format::Binary;
        let entry = context.cluster.log.add(self.host.index, context.id, text, prepared);
        // An interrupt for an earlier statement does not count.
        context.interrupt.clear();
        self.set_running(Some(text));
        let fault = take_fault(&mut self.host.faults.lock(), text);
        match &fault {
            Some(Fault::DropBefore) => return Err(Next::End(Ending::Reset)),
            Some(Fault::Hang) => return Err(Next::Silence),
            _ => {}
        }
        let result = match &fault {
            Some(Fault::Error { code, message }) => Err(MySqlError::new(*code, message.clone())),
            _ => match self.delay(&context).await {
                Ok(()) => self.session.run(statement, params).await,
                Err(error) => Err(error),
            },
        };
        self.set_running(None);
        let outcome = match &result {
            Ok(_) => Outcome::Ran,
            Err(error) => Outcome::Failed(error.code),
        };
        context.cluster.log.finish(entry, outcome);
        if fault == Some(Fault::DropAfter) {
            return Err(Next::End(Ending::Reset));
        }
        let mut status = self.session.status();
        if more {
            status |= StatusFlags::SERVER_MORE_RESULTS_EXISTS;
        }
        match result {
            Ok(Reply::Done(done)) => self.writer.ok(self.packets, &done, status),
            Ok(Reply::Goodbye) => {
                self.writer.ok(self.packets, &Done::default(), status);
                return Err(Next::End(Ending::Fin));
            }
            Ok(Reply::Table(table)) => self.writer.table(self.packets, &table, format, status),
            Err(error) => {
                self.writer.error(self.packets, &error);
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn delay(&self, context: &Context) -> Result<(), MySqlError> {
        let delay: Duration = self.host.switches.borrow().statement_delay;
        if delay.is_zero() {
            return Ok(());
        }
        tokio::select! {
            () = tokio::time::sleep(delay) => Ok(()),
            () = context.interrupt.interrupted() => Err(MySqlError::interrupted()),
        }
    }

    fn set_running(&self, text: Option<&str>) {
        if let Some(link) = self.host.links.lock().get_mut(&self.session.context().id) {
            link.running = text.map(str::to_owned);
        }
    }

    async fn change_user(&mut self, message: &[u8]) -> io::Result<Next> {
        count(&self.host.counts.resets);
        let Some(login) = handshake::parse_change_user(message, self.capabilities) else {
            return Ok(self.answer(Err(MySqlError::new(1043, "Bad handshake"))));
        };
        self.statements.clear();
        let cluster = Arc::clone(&self.session.context().cluster);
        let checked =
            login::log_in(&cluster, self.host, self.packets, &login, &mut self.nonce).await?;
        if let Err(error) = checked {
            count(&self.host.counts.rejected_logins);
            self.writer.error(self.packets, &error);
            return Ok(Next::End(Ending::Fin));
        }
        let result = self.session.reset().await;
        {
            let mut vars = self.session.context().vars.lock();
            vars.user = login.user;
            vars.database = login.database;
        }
        Ok(self.answer(result))
    }
}

/// The text of a statement, as it came.
fn source(part: &[Token<'_>]) -> String {
    part.iter().map(|token| token.text).collect()
}
