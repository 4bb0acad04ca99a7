//! The real binary, as a person or a client would use it.

mod cli;
mod configuration;
mod corpus;
mod demo;
mod gateway;
mod hostile;
mod layering;
mod observed;
mod public_clients;
mod sessions;
mod support;
