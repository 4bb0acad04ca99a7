//! What programs become, and what is said about them.

mod bugs;
mod corpus;
mod findings;
mod forms;
mod hostile;
mod positions;
