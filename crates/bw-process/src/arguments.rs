//! The command line of the launcher.
//!
//! Decision: no argument library for so few words; its size would add to the lowest peak resident
//! size that can be measured.

use crate::measure::Measurement;
use std::ffi::OsString;

/// The usage text.
pub const USAGE: &str = "\
usage: bw-launcher serve
       bw-launcher measure [--hooks PATH]... [--] CMD...
       bw-launcher barrier [--] [CMD...]
       bw-launcher --help | --version

serve    read requests from stdin, run trials, write records to stdout
         (docs/launcher-protocol.md)
measure  run CMD and append a [measurement] block to $APLOG (to stdout if unset);
         PATH is a hook or a directory of hooks; exit status is CMD's
barrier  wait until all processes of the trial have arrived, then become CMD;
         exit status 71: one of them ended without arriving
";

/// The command to execute.
#[derive(Debug, PartialEq, Eq)]
pub enum LauncherCommand {
    /// Print the usage.
    Help,
    /// Print the version.
    Version,
    /// Serve requests.
    Serve,
    /// Measure a command.
    Measure(Measurement),
    /// Pass the barrier, then become this command, if any.
    Barrier(Vec<OsString>),
}

/// Parses the arguments after the program's name. Errors: what is wrong with them.
pub fn parse(words: impl Iterator<Item = OsString>) -> Result<LauncherCommand, String> {
    let words: Vec<OsString> = words.collect();
    let (first, rest) = words.split_first().ok_or("no command is given")?;
    match first.to_str() {
        Some("--help" | "-h" | "help") => Ok(LauncherCommand::Help),
        Some("--version" | "-V") => Ok(LauncherCommand::Version),
        Some("serve") if rest.is_empty() => Ok(LauncherCommand::Serve),
        Some("serve") => Err("serve takes no arguments".to_owned()),
        Some("measure") => measurement(rest).map(LauncherCommand::Measure),
        Some("barrier") => command(rest).map(LauncherCommand::Barrier),
        _ => Err(format!("there is no command `{}`", first.to_string_lossy())),
    }
}

fn measurement(mut words: &[OsString]) -> Result<Measurement, String> {
    let mut hooks = Vec::new();
    while let [option, rest @ ..] = words {
        if option.as_os_str() != "--hooks" {
            break;
        }
        let (path, rest) = rest.split_first().ok_or("--hooks needs a path")?;
        hooks.push(text(path)?);
        words = rest;
    }
    let argv: Vec<String> = command(words)?.iter().map(text).collect::<Result<_, _>>()?;
    if argv.is_empty() {
        return Err("there is no command to measure".to_owned());
    }
    Ok(Measurement { hooks, argv })
}

fn command(words: &[OsString]) -> Result<Vec<OsString>, String> {
    match words.split_first() {
        Some((first, rest)) if first.as_os_str() == "--" => Ok(rest.to_vec()),
        Some((first, _)) if first.as_encoded_bytes().starts_with(b"-") => {
            Err(format!("there is no option `{}`", first.to_string_lossy()))
        }
        _ => Ok(words.to_vec()),
    }
}

fn text(word: &OsString) -> Result<String, String> {
    let text = word.to_str().map(str::to_owned);
    text.ok_or_else(|| format!("`{}` is not UTF-8", word.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<LauncherCommand, String> {
        parse(words.iter().map(OsString::from))
    }

    #[test]
    fn measure_takes_hooks_and_everything_after_the_dashes() {
        let action = parsed(&["measure", "--hooks", "d", "--", "--hooks", "x"]);
        let hooks = vec!["d".to_owned()];
        let argv = vec!["--hooks".to_owned(), "x".to_owned()];
        assert_eq!(
            action,
            Ok(LauncherCommand::Measure(Measurement { hooks, argv }))
        );
    }

    #[test]
    fn a_barrier_needs_no_command() {
        assert_eq!(parsed(&["barrier"]), Ok(LauncherCommand::Barrier(vec![])));
        assert_eq!(
            parsed(&["barrier", "--"]),
            Ok(LauncherCommand::Barrier(vec![]))
        );
    }

    #[test]
    fn nonsense_is_refused() {
        for words in [
            &[][..],
            &["frobnicate"],
            &["serve", "x"],
            &["measure"],
            &["measure", "--hooks"],
            &["measure", "--what", "x"],
            &["barrier", "--what"],
        ] {
            assert!(parsed(words).is_err(), "{words:?}");
        }
    }
}
