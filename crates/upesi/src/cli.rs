//! The command line: commands and their help, and what several commands share: errors, output,
//! shell completions, requests to a running switch.

pub(crate) mod admin_get;
pub(crate) mod commands;
pub(crate) mod failure;
pub(crate) mod help;
pub(crate) mod shell_files;
pub(crate) mod stdout;
pub(crate) mod units;
