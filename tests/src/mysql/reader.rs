//! Reads MySQL's primitive types from a message, without ever panicking on a short one.

/// Takes from the front; `None` when too little is left.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self(message)
    }

    pub(super) fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        Some(self.bytes(1)?[0])
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.bytes(2)?.try_into().ok()?))
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.bytes(4)?.try_into().ok()?))
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.bytes(8)?.try_into().ok()?))
    }

    /// Up to a zero byte, which is taken and not returned.
    pub(super) fn null_terminated(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|&byte| byte == 0)?;
        let text = self.bytes(end)?;
        self.bytes(1)?;
        Some(text)
    }

    /// An integer that says its own length.
    pub(super) fn length(&mut self) -> Option<u64> {
        match self.u8()? {
            0xfc => self.u16().map(u64::from),
            0xfd => {
                let bytes = self.bytes(3)?;
                Some(u64::from(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0])))
            }
            0xfe => self.u64(),
            // NULL, or the start of an error message.
            0xfb | 0xff => None,
            small => Some(u64::from(small)),
        }
    }

    /// A string that begins with its length.
    pub(super) fn counted(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.length()?).ok()?;
        self.bytes(length)
    }
}
