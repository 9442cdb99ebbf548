//! Servers that send every login on to the next.

use std::io;

use super::faults::Route;
use super::server::{MssqlServer, ServerBuilder};

/// A chain of `hops` redirecting servers with one at the end that lets clients in.
#[derive(Debug)]
pub struct RedirectChain {
    servers: Vec<MssqlServer>,
}

impl RedirectChain {
    /// Starts a chain of `hops` redirects.
    ///
    /// # Errors
    ///
    /// When the databases cannot be created or no ports can be had.
    pub async fn start(hops: usize) -> io::Result<Self> {
        Self::start_with(hops, MssqlServer::builder()).await
    }

    /// Starts a chain whose servers are made like `builder`, their names aside.
    ///
    /// # Errors
    ///
    /// When the databases cannot be created or no ports can be had.
    pub async fn start_with(hops: usize, builder: ServerBuilder) -> io::Result<Self> {
        let builder = builder.clone().data(builder.data_set()?);
        let mut servers: Vec<MssqlServer> = Vec::with_capacity(hops + 1);
        for index in 0..=hops {
            let server = builder.clone().name(format!("HOP-{index}")).launch().await?;
            if let Some(before) = servers.last() {
                let route = Route::new(server.host(), server.port());
                before.switches().set_redirect(Some(route));
            }
            servers.push(server);
        }
        Ok(Self { servers })
    }

    /// The server to connect to.
    #[must_use]
    pub fn entry(&self) -> &MssqlServer {
        &self.servers[0]
    }

    /// The server at the end.
    #[must_use]
    pub fn end(&self) -> &MssqlServer {
        &self.servers[self.servers.len() - 1]
    }

    /// All of them, in order.
    #[must_use]
    pub fn servers(&self) -> &[MssqlServer] {
        &self.servers
    }
}
