//! The command line of `bw-sampler`.

use std::ffi::OsString;

use crate::roots::Roots;

/// What `--help` prints.
pub const USAGE: &str = "\
usage: bw-sampler serve [--proc DIR] [--sys DIR] [--kmsg FILE]

Watches the machine; requests come on standard input (docs/watch-format.md).
The options say where the kernel's trees are; tests put made-up ones there.
";

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// Print the usage.
    Help,
    /// Print the version.
    Version,
    /// Serve.
    Serve(Roots),
}

/// Returns what the arguments ask for. Errors: what is wrong with them.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Action, String> {
    let mut arguments = arguments.into_iter();
    match arguments.next().as_deref().and_then(|word| word.to_str()) {
        Some("--help" | "-h") => Ok(Action::Help),
        Some("--version") => Ok(Action::Version),
        Some("serve") => roots(arguments).map(Action::Serve),
        Some(other) => Err(format!("no such command: {other}")),
        None => Err("a command is missing".to_owned()),
    }
}

fn roots(mut arguments: impl Iterator<Item = OsString>) -> Result<Roots, String> {
    let mut roots = Roots::default();
    while let Some(option) = arguments.next() {
        let into = match option.to_str() {
            Some("--proc") => &mut roots.proc,
            Some("--sys") => &mut roots.sys,
            Some("--kmsg") => &mut roots.kmsg,
            _ => return Err(format!("no such option: {}", option.display())),
        };
        let value = arguments.next();
        *into = value
            .ok_or_else(|| format!("{} needs a path", option.display()))?
            .into();
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Action, String> {
        parse(words.iter().map(OsString::from))
    }

    #[test]
    fn roots_may_be_elsewhere() {
        let Ok(Action::Serve(roots)) = parsed(&["serve", "--proc", "/x"]) else {
            unreachable!("serve is a command")
        };
        assert_eq!(roots.proc, std::path::Path::new("/x"));
        assert_eq!(roots.sys, std::path::Path::new("/sys"));
    }

    #[test]
    fn what_is_wrong_is_told() {
        assert!(parsed(&[]).is_err());
        assert!(parsed(&["serve", "--proc"]).is_err());
        assert!(parsed(&["serve", "--what", "x"]).is_err());
    }
}
