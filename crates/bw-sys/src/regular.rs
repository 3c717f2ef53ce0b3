//! Files that a user named: opened without waiting, and only if they are regular.
//!
//! Opening a FIFO waits for its other end, and a device may never end. A pipe that the caller's shell has opened
//! (`<(command)`) is the user's wish, and is read. Sources: open(2), fifo(7).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

const OPENED_BY_CALLER: [&str; 3] = ["/dev/fd/", "/proc/self/fd/", "/dev/stdin"];

/// Opens a file for reading. Errors: open(2); `InvalidInput` for a directory, a FIFO, a device or a socket.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let opened_by_caller = path
        .to_str()
        .is_some_and(|text| OPENED_BY_CALLER.iter().any(|place| text.starts_with(place)));
    if opened_by_caller && path.metadata()?.file_type().is_fifo() {
        return File::open(path);
    }
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    if !file.metadata()?.is_file() {
        let message = "it is not a regular file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::io::Read;

    #[test]
    fn a_fifo_and_a_device_are_refused_and_a_file_is_read() {
        let name = format!("bw-regular-{}", std::process::id());
        let place = std::env::temp_dir().join(name);
        let path = CString::new(place.to_str().unwrap()).unwrap();
        // SAFETY: `path` is a C string.
        assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
        for irregular in [place.as_path(), Path::new("/dev/zero"), Path::new("/")] {
            let error = open_regular(irregular).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
        std::fs::remove_file(&place).unwrap();
        std::fs::write(&place, "text").unwrap();
        let mut text = String::new();
        let mut file = open_regular(&place).unwrap();
        file.read_to_string(&mut text).unwrap();
        std::fs::remove_file(&place).unwrap();
        assert_eq!(text, "text");
    }
}
