//! The words that options are made of.

/// How much of the conversation is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Encrypt {
    /// Everything; a server without TLS is refused. `Encrypt=Mandatory`, `true`, `yes`.
    Mandatory,
    /// The login only, unless the server asks for more. `Encrypt=Optional`, `false`, `no`. In a build
    /// without TLS: nothing.
    Optional,
    /// **Nothing, not even the password.** `Encrypt=DANGER_PLAINTEXT`.
    Plaintext,
    /// TLS before the first byte of TDS (TDS 8.0). `Encrypt=Strict`.
    Strict,
}

/// Which logins ask for a readable secondary (`ApplicationIntent=ReadOnly`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadIntent {
    /// Every login. `ApplicationIntent=ReadOnly` in a connection string.
    Always,
    /// Logins for read leases on hosts that are not the source.
    ForReads,
    /// None. `ApplicationIntent=ReadWrite`.
    #[default]
    Never,
}

/// How far a used connection is cleaned before somebody else gets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResetMode {
    /// `sys.sp_reset_connection` after every use: settings, temporary tables, transaction, language,
    /// database. One round trip a use. A server that refuses the procedure is cleaned by T-SQL instead.
    Full,
    /// Only what is dirty: an open transaction is rolled back, a changed isolation level set back. No
    /// round trip when neither happened. Other session settings stay.
    #[default]
    Rollback,
}

/// Where the name of the failover partner comes from (mirroring reference, section 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PartnerSource {
    /// The configured address, for ever; a name that the server sends is only reported.
    #[default]
    Configured,
    /// The configured address while there is one; a learned name only when none was configured.
    ConfiguredThenServer,
    /// The name that the principal reports replaces the configured one; a principal without a mirror
    /// clears it.
    Server,
}

/// What a role probe asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RoleProbe {
    /// `mirroring_role` of `sys.database_mirroring`: principal or mirror.
    Mirroring,
    /// `sys.fn_hadr_is_primary_replica`: availability groups.
    PrimaryReplica,
    /// `DATABASEPROPERTYEX(…, 'Updateability')`: whether the database takes writes, whatever the reason.
    Updateability,
}
