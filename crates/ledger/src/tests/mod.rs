//! The kernel proved from outside: tables of commands with what they must bring about, an
//! independent model that predicts outcomes and positions, and properties of any history.

mod cold;
mod history;
mod model;
mod outcomes;
mod parts;
mod precedence;
mod prediction;
mod properties;
mod questions;
mod scenario;
mod scenarios;
mod snapshot;
mod telling;
mod touches;
