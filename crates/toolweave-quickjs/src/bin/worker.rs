//! A worker program of this crate alone, for its tests and benchmarks and for embedders' tests.

fn main() {
    toolweave_quickjs::worker_main()
}
