//! File and search tools that see one directory and nothing else.
//!
//! [`Root`] holds a descriptor of that directory, and every file is reached from the descriptor, never from a path
//! in the file system: `..`, absolute paths and symbolic links cannot lead out, not even when a link appears while a
//! call runs. [`tools`] gives `read`, `glob` and `grep`, and with [`Access::ReadWrite`] also `write` and `edit`.
//!
//! Left out: commands, the network, and checks that a file was read before it is written.
#![warn(clippy::disallowed_methods)]

mod root;

mod beneath;
mod replace;
mod walk;

mod edit;
mod glob;
mod grep;
mod read;
mod write;

mod call;
mod diff;

use std::sync::Arc;

use toolweave_tools::Tool;

pub use root::{Root, RootError};

/// What the tools may do below their root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// `read`, `glob` and `grep`.
    ReadOnly,
    /// Also `write` and `edit`.
    ReadWrite,
}

/// Returns the tools for a directory, in name order.
pub fn tools(root: Root, access: Access) -> Vec<Arc<dyn Tool>> {
    let mut tools: Vec<Arc<dyn Tool>> = vec![
        Arc::new(glob::Glob::new(root.clone())),
        Arc::new(grep::Grep::new(root.clone())),
        Arc::new(read::Read::new(root.clone())),
    ];
    if access == Access::ReadWrite {
        tools.insert(0, Arc::new(edit::Edit::new(root.clone())));
        tools.push(Arc::new(write::Write::new(root)));
    }
    tools
}
