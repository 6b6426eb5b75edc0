//! Documents of the APIs, made from what the code checks by.
//!
//! - [`Api`] and what it holds describe an API as data; [`Api::document`] renders it as OpenAPI
//!   3.0.3, with every object's members sorted, so that the same code gives the same text.
//! - [`fspiop::document`] is the FSPIOP API: routes, headers and bodies come from the tables of
//!   the crate `fspiop`; words, codes and callbacks are written here, in one exhaustive match.
//!   The admin API describes itself in the crate `operations`.
//! - [`page`] makes one HTML page of documents, without scripts and without anything from
//!   elsewhere.
//! - [`play`] reads a document and makes messages of it, good ones and bad ones, for tests that
//!   hold the running program against its document; [`conform`] tells whether an answer has the
//!   form that is described.
//!
//! Costs: a document is made once per start and takes about a millisecond. Nothing here is on the
//! way of a message. Nothing here does I/O.
#![warn(missing_docs)]

mod api;
pub mod fspiop;
pub mod generate;
pub mod html;
pub mod schema;
pub mod validate;

pub use api::{Answer, Api, Body, Call, Operation, Parameter, Place, text};
