//! The password of a connection to PostgreSQL: from a file of the request, or as PostgreSQL's own clients find it.
//!
//! Decision: a password file that the user has named and that cannot be read is an error; ~/.pgpass that is absent, or
//! that others can read, has no passwords, as for libpq.
//! Source: PostgreSQL's documentation, "The Password File" and "Environment Variables".

use bw_model::EngineError;
use bw_protocol::postgres::Password;
use bw_sys::regular::open_regular;
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Maximum length of a file with passwords [bytes].
const MOST_BYTES: u64 = 1 << 20;
/// Permissions that a file with passwords must not have.
const OTHERS: u32 = 0o077;

/// Who logs in where, and the file with the password, if it is named.
pub(super) struct Wanted<'a> {
    pub(super) password_file: Option<&'a Path>,
    pub(super) unix_socket: Option<&'a Path>,
    pub(super) host: &'a str,
    pub(super) port: u16,
    pub(super) database: &'a str,
    pub(super) user: &'a str,
}

/// Returns the password of a login; None: there is none, and the server may not need one.
///
/// # Errors
/// `password`: a file that the user has named cannot be read.
pub(super) fn find(of: &Wanted) -> Result<Option<Password>, EngineError> {
    if let Some(path) = of.password_file {
        let text = read(path).map_err(|error| unreadable("password_file", path, &error))?;
        let first = text.lines().next().unwrap_or_default();
        return Ok(Some(Password::new(first.to_owned())));
    }
    if let Some(password) = variable("PGPASSWORD") {
        let password = password.into_string().map_err(|_| {
            let remedy = "set it to text in UTF-8";
            EngineError::request("password", "PGPASSWORD: not UTF-8", remedy)
        })?;
        return Ok(Some(Password::new(password)));
    }
    let host = match of.unix_socket {
        Some(path) => path.parent().map_or("", |path| path.to_str().unwrap_or("")),
        None => of.host,
    };
    let port = of.port.to_string();
    let wanted = [host, &port, of.database, of.user];
    // A server on a Unix socket is found under localhost, too.
    let local = ["localhost", wanted[1], wanted[2], wanted[3]];
    let wanted = if of.unix_socket.is_some() {
        &[wanted, local][..]
    } else {
        &[wanted][..]
    };
    if let Some(path) = variable("PGPASSFILE").map(PathBuf::from) {
        let text = read(&path).map_err(|error| unreadable("PGPASSFILE", &path, &error))?;
        let is_private = is_private(&path).unwrap_or(false);
        if !is_private {
            let what = io::Error::other("others can read it");
            return Err(unreadable("PGPASSFILE", &path, &what));
        }
        return Ok(search(&text, wanted));
    }
    let Some(home) = variable("HOME") else {
        return Ok(None);
    };
    let path = Path::new(&home).join(".pgpass");
    match (is_private(&path), read(&path)) {
        (Ok(true), Ok(text)) => Ok(search(&text, wanted)),
        _ => Ok(None),
    }
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn unreadable(name: &str, path: &Path, error: &io::Error) -> EngineError {
    let message = format!("{name} {}: {error}", path.display());
    EngineError::request(
        "password",
        message,
        "name a file that only you can read (mode 0600)",
    )
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open_regular(path)?
        .take(MOST_BYTES)
        .read_to_string(&mut text)?;
    Ok(text)
}

fn is_private(path: &Path) -> io::Result<bool> {
    let metadata = path.metadata()?;
    Ok(metadata.is_file() && metadata.permissions().mode() & OTHERS == 0)
}

/// Returns the password of the first line whose four fields equal one of `wanted`, or are `*`.
fn search(text: &str, wanted: &[[&str; 4]]) -> Option<Password> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let found = lines.filter_map(fields).find(|(fields, _)| {
        wanted.iter().any(|wanted| {
            let mut pairs = fields.iter().zip(wanted);
            pairs.all(|(field, wanted)| field == "*" || field == wanted)
        })
    });
    found.map(|(_, password)| Password::new(password))
}

/// Returns the four fields of a line and its password; None for a line that is none. A backslash makes the next
/// character an ordinary one.
fn fields(line: &str) -> Option<([String; 4], String)> {
    let mut fields: [String; 4] = Default::default();
    let mut characters = line.chars();
    for field in &mut fields {
        loop {
            match characters.next()? {
                ':' => break,
                '\\' => field.push(characters.next()?),
                other => field.push(other),
            }
        }
    }
    let mut password = String::new();
    while let Some(one) = characters.next() {
        match one {
            '\\' => password.push(characters.next()?),
            // What comes after another colon belongs to nothing.
            ':' => break,
            other => password.push(other),
        }
    }
    Some((fields, password))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_fits_has_the_password() {
        let text = "# h:5432:db:u:comment\nbroken\nh:5433:*:*:other\n\
                    h:5432:d\\:b:u:with\\:colon\\\\:x\n*:*:*:u:any\n/run:5432:db:v:socket\n";
        let wanted = |host, port, database, user| {
            let found = search(text, &[[host, port, database, user]]);
            found.map(|found| found == Password::new("any".into()))
        };
        assert_eq!(wanted("h", "5432", "db", "u"), Some(true));
        assert_eq!(wanted("h", "5432", "d:b", "u"), Some(false));
        assert_eq!(wanted("h", "1", "db", "w"), None);
        let colon = search(text, &[["h", "5432", "d:b", "u"]]);
        assert_eq!(colon, Some(Password::new("with:colon\\".into())));
        let both = [
            ["/run", "5432", "db", "v"],
            ["localhost", "5432", "db", "v"],
        ];
        assert_eq!(search(text, &both), Some(Password::new("socket".into())));
    }
}
