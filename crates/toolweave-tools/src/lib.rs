//! Registry, modes, SDK section, run_code, dispatch, search and output.
