//! Making the regular file that the spec asks for, and the words of what goes wrong.

use super::{FileSpec, Purpose, Refusal, fill, guard};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

/// Refuses a spec that makes no sense, whatever is at its path.
///
/// # Errors
/// `target-spec`.
pub fn check_spec(spec: &FileSpec) -> Result<(), Refusal> {
    let wrong = |what: &str, remedy: &str| {
        let message = format!("{}: {what}", spec.path.display());
        Err(Refusal::new("target-spec", message, remedy))
    };
    if !(1..=1024).contains(&spec.threads) {
        return wrong("threads must be 1 to 1024", "take 16");
    }
    if spec.size_bytes == Some(0) {
        return wrong(
            "a size of 0 leaves nothing to read or write",
            "leave out the size",
        );
    }
    if spec
        .block_bytes
        .is_some_and(|bytes| !bytes.is_power_of_two())
    {
        return wrong("the block must be a power of two", "take 4096");
    }
    Ok(())
}

/// Makes the regular file, or makes it larger, if that is asked and may be done.
///
/// # Errors
/// `target-open`, `target-has-data`, `target-size`.
pub fn prepare(spec: &FileSpec, purpose: Purpose, absent: &mut Vec<String>) -> Result<(), Refusal> {
    let path = spec.path.as_path();
    let held = fs::metadata(path).map(|about| about.len());
    let grows = spec
        .size_bytes
        .filter(|asked| held.as_ref().is_ok_and(|held| held < asked));
    match (held, spec.size_bytes) {
        (Err(_), Some(asked)) => make(path, asked, absent),
        (Ok(held), _) if grows.is_some() || purpose.writes => {
            let file = File::options().read(true).write(true).open(path);
            let file = file.map_err(|error| not_opened(path, &error))?;
            if !spec.overwrite {
                guard::refuse_data(path, &file)?;
            }
            let Some(asked) = grows else { return Ok(()) };
            fill::fill(&file, held, asked).map_err(|error| not_filled(path, asked, &error))
        }
        _ => Ok(()),
    }
}

fn make(path: &Path, bytes: u64, absent: &mut Vec<String>) -> Result<(), Refusal> {
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    let file = file.map_err(|error| not_opened(path, &error))?;
    if let Err(error) = guard::mark(&file) {
        absent.push(format!(
            "the mark of a file made by bw: {error}; the next run that writes needs --overwrite"
        ));
    }
    fill::fill(&file, 0, bytes).map_err(|error| {
        // The file is ours, and of no use to anyone.
        let _ = fs::remove_file(path);
        not_filled(path, bytes, &error)
    })
}

fn not_filled(path: &Path, bytes: u64, error: &io::Error) -> Refusal {
    Refusal::new(
        "target-size",
        format!(
            "{}: cannot be made {bytes} bytes large: {error}",
            path.display()
        ),
        "ask for a smaller size, make room, or raise the limit (ulimit -f)",
    )
}

/// Returns the refusal of a path that cannot be opened.
pub fn not_opened(path: &Path, error: &io::Error) -> Refusal {
    let remedy = match error.raw_os_error() {
        Some(libc::ENOENT) => "name a file that exists, or give a size: then it is made",
        Some(libc::EACCES | libc::EPERM) => {
            "take a file that this user may use, or run as its owner"
        }
        Some(libc::EROFS) => "take a file system that is mounted for writing, or only read",
        Some(libc::ENOTDIR) => "name a file in a directory",
        Some(libc::ENXIO | libc::ENOMEDIUM) => "attach the device first",
        _ => "name another file or device",
    };
    Refusal::new(
        "target-open",
        format!("{}: {error}", path.display()),
        remedy,
    )
}
