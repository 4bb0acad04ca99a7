//! One contract suite for both placements, and what each placement promises beyond it.

mod globals;
mod hostile;
mod intl;
mod json;
mod language;
mod limits;
mod seam;
mod support;
