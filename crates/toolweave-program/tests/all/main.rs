//! What programs become, and what is said about them.

mod corpus;
