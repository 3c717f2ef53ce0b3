//! Waiting: asleep while there is time, spinning just before the time comes.

use super::{GLANCE, Worker};
use crate::clock::Clock;
use crate::target::Target;
use bw_model::Nanos;
use std::io;

/// A sleep shorter than this is not worth its system call.
const SHORTEST: Nanos = Nanos(5_000);

impl<C: Clock, T: Target> Worker<C, T> {
    /// Waits until something is due, or ends.
    pub(super) fn idle(&mut self) -> io::Result<()> {
        self.mail.post();
        self.now = self.clock.now();
        self.times.busy += self.now.since(self.mark);
        self.mark = self.now;
        let left = self.deadline().since(self.now);
        let guard = self.plan.guard.length();
        if left > guard + SHORTEST.min(guard) {
            self.sleep(left - guard)?;
            self.times.slept += self.now.since(self.mark);
        } else {
            self.spin(self.now + left)?;
            self.times.spun += self.now.since(self.mark);
        }
        self.mark = self.now;
        Ok(())
    }

    /// Returns until when nothing is to be done that this worker knows of.
    fn deadline(&self) -> Nanos {
        let wake = self.next_wake();
        // One that was put off waits for the operation.
        let wake = if wake <= self.now { Nanos::NEVER } else { wake };
        let next = self.agenda.next_at().min(wake);
        let glance = GLANCE.min(self.mail.patience());
        next.min(self.boundary)
            .min(self.plan.end)
            .min(self.now + glance)
    }

    /// Sleeps, with the target if there is something to end; learns how much too long it took.
    fn sleep(&mut self, length: Nanos) -> io::Result<()> {
        let until = self.now + length;
        if self.slots.in_flight() > 0 {
            self.target.wait(length)?;
        } else {
            self.clock.sleep(length);
        }
        self.now = self.clock.now();
        if self.now >= until {
            self.plan.guard.learn(self.now - until);
        }
        Ok(())
    }

    /// Spins until the deadline, or until something has ended well before it.
    fn spin(&mut self, deadline: Nanos) -> io::Result<()> {
        while self.now < deadline {
            if deadline - self.now > self.plan.near {
                if self.slots.in_flight() > 0 && self.reap()? {
                    break;
                }
                std::hint::spin_loop();
            }
            self.now = self.clock.now();
        }
        Ok(())
    }
}
