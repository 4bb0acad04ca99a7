//! What the host and the warm parent say to each other: one packet per message over a SOCK_SEQPACKET pair.
//!
//! Both ends are the same program, and neither ever carries a byte that came from a child. Decoding is total all the
//! same: a wrong program at the other end is an error, not a crash.

use crate::{Layer, Missing, Report};
use std::time::Duration;

/// The most bytes that a packet has; longer ones are cut by the kernel and then fail to decode.
pub(super) const MAX_PACKET: usize = 8192;

/// How many bytes of each reason a report carries.
const MAX_REASON: usize = 256;

const MAGIC: &[u8; 8] = b"tw-warm1";

/// How long a worker waits for its host's first word. A host speaks at once.
pub(super) const SETUP_PATIENCE: Duration = Duration::from_secs(10);

/// The first packet, from the host: how to lock down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Setup {
    pub(super) host_pid: i32,
    /// One bit for each layer to apply.
    pub(super) layers: u16,
    pub(super) keep_stderr: bool,
    pub(super) max_memory_bytes: u64,
    pub(super) cpu_seconds: u64,
}

impl Setup {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend(self.host_pid.to_le_bytes());
        out.extend(self.layers.to_le_bytes());
        out.push(u8::from(self.keep_stderr));
        out.extend(self.max_memory_bytes.to_le_bytes());
        out.extend(self.cpu_seconds.to_le_bytes());
        out
    }

    pub(super) fn decode(packet: &[u8]) -> Option<Self> {
        let mut reader = Reader(packet);
        if reader.array::<8>()? != *MAGIC {
            return None;
        }
        let setup = Self {
            host_pid: i32::from_le_bytes(reader.array()?),
            layers: u16::from_le_bytes(reader.array()?),
            keep_stderr: reader.byte()? != 0,
            max_memory_bytes: u64::from_le_bytes(reader.array()?),
            cpu_seconds: u64::from_le_bytes(reader.array()?),
        };
        reader.is_empty().then_some(setup)
    }
}

/// A request for one child, from the host.
pub(super) const FORK: &[u8] = b"F";

/// A packet from the warm parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// Ready to fork; comes once, first.
    Ready(Report),
    /// The warm parent cannot serve.
    Failed(String),
    /// A new child. Its socket rides along.
    Forked(i32),
    /// The kernel refused a fork with this error number.
    NotForked(i32),
}

impl Reply {
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Reply::Ready(report) => {
                let mut out = vec![b'R'];
                out.extend(
                    report
                        .layers
                        .iter()
                        .fold(0, |bits, layer| bits | layer.bit())
                        .to_le_bytes(),
                );
                out.extend(report.landlock_abi.unwrap_or(0).to_le_bytes());
                out.extend(report.stack_bytes.to_le_bytes());
                for missing in &report.missing {
                    let reason = cut(&missing.reason);
                    out.push(missing.layer as u8);
                    out.extend((reason.len() as u16).to_le_bytes());
                    out.extend(reason.as_bytes());
                }
                out
            }
            Reply::Failed(reason) => [b"X", cut(reason).as_bytes()].concat(),
            Reply::Forked(pid) => [&b"P"[..], &pid.to_le_bytes()].concat(),
            Reply::NotForked(errno) => [&b"E"[..], &errno.to_le_bytes()].concat(),
        }
    }

    pub(super) fn decode(packet: &[u8]) -> Option<Self> {
        let mut reader = Reader(packet);
        let reply = match reader.byte()? {
            b'R' => {
                let bits = u16::from_le_bytes(reader.array()?);
                let landlock_abi = Some(u32::from_le_bytes(reader.array()?)).filter(|abi| *abi > 0);
                let stack_bytes = u64::from_le_bytes(reader.array()?);
                let mut missing = Vec::new();
                while !reader.is_empty() {
                    let layer = *Layer::ALL.get(usize::from(reader.byte()?))?;
                    let length = u16::from_le_bytes(reader.array()?);
                    let reason = String::from_utf8(reader.take(usize::from(length))?.to_vec()).ok()?;
                    missing.push(Missing { layer, reason });
                }
                let layers = Layer::ALL
                    .into_iter()
                    .filter(|layer| bits & layer.bit() != 0)
                    .collect();
                Reply::Ready(Report {
                    layers,
                    missing,
                    landlock_abi,
                    stack_bytes,
                })
            }
            b'X' => Reply::Failed(String::from_utf8(reader.take(packet.len() - 1)?.to_vec()).ok()?),
            b'P' => Reply::Forked(i32::from_le_bytes(reader.array()?)).valid_pid()?,
            b'E' => Reply::NotForked(i32::from_le_bytes(reader.array()?)),
            _ => return None,
        };
        reader.is_empty().then_some(reply)
    }

    /// Refuses pids that mean something else to `kill` and `wait`: groups, everybody, nobody.
    fn valid_pid(self) -> Option<Self> {
        match self {
            Reply::Forked(..=1) => None,
            other => Some(other),
        }
    }
}

fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_REASON)).unwrap_or(text)
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_arrives() {
        let setup = Setup {
            host_pid: 7,
            layers: 0x1ff,
            keep_stderr: true,
            max_memory_bytes: 1 << 33,
            cpu_seconds: 60,
        };
        assert_eq!(Setup::decode(&setup.encode()), Some(setup));
        let report = Report {
            layers: vec![Layer::Environment, Layer::Seccomp],
            missing: Layer::ALL[1..8]
                .iter()
                .map(|layer| Missing {
                    layer: *layer,
                    reason: format!("no {layer} here"),
                })
                .collect(),
            landlock_abi: None,
            stack_bytes: 1 << 26,
        };
        for reply in [
            Reply::Ready(report),
            Reply::Failed(String::from("why")),
            Reply::Forked(4711),
            Reply::NotForked(11),
        ] {
            assert_eq!(Reply::decode(&reply.encode()), Some(reply));
        }
    }

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let Some(Reply::Failed(reason)) = Reply::decode(&Reply::Failed("é".repeat(300)).encode()) else {
            panic!("a long reason does not decode");
        };
        assert_eq!(reason, "é".repeat(128));
    }

    #[test]
    fn anything_else_is_refused() {
        let pid = |pid: i32| [&b"P"[..], &pid.to_le_bytes()].concat();
        let whole = Reply::Ready(Report {
            layers: vec![],
            missing: vec![],
            landlock_abi: None,
            stack_bytes: 0,
        })
        .encode();
        let packets: Vec<Vec<u8>> = vec![
            vec![],
            b"?".to_vec(),
            pid(0),
            pid(1),
            pid(-1),
            b"P12".to_vec(),
            b"P12345".to_vec(),
            b"X\xff".to_vec(),
            whole[..whole.len() - 1].to_vec(),
            [&whole[..], &[9, 0, 0]].concat(),
            [&whole[..], &[0, 9, 0]].concat(),
        ];
        for packet in packets {
            assert_eq!(Reply::decode(&packet), None, "{packet:?}");
            assert_eq!(Setup::decode(&packet), None, "{packet:?}");
        }
    }
}
