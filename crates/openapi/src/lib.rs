//! OpenAPI documents, generated from the tables that the code uses to check messages.
//!
//! - [`Api`] describes an API as data; [`Api::document`] renders it as OpenAPI
//!   3.0.3, with every object's members sorted, so that the same code gives the same text.
//! - [`fspiop::document`] is the FSPIOP API: routes, headers and bodies come from the tables of
//!   the crate `fspiop`; words, codes and callbacks are written here, in one exhaustive match.
//!   The admin API describes itself in the crate `operations`.
//! - [`html`] makes one HTML page of documents, without scripts and without anything from
//!   elsewhere.
//! - [`generate`] makes valid and invalid messages from a document, for tests that compare the
//!   running program with its document; [`validate`] checks a response against its schema.
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

pub use api::{
    Access, Api, ApiResponse, Body, Callback, Operation, Parameter, ParameterLocation, text,
};
