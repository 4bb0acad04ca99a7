//! Names of sessions: sortable by time, safe as file names.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::limits::MAX_SESSION_ID_BYTES;

/// The name of a session. Generated ids sort by the time of their making.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionId(String);

impl SessionId {
    /// Returns a new id, from this machine's clock and its random source (a version 7 UUID).
    pub fn generate() -> Self {
        Self(uuid::Uuid::now_v7().to_string())
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for SessionId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::try_from(text.to_owned())
    }
}

impl TryFrom<String> for SessionId {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        let fits = (1..=MAX_SESSION_ID_BYTES).contains(&text.len());
        if fits
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        {
            Ok(Self(text))
        } else {
            Err(Error::BadSessionId(
                text.chars().take(MAX_SESSION_ID_BYTES).collect(),
            ))
        }
    }
}

impl From<SessionId> for String {
    fn from(id: SessionId) -> Self {
        id.0
    }
}
