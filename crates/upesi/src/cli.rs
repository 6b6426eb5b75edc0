//! The command line: commands and their help, errors, output, tables, shell completions, and
//! requests to a running switch.

pub(crate) mod admin_address;
pub(crate) mod admin_client;
pub(crate) mod admin_get;
pub(crate) mod commands;
pub(crate) mod error;
pub(crate) mod help;
pub(crate) mod password;
pub(crate) mod printable;
pub(crate) mod session;
pub(crate) mod shell_files;
pub(crate) mod stdout;
pub(crate) mod table;
pub(crate) mod table_form;
pub(crate) mod terminal;
pub(crate) mod units;
