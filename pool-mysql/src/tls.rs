//! Encryption.

use mysql_async::SslOpts;
use pool_core::config::ConfigError;

use crate::options::MySqlOptions;
use crate::units;

/// Whether connections are encrypted and what is checked (Connector/J's `sslMode`).
///
/// `PREFERRED` is not offered: a mode that falls back to plaintext protects against nobody who can change
/// what is on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "SCREAMING_SNAKE_CASE"))]
pub enum TlsMode {
    /// Plaintext. The default.
    #[default]
    Disabled,
    /// Encrypted; any certificate is accepted, so nobody knows who is at the other end.
    Required,
    /// Encrypted; the certificate must come from a trusted authority.
    VerifyCa,
    /// Encrypted; the certificate must come from a trusted authority and bear the host's name.
    VerifyIdentity,
}

impl TlsMode {
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("PREFERRED") {
            return Err("PREFERRED is not offered: choose REQUIRED or DISABLED".to_owned());
        }
        let words = [
            ("DISABLED", Self::Disabled),
            ("REQUIRED", Self::Required),
            ("VERIFY_CA", Self::VerifyCa),
            ("VERIFY_IDENTITY", Self::VerifyIdentity),
        ];
        units::word(text, &words)
    }
}

/// The driver's TLS options; `None` is plaintext.
pub(crate) fn ssl_opts(options: &MySqlOptions) -> Result<Option<SslOpts>, ConfigError> {
    let mode = options.ssl_mode.unwrap_or_default();
    if mode == TlsMode::Disabled {
        return Ok(None);
    }
    if !cfg!(any(feature = "rustls", feature = "native-tls")) {
        return Err(ConfigError::new("sslMode", "needs the feature `rustls` or `native-tls`"));
    }
    let mut ssl = SslOpts::default()
        .with_danger_accept_invalid_certs(mode == TlsMode::Required)
        .with_danger_skip_domain_validation(mode != TlsMode::VerifyIdentity)
        .with_danger_tls_hostname_override(options.ssl_host_name.clone());
    if let Some(file) = &options.ssl_ca {
        let file = std::path::PathBuf::from(file);
        ssl = ssl.with_root_certs(vec![file.into()]).with_disable_built_in_roots(true);
    }
    identity(options, ssl).map(Some)
}

#[cfg(feature = "rustls")]
fn identity(options: &MySqlOptions, ssl: SslOpts) -> Result<SslOpts, ConfigError> {
    let file = |name: &String| std::path::PathBuf::from(name).into();
    Ok(match (&options.ssl_cert, &options.ssl_key) {
        (Some(cert), Some(key)) => {
            let identity = mysql_async::ClientIdentity::new(file(cert), file(key));
            ssl.with_client_identity(Some(identity))
        }
        _ => ssl,
    })
}

#[cfg(not(feature = "rustls"))]
fn identity(options: &MySqlOptions, ssl: SslOpts) -> Result<SslOpts, ConfigError> {
    // The platform's library takes PKCS #12 archives, not PEM files.
    match &options.ssl_cert {
        Some(_) => Err(ConfigError::new("sslCert", "needs the feature `rustls`")),
        None => Ok(ssl),
    }
}
