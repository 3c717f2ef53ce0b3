//! The command line: what the user said.
//!
//! Decision: four words need no argument library; its size would be every child's floor.

use std::ffi::OsString;

/// How the program is used.
pub const USAGE: &str = "\
usage: bw-launcher serve
       bw-launcher --help | --version

serve    read requests from stdin, run trials, write records to stdout
         (docs/launcher-protocol.md)
";

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// Print the usage.
    Help,
    /// Print the version.
    Version,
    /// Serve requests.
    Serve,
}

/// Understands the words after the program's name. Errors: what is wrong with them.
pub fn parse(words: impl Iterator<Item = OsString>) -> Result<Action, String> {
    let words: Vec<OsString> = words.collect();
    let first = words.first().ok_or("no command is given")?;
    match (first.to_str(), words.len()) {
        (Some("--help" | "-h" | "help"), _) => Ok(Action::Help),
        (Some("--version" | "-V"), _) => Ok(Action::Version),
        (Some("serve"), 1) => Ok(Action::Serve),
        (Some("serve"), _) => Err("serve takes no arguments".to_owned()),
        _ => Err(format!("there is no command {}", first.display())),
    }
}
