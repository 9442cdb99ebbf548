//! Splits an ADO.NET connection string into keys and values.
//!
//! Knows the quoting, not the keys: `'…'`, `"…"` and `{…}` keep everything, the closing sign doubled stands
//! for itself; `==` in a key stands for one `=`; blanks around keys and values do not count.

use crate::options::OptionsError;

/// The pairs of the string in order, keys as written.
pub(crate) fn split(text: &str) -> Result<Vec<(String, String)>, OptionsError> {
    let mut pairs = Vec::new();
    let mut rest = Cursor { text, at: 0 };
    loop {
        rest.skip(|c| c == ';' || c.is_whitespace());
        if rest.peek().is_none() {
            return Ok(pairs);
        }
        let key = rest.key()?;
        rest.skip(char::is_whitespace);
        let value = match rest.peek() {
            Some('\'') => rest.quoted('\'', &key)?,
            Some('"') => rest.quoted('"', &key)?,
            Some('{') => rest.quoted('}', &key)?,
            _ => rest.plain(),
        };
        pairs.push((key, value));
    }
}

struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl Cursor<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn skip(&mut self, which: impl Fn(char) -> bool) {
        while self.peek().is_some_and(&which) {
            self.next();
        }
    }

    fn key(&mut self) -> Result<String, OptionsError> {
        let start = self.at;
        let mut key = String::new();
        loop {
            match self.next() {
                Some('=') if self.peek() == Some('=') => {
                    self.next();
                    key.push('=');
                }
                Some('=') => break,
                Some(';') | None => {
                    return Err(OptionsError::Syntax { at: start, reason: "a key without `=`" });
                }
                Some(c) => key.push(c),
            }
        }
        let key = key.trim();
        if key.is_empty() {
            return Err(OptionsError::Syntax { at: start, reason: "a value without a key" });
        }
        Ok(key.to_owned())
    }

    fn plain(&mut self) -> String {
        let start = self.at;
        self.skip(|c| c != ';');
        self.text[start..self.at].trim().to_owned()
    }

    fn quoted(&mut self, close: char, key: &str) -> Result<String, OptionsError> {
        let start = self.at;
        self.next();
        let mut value = String::new();
        loop {
            match self.next() {
                Some(c) if c == close && self.peek() == Some(close) => {
                    self.next();
                    value.push(close);
                }
                Some(c) if c == close => break,
                Some(c) => value.push(c),
                None => {
                    return Err(OptionsError::Syntax {
                        at: start,
                        reason: "a quoted value without its end",
                    });
                }
            }
        }
        self.skip(char::is_whitespace);
        match self.peek() {
            None | Some(';') => Ok(value),
            Some(_) => Err(OptionsError::value(key, "text follows the closing quote")),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn quoting_and_blanks() {
        let table: [(&str, &[(&str, &str)]); 10] = [
            ("", &[]),
            (" ; ;;", &[]),
            ("Server=a;Database=b", &[("Server", "a"), ("Database", "b")]),
            (" Data  Source = a b ; ", &[("Data  Source", "a b")]),
            ("pwd='it''s; fine' ;x=1", &[("pwd", "it's; fine"), ("x", "1")]),
            ("pwd=\"a'b\"\"c\"", &[("pwd", "a'b\"c")]),
            ("pwd={a}}b;c}", &[("pwd", "a}b;c")]),
            ("a==b=c", &[("a=b", "c")]),
            ("pwd=", &[("pwd", "")]),
            ("pwd=a=b'c", &[("pwd", "a=b'c")]),
        ];
        for (text, pairs) in table {
            let found = split(text).unwrap();
            let found: Vec<_> = found.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            assert_eq!(found, pairs, "{text}");
        }
    }

    #[test]
    fn syntax_errors_never_show_the_value() {
        for text in ["Server", "=a", "pwd='secret", "pwd={secret", "pwd='a'secret;"] {
            let error = split(text).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
