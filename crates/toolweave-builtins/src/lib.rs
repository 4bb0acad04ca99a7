//! File and search tools, rooted at one directory.
