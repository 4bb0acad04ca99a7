//! Append-only event log: recorder and reader.
