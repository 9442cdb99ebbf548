//! The driver: what the pool calls.

use std::sync::Arc;
use std::time::Duration;

use pool_core::access::Access;
use pool_core::driver::{ConnectRequest, Driver, Lag, Liveness, Probe, Tidy};
use pool_core::host::{Host, Role};
use pool_core::verdict::Verdict;
use tokio::time::{Instant, timeout, timeout_at};

use crate::address::Address;
use crate::classify::{self, Phase};
use crate::conn::Conn;
use crate::dial::Dial;
use crate::error::{Error, Stage};
use crate::login::{As, LoggedIn, Login};
use crate::options::{
    Encrypt, LEARNED_PARTNER, MsSqlOptions, PartnerSource, ReadIntent, ResetMode, RoleProbe,
};
use crate::pair::{Pair, PairStatus, Side};
use crate::partner::{Decision, PartnerRules};
use crate::role;
use crate::tidy::Tidier;
use crate::track::Track;

/// A sign of life or a role may take this long.
const ASK_LIMIT: Duration = Duration::from_secs(10);

/// What a partner query may take of a login whose deadline is far away. It must not cost the login.
const DISCOVERY_LIMIT: Duration = Duration::from_secs(1);

/// The driver for SQL Server. Made by [`MsSqlOptions::driver`]; cheap to clone.
#[derive(Clone, Debug)]
pub struct MsSql(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    options: MsSqlOptions,
    login: Login,
    tidier: Tidier,
    pair: Option<Arc<Pair>>,
    rules: Option<PartnerRules>,
}

impl MsSql {
    /// `options` were validated.
    pub(crate) fn new(options: MsSqlOptions) -> Self {
        let dial = Dial {
            parallel: options.multi_subnet_failover,
            user_timeout: options.tcp_user_timeout,
        };
        Self(Arc::new(Inner {
            login: Login { config: options.config(), dial },
            tidier: Tidier::new(options.database.clone()),
            pair: Pair::shared(&options),
            rules: PartnerRules::of(&options),
            options,
        }))
    }

    /// The options it was made from.
    #[must_use]
    pub fn options(&self) -> &MsSqlOptions {
        &self.0.options
    }

    /// What is known about the mirrored pair, in this and every other pool of the same configuration.
    /// `None` if there is no partner.
    #[must_use]
    pub fn pair(&self) -> Option<PairStatus> {
        self.0.pair.as_ref().map(|pair| pair.status())
    }

    pub(crate) fn shared_pair(&self) -> Option<Arc<Pair>> {
        self.0.pair.clone()
    }

    /// Which partner a host of the pool is.
    pub(crate) fn side(&self, host: &Host) -> Option<Side> {
        self.0.pair.as_ref()?;
        let server = self.0.options.server.as_ref()?;
        let dialled = Address::from_host_parts(host.address(), host.port());
        Some(if dialled.same_server(server) { Side::Initial } else { Side::Partner })
    }

    /// What to dial for a host of the pool.
    fn target(&self, host: &Host, side: Option<Side>) -> Result<Address, Error> {
        if let (Some(Side::Partner), Some(pair)) = (side, &self.0.pair) {
            return pair.partner().ok_or(Error::NoPartner);
        }
        if host.address() == LEARNED_PARTNER {
            return Err(Error::NoPartner);
        }
        Ok(Address::from_host_parts(host.address(), host.port()))
    }

    fn as_what(&self, request: &ConnectRequest<'_>) -> As {
        let options = &self.0.options;
        let secondary = request.host.role() != Role::Source;
        match (options.read_intent, request.access) {
            (ReadIntent::Always, _) => As { read_only: true, follows: true },
            // A replica that is dialled itself must not turn out to be another one.
            (ReadIntent::ForReads, Access::Read | Access::Host(_)) if secondary => {
                As { read_only: true, follows: options.replicas.is_empty() }
            }
            _ => As { read_only: false, follows: true },
        }
    }

    async fn open(&self, request: &ConnectRequest<'_>) -> Result<Conn, Error> {
        let side = self.side(request.host);
        let target = self.target(request.host, side)?;
        let mut as_what = self.as_what(request);
        let found = match self.0.login.run(&target, as_what, request.deadline).await {
            // Only a primary sends read intent away: the replica was promoted, and is to be seen so.
            Err(Error::Login { error: tiberius::error::Error::Routing { .. }, .. }) => {
                as_what = As { read_only: false, follows: true };
                self.0.login.run(&target, as_what, request.deadline).await
            }
            other => other,
        }?;
        let mut conn = self.wrap(found, request, side, as_what.read_only);
        if let Some(side) = side
            && !self.accept(&mut conn, side, &target, request.deadline).await?
        {
            // The question about the partner cost the connection, but the login was good.
            let found = self.0.login.run(&target, as_what, request.deadline).await?;
            conn = self.wrap(found, request, Some(side), as_what.read_only);
        }
        if request.access == Access::Write
            && let (Some(side), Some(pair)) = (side, &self.0.pair)
            && pair.succeeded(side)
        {
            tracing::info!(target: "pool_mssql", server = %target, ?side, "the active partner changed");
        }
        Ok(conn)
    }

    fn wrap(
        &self,
        found: LoggedIn,
        request: &ConnectRequest<'_>,
        side: Option<Side>,
        read_only: bool,
    ) -> Conn {
        let options = &self.0.options;
        let LoggedIn { client, socket, server, hops } = found;
        let track =
            Track::new(request.reporter.clone(), options.classify.clone(), options.command_timeout);
        Conn {
            client,
            socket,
            track,
            server,
            hops,
            encrypted: options.encryption() != Encrypt::Plaintext,
            always_reset: options.reset_mode == ResetMode::Full,
            single_use: !options.pooling,
            read_only,
            side: side.filter(|_| request.access == Access::Write),
        }
    }

    /// Learns the partner's name on the initial partner, checks the mirroring on the other if that is
    /// wanted. False if the question cost the connection.
    async fn accept(
        &self,
        conn: &mut Conn,
        side: Side,
        target: &Address,
        deadline: Instant,
    ) -> Result<bool, Error> {
        let options = &self.0.options;
        let wanted = match side {
            Side::Initial => options.partner_source != PartnerSource::Configured,
            Side::Partner => options.partner_must_be_mirrored,
        };
        if !wanted {
            return Ok(true);
        }
        let now = Instant::now();
        let left = deadline.saturating_duration_since(now);
        let limit = now + DISCOVERY_LIMIT.min(left / 2);
        let (client, _) = conn.parts();
        match (timeout_at(limit, role::mirroring(client)).await, side) {
            (Ok(Ok(found)), Side::Initial) => {
                self.learn(found.partner.as_deref());
                Ok(true)
            }
            (Ok(Ok(found)), Side::Partner) if found.role.is_some() => Ok(true),
            (Ok(Ok(_)), Side::Partner) => Err(Error::NotMirrored { target: target.to_string() }),
            // Not allowed to ask, say: no reason to refuse a good login. A fatal one ended it.
            (Ok(Err(error)), _) if classify::answer_complete(&error) => {
                tracing::debug!(target: "pool_mssql", server = %target, %error, "partner query failed");
                Ok(classify::after_login(&error).keeps_connection())
            }
            (Ok(Err(_)) | Err(_), _) => Ok(false),
        }
    }

    fn learn(&self, name: Option<&str>) {
        let (Some(pair), Some(rules)) = (&self.0.pair, &self.0.rules) else { return };
        match rules.decide(name) {
            Decision::Ignore => {}
            Decision::Keep => {
                tracing::debug!(target: "pool_mssql", name, "partner name reported, not used");
            }
            Decision::Refuse(reason) => {
                tracing::warn!(target: "pool_mssql", name, reason, "partner name refused");
            }
            Decision::Clear => {
                if pair.set_partner(None) {
                    tracing::info!(target: "pool_mssql", "the principal has no partner any more");
                }
            }
            Decision::Use(address) => {
                if pair.set_partner(Some(address.clone())) {
                    tracing::info!(target: "pool_mssql", name, partner = %address, "partner learned");
                }
            }
        }
    }

    /// Whether a connection for writes belongs to the partner that is not active any more.
    fn left_behind(&self, conn: &Conn) -> bool {
        match (&self.0.pair, conn.side()) {
            (Some(pair), Some(side)) => pair.active() != side,
            _ => false,
        }
    }

    fn alone(&self) -> bool {
        !self.0.options.is_pair() && self.0.options.replicas.is_empty()
    }

    fn judge(&self, error: &tiberius::error::Error, phase: Phase) -> Option<Verdict> {
        self.0.options.classify.as_ref().and_then(|judge| judge.judge(error, phase))
    }

    fn login_verdict(&self, error: &tiberius::error::Error, hops: u8) -> Verdict {
        let verdict = self
            .judge(error, Phase::Login)
            .unwrap_or_else(|| classify::at_login(error, self.alone()));
        match verdict {
            // The routed server is out of reach, not the listener that named it.
            Verdict::HostDown if hops > 0 => Verdict::Inactive,
            other => other,
        }
    }
}

impl Driver for MsSql {
    type Conn = Conn;
    type Error = Error;

    async fn connect(&self, request: ConnectRequest<'_>) -> Result<Conn, Error> {
        self.open(&request).await
    }

    fn peek(&self, conn: &mut Conn) -> Liveness {
        if self.left_behind(conn) {
            return Liveness::Dead;
        }
        conn.peek()
    }

    async fn tidy(&self, conn: &mut Conn, how: Tidy) -> Result<(), Error> {
        let full = how == Tidy::Full || self.0.options.reset_mode == ResetMode::Full;
        self.0.tidier.tidy(conn, full).await
    }

    async fn probe(&self, conn: &mut Conn) -> Result<Probe, Error> {
        let kind = self.0.options.probe_kind();
        let learns = kind == RoleProbe::Mirroring
            && self.0.options.partner_source != PartnerSource::Configured
            && conn.side() == Some(Side::Initial);
        let on_read_route = self.0.options.read_intent == ReadIntent::ForReads
            && self.0.options.replicas.is_empty()
            && conn.has_read_intent();
        let server = conn.server().to_string();
        let (client, track) = conn.parts();
        track.pending = true;
        let ask = async {
            if !learns {
                return role::role(client, kind).await;
            }
            let found = role::mirroring(client).await?;
            self.learn(found.partner.as_deref());
            Ok(found.role())
        };
        let result = timeout(ASK_LIMIT, ask).await;
        let role = match answered(track, server, result)? {
            // The listener had no secondary to send us to: that does not make its read route a source.
            Role::Source if on_read_route => Role::Unknown,
            role => role,
        };
        Ok(Probe::new(role, Lag::NotAsked))
    }

    async fn ping(&self, conn: &mut Conn) -> Result<(), Error> {
        let server = conn.server().to_string();
        let (client, track) = conn.parts();
        track.pending = true;
        let result = timeout(ASK_LIMIT, role::echoes(client, 1)).await;
        if answered(track, server, result)? {
            return Ok(());
        }
        track.dead = Some("the connection gave a wrong answer");
        Err(Error::Tidy("the connection gave a wrong answer"))
    }

    fn verdict(&self, error: &Error) -> Verdict {
        match error {
            Error::Login { error, hops, .. } => self.login_verdict(error, *hops),
            Error::Session(error) => {
                self.judge(error, Phase::Session).unwrap_or_else(|| classify::after_login(error))
            }
            Error::Tidy(_) => Verdict::ConnectionEnded,
            Error::TooManyAddresses { .. } => Verdict::Permanent,
            Error::NotMirrored { .. }
            | Error::TooManyRedirects { .. }
            | Error::BadRedirect { .. } => Verdict::Inactive,
            Error::TimedOut { .. }
            | Error::Browser { .. }
            | Error::Dial { .. }
            | Error::NoPartner
            | Error::Resolve { .. } => Verdict::HostDown,
        }
    }

    async fn close(&self, conn: Conn) {
        // Errors do not matter any more; dropping the client closes the socket in any case.
        let _ = conn.into_client().close().await;
    }
}

/// Ends a question of the driver's own: clears the mark on a whole answer.
fn answered<T>(
    track: &mut Track,
    target: String,
    result: Result<tiberius::Result<T>, tokio::time::error::Elapsed>,
) -> Result<T, Error> {
    let Ok(result) = result else {
        track.dead = Some("no answer in time");
        return Err(Error::TimedOut { target, during: Stage::Answer, after: ASK_LIMIT });
    };
    match result {
        Ok(answer) => {
            track.done();
            Ok(answer)
        }
        Err(error) => {
            if classify::answer_complete(&error) {
                track.done();
            }
            if !classify::after_login(&error).keeps_connection() {
                track.dead = Some("a question of the pool failed");
            }
            Err(error.into())
        }
    }
}
