//! Making the regular file that the spec asks for, and the words of what goes wrong.

use super::{FileSpec, Purpose, Refusal, fill, guard};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
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

/// Makes the regular file, or makes it larger, if that is asked and may be done. Returns the
/// file that was checked, where it will be written to; None where it is only read.
///
/// # Errors
/// `target-open`, `target-has-data`, `target-held`, `target-size`, `target-interrupted`.
pub fn prepare(
    spec: &FileSpec,
    purpose: Purpose,
    absent: &mut Vec<String>,
) -> Result<Option<File>, Refusal> {
    let path = spec.path.as_path();
    let held = fs::metadata(path).map(|about| about.len());
    let smaller = |held: &u64| spec.size_bytes.is_some_and(|asked| *held < asked);
    match (held, spec.size_bytes) {
        (Err(_), Some(asked)) => make(path, asked, absent).map(Some),
        (Ok(held), _) if purpose.writes || smaller(&held) => check_and_grow(spec).map(Some),
        _ => Ok(None),
    }
}

fn check_and_grow(spec: &FileSpec) -> Result<File, Refusal> {
    let path = spec.path.as_path();
    let file = File::options().read(true).write(true).open(path);
    let file = file.map_err(|error| not_opened(path, &error))?;
    let about = file.metadata().map_err(|error| not_opened(path, &error))?;
    if !spec.allow_writes_to_mounted {
        guard::refuse_loop(path, &about, "")?;
    }
    if !spec.overwrite {
        guard::refuse_data(path, &file)?;
    }
    match spec.size_bytes {
        Some(asked) if about.is_file() && about.len() < asked => {
            let filled = fill::fill(&file, about.len(), asked);
            filled.map_err(|error| not_filled(path, asked, &error))?;
        }
        _ => {}
    }
    Ok(file)
}

fn make(path: &Path, bytes: u64, absent: &mut Vec<String>) -> Result<File, Refusal> {
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    let file = file.map_err(|error| not_opened(path, &error))?;
    if let Err(error) = guard::mark(&file) {
        absent.push(format!(
            "the mark of a file made by bw: {error}; the next run that writes needs --overwrite"
        ));
    }
    if let Err(error) = fill::fill(&file, 0, bytes) {
        remove(path, &file);
        return Err(not_filled(path, bytes, &error));
    }
    Ok(file)
}

/// Removes the file that was just made, and is of no use to anyone; not another one that has
/// taken its name.
fn remove(path: &Path, made: &File) {
    let identity = |about: fs::Metadata| (about.dev(), about.ino());
    let there = fs::symlink_metadata(path).map(identity).ok();
    if there.is_some() && there == made.metadata().map(identity).ok() {
        let _ = fs::remove_file(path);
    }
}

fn not_filled(path: &Path, bytes: u64, error: &io::Error) -> Refusal {
    if error.kind() == io::ErrorKind::Interrupted {
        let message = format!("{}: a signal came while it was made", path.display());
        return Refusal::new("target-interrupted", message, "run it again, to its end");
    }
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
    if let Some(folder) = missing_folder(path, error) {
        return Refusal::new(
            "target-open",
            format!(
                "{}: there is no folder {}",
                path.display(),
                folder.display()
            ),
            "make the folder, or correct the path",
        );
    }
    let remedy = match error.raw_os_error() {
        Some(libc::ENOENT) => "name a file that exists, or give a size (--size): then it is made",
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

/// Returns the first folder on the way to a path that is not there, if it is for want of one that
/// the path cannot be opened.
fn missing_folder<'a>(path: &'a Path, error: &io::Error) -> Option<&'a Path> {
    let folders = path.ancestors().skip(1);
    let named = folders.filter(|folder| *folder != Path::new(""));
    (error.kind() == io::ErrorKind::NotFound)
        .then(|| named.take_while(|folder| is_missing(folder)).last())
        .flatten()
}

/// A link that leads nowhere is there.
fn is_missing(folder: &Path) -> bool {
    let about = fs::symlink_metadata(folder);
    about.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}
