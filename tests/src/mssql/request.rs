//! The requests of an open session: batches, RPCs, transaction requests.

use super::program::Isolation;
use super::rpc::{Procedure, Rpc};
use super::wire::Cursor;

/// A request as the client sent it.
#[derive(Debug, PartialEq)]
pub(crate) struct Request {
    /// The transaction the client believes to be in; 0 for none.
    pub(crate) descriptor: u64,
    pub(crate) body: Body,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Body {
    Batch(String),
    Rpc(Rpc),
    Begin(Option<Isolation>),
    Commit,
    /// Of everything, or to the named savepoint.
    Rollback(Option<String>),
    Save(String),
}

impl Request {
    pub(crate) fn batch(message: &[u8]) -> Option<Self> {
        let (descriptor, mut text) = headers(message)?;
        let units = text.rest().len() / 2;
        Some(Self { descriptor, body: Body::Batch(text.utf16(units)?) })
    }

    pub(crate) fn rpc(message: &[u8]) -> Option<Self> {
        let (descriptor, rest) = headers(message)?;
        Some(Self { descriptor, body: Body::Rpc(Rpc::parse(rest.rest())?) })
    }

    pub(crate) fn transaction(message: &[u8]) -> Option<Self> {
        let (descriptor, mut rest) = headers(message)?;
        let body = match rest.u16()? {
            5 => Body::Begin(Isolation::from_wire(rest.u8()?)),
            7 => Body::Commit,
            8 => Body::Rollback(rest.b_varchar().filter(|name| !name.is_empty())),
            9 => Body::Save(rest.b_varchar()?),
            _ => return None,
        };
        Some(Self { descriptor, body })
    }

    /// The line of the statement log.
    pub(crate) fn log_line(&self) -> Option<String> {
        match &self.body {
            Body::Batch(text) => Some(text.clone()),
            Body::Rpc(rpc) => Some(match &rpc.procedure {
                Procedure::ExecuteSql => rpc.statement().unwrap_or_default().to_owned(),
                Procedure::ResetConnection => "EXEC sp_reset_connection".to_owned(),
                Procedure::Other(name) => format!("EXEC {name}"),
            }),
            _ => None,
        }
    }
}

/// Reads ALL_HEADERS: the transaction descriptor, and what follows.
fn headers(message: &[u8]) -> Option<(u64, Cursor<'_>)> {
    const TRANSACTION: u16 = 2;
    let total = Cursor::new(message).u32()? as usize;
    let (headers, rest) = message.split_at_checked(total)?;
    let mut cursor = Cursor::new(headers.get(4..)?);
    let mut descriptor = 0;
    while !cursor.is_empty() {
        let length = cursor.u32()? as usize;
        let mut header = Cursor::new(cursor.take(length.checked_sub(4)?)?);
        if header.u16()? == TRANSACTION {
            descriptor = header.u64()?;
        }
    }
    Some((descriptor, Cursor::new(rest)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn with_headers(descriptor: u64, body: &[u8]) -> Vec<u8> {
        let mut message = 22u32.to_le_bytes().to_vec();
        message.extend(18u32.to_le_bytes());
        message.extend(2u16.to_le_bytes());
        message.extend(descriptor.to_le_bytes());
        message.extend(1u32.to_le_bytes());
        message.extend(body);
        message
    }

    #[test]
    fn a_batch_is_its_text() {
        let message = with_headers(7, &[b'H', 0, b'i', 0]);
        let request = Request::batch(&message).unwrap();
        assert_eq!(request, Request { descriptor: 7, body: Body::Batch("Hi".into()) });
    }

    #[test]
    fn transaction_requests_are_told_apart() {
        let body = |bytes: &[u8]| Request::transaction(&with_headers(0, bytes)).map(|r| r.body);
        assert_eq!(body(&[5, 0, 4, 0]), Some(Body::Begin(Some(Isolation::Serializable))));
        assert_eq!(body(&[5, 0, 0, 0]), Some(Body::Begin(None)));
        assert_eq!(body(&[7, 0, 0, 0]), Some(Body::Commit));
        assert_eq!(body(&[8, 0, 0, 0]), Some(Body::Rollback(None)));
        assert_eq!(body(&[9, 0, 1, b's', 0]), Some(Body::Save("s".into())));
        assert_eq!(body(&[99, 0]), None);
    }

    #[test]
    fn damaged_headers_are_refused() {
        assert!(Request::batch(&[]).is_none());
        assert!(Request::batch(&[200, 0, 0, 0]).is_none());
        assert!(Request::batch(&[8, 0, 0, 0, 1, 0, 0, 0]).is_none());
    }
}
