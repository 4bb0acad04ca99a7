//! The output ledger: one budget in bytes for all that a run hands back (contract D21–D25).
//!
//! Counted are the logs as a JSON array and the value as JSON, or the error message as a JSON string. At the cap the exact
//! value passes; one byte over, the run fails and keeps the prefix of the logs that fits beside the fixed message.

use crate::{Failure, FailureKind, Json};

/// Collects the logs of one run and decides what still fits.
#[derive(Debug)]
pub struct Ledger {
    cap: u64,
    logs: Vec<String>,
    /// Bytes of `logs` as a JSON array.
    bytes: u64,
}

/// The next piece does not fit. The logs so far are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overflow;

impl Ledger {
    pub fn new(cap: u64) -> Self {
        Self {
            cap,
            logs: Vec::new(),
            bytes: 2,
        }
    }

    /// Adds a log entry.
    ///
    /// # Errors
    /// [`Overflow`] when it does not fit whole; the prefix that could still matter is kept for [`Ledger::overflow`].
    pub fn log(&mut self, entry: &str) -> Result<(), Overflow> {
        let comma = u64::from(!self.logs.is_empty());
        let bytes = self.bytes + comma + json_string_bytes(entry);
        if bytes > self.cap {
            let room = usize::try_from(self.cap).unwrap_or(usize::MAX);
            self.logs.push(prefix(entry, room).to_owned());
            return Err(Overflow);
        }
        self.bytes = bytes;
        self.logs.push(entry.to_owned());
        Ok(())
    }

    /// Returns whether a value fits beside the logs.
    pub fn holds(&self, value: &Json) -> bool {
        self.bytes + value.as_str().len() as u64 <= self.cap
    }

    /// Settles with a failure; one whose message does not fit becomes the overflow failure.
    pub fn fail(self, failure: Failure) -> (Vec<String>, Failure) {
        if self.bytes + json_string_bytes(&failure.message) <= self.cap {
            return (self.logs, failure);
        }
        self.overflow()
    }

    /// Settles with the overflow failure: the message first, then as much of the logs as fits beside it.
    pub fn overflow(self) -> (Vec<String>, Failure) {
        let full = format!(
            "output limit exceeded: logs and result are more than {} bytes",
            self.cap
        );
        // An empty log array takes two bytes, the quotes of the message two more.
        let mut room = self.cap.saturating_sub(4);
        let message = cut_to(&full, room).to_owned();
        room = room.saturating_sub(json_string_bytes(&message) - 2);
        let mut logs = Vec::new();
        for entry in &self.logs {
            let comma = u64::from(!logs.is_empty());
            let Some(left) = room.checked_sub(comma + 2) else {
                break;
            };
            let kept = cut_to(entry, left);
            if kept.is_empty() && !entry.is_empty() {
                break;
            }
            room = left - (json_string_bytes(kept) - 2);
            let whole = kept.len() == entry.len();
            logs.push(kept.to_owned());
            if !whole {
                break;
            }
        }
        let failure = Failure {
            kind: FailureKind::OutputLimit,
            name: None,
            message,
            position: None,
            stack: Vec::new(),
        };
        (logs, failure)
    }

    /// Gives the logs up.
    pub fn into_logs(self) -> Vec<String> {
        self.logs
    }
}

/// Returns the length in bytes of `text` as `JSON.stringify` writes it, quotes included.
pub fn json_string_bytes(text: &str) -> u64 {
    2 + text.chars().map(escaped_bytes).sum::<u64>()
}

fn escaped_bytes(c: char) -> u64 {
    match c {
        '"' | '\\' | '\u{8}' | '\u{c}' | '\n' | '\r' | '\t' => 2,
        c if c < ' ' => 6,
        c => c.len_utf8() as u64,
    }
}

/// Returns the longest prefix of whole characters whose escaped form takes at most `room` bytes.
fn cut_to(text: &str, room: u64) -> &str {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += escaped_bytes(c);
        if used > room {
            return &text[..at];
        }
    }
    text
}

fn prefix(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes.min(text.len()))]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Json {
        Json::parse(text.to_owned(), 10).expect("JSON")
    }

    fn failure(message: &str) -> Failure {
        Failure {
            kind: FailureKind::Exception,
            name: None,
            message: message.to_owned(),
            position: None,
            stack: vec![],
        }
    }

    /// Bytes that the outcome takes in the ledger.
    fn measured(logs: &[String], failure: &Failure) -> u64 {
        let logs = serde_json::to_string(logs).expect("strings").len();
        let message = serde_json::to_string(&failure.message).expect("a string").len();
        (logs + message) as u64
    }

    #[test]
    fn the_cap_is_exact() {
        assert!(Ledger::new(7).holds(&value("\"€\"")));
        assert!(!Ledger::new(6).holds(&value("\"€\"")));
        let mut ledger = Ledger::new(11);
        ledger.log("abc").expect("fits");
        assert!(ledger.holds(&value("\"xy\"")));
        let mut ledger = Ledger::new(10);
        ledger.log("abc").expect("fits");
        assert!(!ledger.holds(&value("\"xy\"")));
    }

    #[test]
    fn an_overflow_keeps_what_fits_beside_the_message() {
        for cap in 4..200 {
            let mut ledger = Ledger::new(cap);
            let _ = ledger
                .log("first \"quoted\"\n")
                .and_then(|()| ledger.log("zweite Zeile €€€€ with a long tail that is cut"));
            let (logs, failure) = ledger.overflow();
            assert!(
                measured(&logs, &failure) <= cap,
                "cap {cap}: {logs:?} {failure:?}"
            );
            assert_eq!(failure.kind, FailureKind::OutputLimit);
        }
        let (logs, failure) = Ledger::new(500).fail(failure("short"));
        assert_eq!((logs, failure.message.as_str()), (vec![], "short"));
    }

    #[test]
    fn a_message_that_does_not_fit_becomes_the_fixed_one() {
        let (logs, failure) = Ledger::new(64).fail(failure(&"x".repeat(1_000_000)));
        assert_eq!(failure.kind, FailureKind::OutputLimit);
        assert!(
            failure.message.starts_with("output limit exceeded"),
            "{}",
            failure.message
        );
        assert!(measured(&logs, &failure) <= 64);
    }

    #[test]
    fn strings_are_counted_as_javascript_writes_them() {
        for text in [
            "",
            "a\"b\\",
            "\n\r\t\u{8}\u{c}",
            "\u{1}",
            "é€🦀",
            "\u{7f}\u{2028}",
        ] {
            assert_eq!(
                json_string_bytes(text),
                serde_json::to_string(text).expect("a string").len() as u64,
                "{text:?}"
            );
        }
    }
}
