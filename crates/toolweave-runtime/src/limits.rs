//! Every limit a run is held to, validated when it is loaded. None is hidden, none is unbounded.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The limits of a runtime. All of them are in `docs/limitations.md`, each with a test that it bites.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Limits {
    /// CPU time a program may use, in milliseconds. Waiting costs nothing.
    pub compute_ms: u64,
    /// Time from start to end in milliseconds, waiting included.
    pub max_wall_ms: u64,
    /// Heap of the program, in MiB.
    #[serde(alias = "maxOldGenerationSizeMb")]
    pub max_memory_mb: u64,
    /// Logs and result (or error message) together, in bytes of JSON.
    pub max_output_bytes: u64,
    /// Binding calls in one run.
    pub max_sub_calls: u32,
    /// Stack of the program, in KiB.
    pub max_stack_kb: u64,
    /// One argument list or one result of a call, in bytes of JSON.
    pub max_frame_bytes: u64,
    /// Nesting of a value that crosses between program and host.
    pub max_json_depth: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            compute_ms: 60_000,
            max_wall_ms: 600_000,
            max_memory_mb: 512,
            max_output_bytes: 64 * MIB,
            max_sub_calls: 10_000,
            max_stack_kb: 4 * 1024,
            max_frame_bytes: 64 * MIB,
            max_json_depth: 10_000,
        }
    }
}

const MIB: u64 = 1024 * 1024;
/// The longest time a timer of this platform takes without surprises (contract D15).
const MAX_MS: u64 = i32::MAX as u64;

/// A limit that no run could be held to. Correct the field; nothing was started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` is {value}: it must be between {least} and {most}")]
pub struct LimitError {
    pub field: &'static str,
    pub value: u64,
    pub least: u64,
    pub most: u64,
}

impl Limits {
    /// Checks that each limit is in its range.
    ///
    /// # Errors
    /// The first field out of range, with the range.
    pub fn check(&self) -> Result<(), LimitError> {
        let ranges = [
            ("computeMs", self.compute_ms, 1, MAX_MS),
            ("maxWallMs", self.max_wall_ms, 1, MAX_MS),
            ("maxMemoryMb", self.max_memory_mb, 8, 64 * 1024),
            ("maxOutputBytes", self.max_output_bytes, 4, 1024 * MIB),
            ("maxSubCalls", u64::from(self.max_sub_calls), 1, 1_000_000),
            ("maxStackKb", self.max_stack_kb, 256, 32 * 1024),
            ("maxFrameBytes", self.max_frame_bytes, 1024, 1024 * MIB),
            ("maxJsonDepth", u64::from(self.max_json_depth), 16, 20_000),
        ];
        match ranges
            .into_iter()
            .find(|&(_, value, least, most)| value < least || value > most)
        {
            None => Ok(()),
            Some((field, value, least, most)) => Err(LimitError {
                field,
                value,
                least,
                most,
            }),
        }
    }

    pub fn compute(&self) -> Duration {
        Duration::from_millis(self.compute_ms)
    }

    pub fn max_wall(&self) -> Duration {
        Duration::from_millis(self.max_wall_ms)
    }

    pub fn max_memory_bytes(&self) -> u64 {
        self.max_memory_mb * MIB
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_in_range() {
        assert_eq!(Limits::default().check(), Ok(()));
    }

    #[test]
    fn a_limit_out_of_range_is_named_with_its_range() {
        let limits = Limits {
            max_output_bytes: 3,
            ..Limits::default()
        };
        let error = limits.check().expect_err("3 bytes hold no output");
        assert_eq!(
            error.to_string(),
            "`maxOutputBytes` is 3: it must be between 4 and 1073741824"
        );
        let limits = Limits {
            compute_ms: u64::MAX,
            ..Limits::default()
        };
        assert_eq!(
            limits.check().expect_err("longer than a timer").field,
            "computeMs"
        );
    }
}
