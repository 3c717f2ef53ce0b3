//! A defect of the engine itself, in any thread: still exactly one answer.
//!
//! Decision: a panic hook, since what is shipped aborts on a panic and unwinds nowhere. It says the error and ends
//! the process: a worker that is gone would be waited for for ever.

use crate::trouble::Trouble;
use std::panic::{PanicHookInfo, set_hook, take_hook};
use std::sync::atomic::{AtomicBool, Ordering};

static BEGUN: AtomicBool = AtomicBool::new(false);

/// From now on a panic in any thread is given to `say`, and ends the process with the trouble's status.
pub fn answer_with(say: fn(&Trouble)) {
    let on_stderr = take_hook();
    set_hook(Box::new(move |panic| {
        if BEGUN.swap(true, Ordering::SeqCst) {
            // Another thread's panic came first and ends the process.
            loop {
                std::thread::park();
            }
        }
        on_stderr(panic);
        let trouble = trouble(panic);
        say(&trouble);
        // SAFETY: it ends the process; nothing of ours is to be done at its end.
        unsafe { libc::_exit(trouble.status) };
    }));
}

fn trouble(panic: &PanicHookInfo<'_>) -> Trouble {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("a thread");
    let payload = panic.payload();
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    let what = text.unwrap_or("no message");
    let place = panic.location().map(ToString::to_string);
    let place = place.unwrap_or_default();
    Trouble::operating(
        "engine-panic",
        format!("the engine met a defect of its own in {name} and has ended: {what} ({place})"),
        "please report this, with the request",
    )
}
