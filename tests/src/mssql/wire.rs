//! Little helpers to read and write the primitive fields of TDS.

/// Reads from the front of a slice; every read is checked.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'b> {
    rest: &'b [u8],
}

impl<'b> Cursor<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn rest(&self) -> &'b [u8] {
        self.rest
    }

    pub(crate) fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (head, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(head)
    }

    pub(crate) fn skip(&mut self, count: usize) -> Option<()> {
        self.take(count).map(|_| ())
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|b| b[0])
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.take(2).map(|b| u16::from_le_bytes([b[0], b[1]]))
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.take(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        let low = u64::from(self.u32()?);
        Some(low | u64::from(self.u32()?) << 32)
    }

    /// `units` UTF-16 code units.
    pub(crate) fn utf16(&mut self, units: usize) -> Option<String> {
        let bytes = self.take(units * 2)?;
        let units: Vec<u16> =
            bytes.chunks_exact(2).map(|c| u16::from_le_bytes([c[0], c[1]])).collect();
        Some(String::from_utf16_lossy(&units))
    }

    /// A B_VARCHAR: one length byte, then that many code units.
    pub(crate) fn b_varchar(&mut self) -> Option<String> {
        let units = usize::from(self.u8()?);
        self.utf16(units)
    }
}

/// Appends a B_VARCHAR, cut to 255 code units.
pub(crate) fn put_b_varchar(to: &mut Vec<u8>, text: &str) {
    let units: Vec<u16> = text.encode_utf16().take(255).collect();
    to.push(units.len() as u8);
    units.iter().for_each(|unit| to.extend_from_slice(&unit.to_le_bytes()));
}

/// Appends a US_VARCHAR, cut to 4000 code units so that every token stays below 64 KiB.
pub(crate) fn put_us_varchar(to: &mut Vec<u8>, text: &str) {
    let units: Vec<u16> = text.encode_utf16().take(4000).collect();
    to.extend_from_slice(&(units.len() as u16).to_le_bytes());
    units.iter().for_each(|unit| to.extend_from_slice(&unit.to_le_bytes()));
}
