//! The command line of `bw-sampler`, and the roots of the kernel's trees, which tests replace.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The output of `--help`.
pub const USAGE: &str = "\
usage: bw-sampler serve [--proc DIR] [--sys DIR] [--kmsg FILE]
       bw-sampler reduce FILE

serve watches the machine; requests come on standard input (docs/watch-format.md).
The options say where the kernel's trees are; tests put made-up ones there.
reduce computes what trials used from the series FILE; standard input says when they ran.
";

/// The command to execute.
#[derive(Debug, PartialEq, Eq)]
pub enum SamplerCommand {
    /// Print the usage.
    Help,
    /// Print the version.
    Version,
    /// Serve.
    Serve(Roots),
    /// Reduce this series.
    Reduce(PathBuf),
}

/// Returns the command that the arguments request. Errors: what is wrong with them.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<SamplerCommand, String> {
    let mut arguments = arguments.into_iter();
    match arguments.next().as_deref().and_then(|word| word.to_str()) {
        Some("--help" | "-h") => Ok(SamplerCommand::Help),
        Some("--version") => Ok(SamplerCommand::Version),
        Some("serve") => roots(arguments).map(SamplerCommand::Serve),
        Some("reduce") => match (arguments.next(), arguments.next()) {
            (Some(file), None) => Ok(SamplerCommand::Reduce(file.into())),
            _ => Err("reduce needs one file".to_owned()),
        },
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

/// The roots of the files to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roots {
    /// `/proc`.
    pub proc: PathBuf,
    /// `/sys`.
    pub sys: PathBuf,
    /// `/dev/kmsg`.
    pub kmsg: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self {
            proc: PathBuf::from("/proc"),
            sys: PathBuf::from("/sys"),
            kmsg: PathBuf::from("/dev/kmsg"),
        }
    }
}

impl Roots {
    /// Returns the location of a path that the kernel names: `/sys/...` is below our root of `/sys`.
    pub fn place(&self, path: &Path) -> PathBuf {
        match path.strip_prefix("/sys") {
            Ok(rest) => self.sys.join(rest),
            Err(_) => path.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<SamplerCommand, String> {
        parse(words.iter().map(OsString::from))
    }

    #[test]
    fn roots_may_be_elsewhere() {
        let Ok(SamplerCommand::Serve(roots)) = parsed(&["serve", "--proc", "/x"]) else {
            unreachable!("serve is a command")
        };
        assert_eq!(roots.proc, std::path::Path::new("/x"));
        assert_eq!(roots.sys, std::path::Path::new("/sys"));
    }

    #[test]
    fn what_is_wrong_is_reported() {
        assert!(parsed(&[]).is_err());
        assert!(parsed(&["serve", "--proc"]).is_err());
        assert!(parsed(&["serve", "--what", "x"]).is_err());
        assert!(parsed(&["reduce"]).is_err());
        assert!(parsed(&["reduce", "a", "b"]).is_err());
    }
}
