//! Frames between a host and a worker.
