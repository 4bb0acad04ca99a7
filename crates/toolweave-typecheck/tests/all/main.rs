//! What the compiler says about programs, and what happens when it does not say anything.

mod complaints;
mod robust;
mod search;
mod support;
