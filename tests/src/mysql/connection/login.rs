//! From the greeting to the first command.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use mysql_common::constants::CapabilityFlags;
use parking_lot::Mutex;

use super::{Arrival, Connection};
use crate::mysql::Ending;
use crate::mysql::context::{Context, Vars};
use crate::mysql::counters::count;
use crate::mysql::error::MySqlError;
use crate::mysql::handshake::{self, Login};
use crate::mysql::packet::PacketStream;
use crate::mysql::session::Session;
use crate::mysql::state::{HostState, Shared};
use crate::mysql::switches::Accept;
use crate::mysql::wire::{Writer, early_error};

/// Greets, checks who comes, and serves until one side has enough.
pub(super) async fn accept(arrival: Arrival, packets: &mut PacketStream) -> io::Result<Ending> {
    let cluster = Arc::clone(&arrival.cluster);
    let end = arrival.end.clone();
    let host = &cluster.hosts[arrival.host];
    let mut switches = host.switches.subscribe();
    loop {
        let accept = {
            let decided = switches.wait_for(|switches| switches.accept != Accept::Hang).await;
            decided.map_err(io::Error::other)?.accept
        };
        match accept {
            Accept::Close => return Ok(Ending::Fin),
            Accept::Hang => {}
            Accept::Reset => return Ok(Ending::Reset),
            Accept::Serve => break,
        }
    }
    let delay = switches.borrow().connect_delay;
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
    let max = switches.borrow().max_connections;
    if max.is_some_and(|max| host.links.lock().len() > max) {
        count(&host.counts.rejected_logins);
        early_error(packets, &MySqlError::too_many_connections());
        packets.flush().await?;
        return Ok(Ending::Fin);
    }
    let mut nonce = handshake::nonce();
    handshake::greet(packets, arrival.id, &cluster.version, cluster.plugin, &nonce);
    packets.flush().await?;
    let answer = packets.read().await?;
    let Some(login) = handshake::parse_login(&answer) else {
        early_error(packets, &MySqlError::new(1043, "Bad handshake"));
        packets.flush().await?;
        return Ok(Ending::Fin);
    };
    let flags = CapabilityFlags::from_bits_truncate(login.capabilities) & handshake::capabilities();
    let writer = Writer { deprecate_eof: flags.contains(CapabilityFlags::CLIENT_DEPRECATE_EOF) };
    if let Err(error) = log_in(&cluster, host, packets, &login, &mut nonce).await? {
        count(&host.counts.rejected_logins);
        writer.error(packets, &error);
        packets.flush().await?;
        return Ok(Ending::Fin);
    }
    let context = Context {
        cluster: Arc::clone(&cluster),
        host: arrival.host,
        id: arrival.id,
        privileged: false,
        interrupt: arrival.interrupt,
        vars: Mutex::new(Vars::new(login.user.clone(), None)),
        _alive: arrival.alive,
    };
    let session = match Session::open(context).await {
        Ok(session) => session,
        Err(error) => {
            writer.error(packets, &error);
            packets.flush().await?;
            return Ok(Ending::Fin);
        }
    };
    let mut connection = Connection {
        host,
        packets,
        writer,
        session,
        statements: HashMap::new(),
        next_statement: 1,
        capabilities: login.capabilities,
        nonce,
        end,
    };
    if let Some(database) = &login.database {
        // Checked at login.
        let _ = connection.session.change_database(database);
    }
    count(&host.counts.logins);
    connection.ok();
    connection.send().await?;
    connection.commands().await
}

/// Checks user, password and database.
pub(super) async fn log_in(
    cluster: &Shared,
    host: &HostState,
    packets: &mut PacketStream,
    login: &Login,
    nonce: &mut [u8; 20],
) -> io::Result<Result<(), MySqlError>> {
    let known = handshake::verify(packets, login, cluster.plugin, nonce, &cluster.password).await?;
    let (rejects, no_database) = {
        let switches = host.switches.borrow();
        (switches.reject_logins, switches.unknown_database)
    };
    if !known || login.user != cluster.user || rejects {
        return Ok(Err(MySqlError::access_denied(&login.user, !login.proof.is_empty())));
    }
    handshake::confirm(packets, cluster.plugin, &cluster.password);
    if let Some(database) = &login.database
        && (no_database || !cluster.has_database(database))
    {
        return Ok(Err(MySqlError::unknown_database(database)));
    }
    Ok(Ok(()))
}
