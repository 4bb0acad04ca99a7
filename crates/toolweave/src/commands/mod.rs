//! One module per command.

pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod exec;
pub(crate) mod sdk;
pub(crate) mod serve;
pub(crate) mod tools;
