//! What a process gives up before hostile code runs: Landlock, seccomp, rlimits, kill, accounting.
