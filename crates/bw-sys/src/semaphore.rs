//! System V semaphore sets. Every call takes integers only. Sources: semget(2), semctl(2).

use crate::checked;
use std::io;

/// The key of a set.
pub type Key = libc::key_t;

/// Creates a set of `members` under a free key. Errors: EEXIST; semaphores are unavailable (ENOSYS, ENOSPC).
pub fn create(key: Key, members: i32) -> io::Result<i32> {
    let flags = libc::IPC_CREAT | libc::IPC_EXCL | 0o600;
    // SAFETY: integer arguments only.
    checked(unsafe { libc::semget(key, members, flags) })
}

/// Sets the value of a member; returns whether that succeeded.
#[must_use]
pub fn set_value(id: i32, member: i32, value: u32) -> bool {
    // SAFETY: SETVAL takes an int-sized union member, passed as a register-wide integer.
    unsafe { libc::semctl(id, member, libc::SETVAL, libc::c_long::from(value)) == 0 }
}

/// Returns the value of a member; None if there is no such member, or this user may not read it.
#[must_use]
pub fn value(id: i32, member: i32) -> Option<i32> {
    // SAFETY: integer arguments only.
    checked(unsafe { libc::semctl(id, member, libc::GETVAL) }).ok()
}

/// Returns the process that changed a member last; 0: a process in another pid namespace.
#[must_use]
pub fn last_process(id: i32, member: i32) -> Option<i32> {
    // SAFETY: integer arguments only.
    checked(unsafe { libc::semctl(id, member, libc::GETPID) }).ok()
}

/// Removes a set.
pub fn remove(id: i32) {
    // SAFETY: integer arguments only.
    unsafe { libc::semctl(id, 0, libc::IPC_RMID) };
}
