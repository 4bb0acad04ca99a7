//! QuickJS-ng engine, in a thread and as the worker process.
