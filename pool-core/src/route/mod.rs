//! SQL → what the statement needs.
