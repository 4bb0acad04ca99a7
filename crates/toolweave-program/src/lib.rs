//! Model text in, checked and type-stripped JavaScript out.
