//! What is executed: the places where argv[0] may be, and the argument vector.
//!
//! The search is prepared once a run, in the parent; the child only tries the places in
//! turn, so a program that SETUP creates is found. Source: execvp(3), its ENOEXEC rule too.

use std::ffi::{CString, NulError};
use std::ptr;

use crate::seat::Environment;

/// A command ready for execve.
#[derive(Debug)]
pub struct Program {
    candidates: Vec<CString>,
    words: Vec<CString>,
    /// `/bin/sh`, argv..., null: from 1 on it is the command's own vector.
    vector: Vec<*const libc::c_char>,
    shell: CString,
}

impl Program {
    /// Prepares `argv`, searched in `path` (a PATH value), then in the working directory.
    /// Errors: a word with a NUL byte.
    pub fn new(argv: &[String], path: &str) -> Result<Self, NulError> {
        let words: Vec<CString> = argv
            .iter()
            .map(|word| CString::new(word.as_str()))
            .collect::<Result<_, _>>()?;
        let shell = c"/bin/sh".to_owned();
        let mut vector = vec![shell.as_ptr()];
        vector.extend(words.iter().map(|word| word.as_ptr()));
        vector.push(ptr::null());
        Ok(Self {
            candidates: candidates(&argv[0], path)?,
            words,
            vector,
            shell,
        })
    }

    /// argv[0], for messages.
    pub fn name(&self) -> std::borrow::Cow<'_, str> {
        self.words[0].to_string_lossy()
    }

    /// Executes it; returns the errno only if that is impossible. `before` is called just
    /// before each attempt. Async-signal-safe; meant for a fresh child.
    pub fn execute(&self, environment: &Environment, before: impl Fn()) -> i32 {
        let mut answer = libc::ENOENT;
        for candidate in &self.candidates {
            before();
            // SAFETY: strings and null-terminated vectors live as long as self.
            unsafe {
                libc::execve(
                    candidate.as_ptr(),
                    self.vector[1..].as_ptr(),
                    environment.as_ptr(),
                )
            };
            // SAFETY: errno's location is always valid.
            match unsafe { *libc::__errno_location() } {
                libc::ENOENT | libc::ENOTDIR => {}
                libc::EACCES => answer = libc::EACCES,
                libc::ENOEXEC => return self.by_shell(candidate, environment),
                other => return other,
            }
        }
        answer
    }

    /// A script without `#!`: the shell reads it. Memory is the child's to change only if
    /// it is its own, so the vector is copied to the stack, for up to 64 words.
    fn by_shell(&self, path: &CString, environment: &Environment) -> i32 {
        let mut vector = [ptr::null(); 64];
        if self.vector.len() > vector.len() {
            return libc::ENOEXEC;
        }
        vector[..self.vector.len()].copy_from_slice(&self.vector);
        vector[1] = path.as_ptr();
        // SAFETY: as in `execute`; the vector ends with null.
        unsafe { libc::execve(self.shell.as_ptr(), vector.as_ptr(), environment.as_ptr()) };
        libc::ENOEXEC
    }
}

fn candidates(name: &str, path: &str) -> Result<Vec<CString>, NulError> {
    if name.contains('/') {
        return Ok(vec![CString::new(name)?]);
    }
    path.split(':')
        .map(|folder| if folder.is_empty() { "." } else { folder })
        .chain(["."])
        .map(|folder| CString::new(format!("{folder}/{name}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_comes_first_then_the_directory() {
        let found = candidates("true", "/a::/b").unwrap();
        let names: Vec<_> = found.iter().map(|path| path.to_str().unwrap()).collect();
        assert_eq!(names, ["/a/true", "./true", "/b/true", "./true"]);
    }

    #[test]
    fn a_slash_means_no_search() {
        assert_eq!(candidates("./x", "/a").unwrap(), [c"./x".to_owned()]);
    }

    #[test]
    fn nul_is_refused() {
        assert!(Program::new(&["a\0b".to_owned()], "/bin").is_err());
    }
}
