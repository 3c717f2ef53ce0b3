//! The memory of operations in a ring: the calls in progress, and the names and attributes that the kernel reads and writes.
//!
//! While an operation is in flight the kernel reads the names and writes the attributes of its slot, and the worker changes
//! its call and other slots: only one field is borrowed at a time, and the attributes are in an [`UnsafeCell`]. A fake
//! kernel tries it under miri (`make soundness`).

use crate::file_set::call::{self, SetCall};
use io_uring::types;
use std::cell::UnsafeCell;
use std::ffi::c_char;
use std::mem::{ManuallyDrop, MaybeUninit};

/// The longest name of an object, with its end: a letter and ten digits.
pub(crate) const NAME_BYTES: usize = 12;

struct Slot {
    call: SetCall,
    /// The object's name, and the other one, with a NUL at the end.
    names: [[u8; NAME_BYTES]; 2],
    attributes: UnsafeCell<MaybeUninit<libc::statx>>,
}

/// The slots; leaked unless they are freed, since operations may still be in flight at the end.
pub(crate) struct Slots(ManuallyDrop<Box<[Slot]>>);

impl Slots {
    /// Returns the slots of `depth` operations.
    pub(crate) fn new(depth: u32) -> Self {
        let slot = |_| Slot {
            call: call::NONE,
            names: [[0; NAME_BYTES]; 2],
            attributes: UnsafeCell::new(MaybeUninit::zeroed()),
        };
        Self(ManuallyDrop::new((0..depth).map(slot).collect()))
    }

    /// Returns the call of a slot.
    pub(crate) fn call(&self, slot: u32) -> &SetCall {
        &self.0[slot as usize].call
    }

    /// Returns the call of a slot, to change it.
    pub(crate) fn call_mut(&mut self, slot: u32) -> &mut SetCall {
        &mut self.0[slot as usize].call
    }

    /// Sets a name of a slot, `other` or not; it is cut off after 11 bytes. No operation of the slot is in flight.
    pub(crate) fn set_name(&mut self, slot: u32, other: bool, name: &str) {
        let bytes = &mut self.0[slot as usize].names[usize::from(other)];
        let length = name.len().min(NAME_BYTES - 1);
        bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
        bytes[length] = 0;
    }

    /// Returns where the kernel reads a name of a slot.
    pub(crate) fn name(&self, slot: u32, other: bool) -> *const c_char {
        self.0[slot as usize].names[usize::from(other)]
            .as_ptr()
            .cast()
    }

    /// Returns where the kernel writes the attributes of a slot.
    pub(crate) fn attributes(&self, slot: u32) -> *mut types::statx {
        self.0[slot as usize].attributes.get().cast()
    }

    /// Frees the memory.
    ///
    /// # Safety
    /// No operation is in flight, and no more will be submitted.
    pub(crate) unsafe fn free(&mut self) {
        // SAFETY: by the contract this is the last use.
        unsafe { ManuallyDrop::drop(&mut self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file_set::call::Call;
    use std::ffi::CStr;
    use std::sync::mpsc::channel;

    /// What an entry of a ring has of a slot.
    struct Submitted {
        slot: u32,
        names: [*const c_char; 2],
        attributes: *mut types::statx,
    }

    // SAFETY: the worker leaves what they point to alone until the fake kernel has returned them.
    unsafe impl Send for Submitted {}

    /// Reads the names and writes the attributes, as the kernel does at any time before the completion.
    fn execute(submitted: &Submitted) {
        for (other, name) in ["f", "r"].into_iter().zip(submitted.names) {
            // SAFETY: the slot's names, which end with NUL, until the completion.
            let name = unsafe { CStr::from_ptr(name) };
            let expected = format!("{other}{}", submitted.slot);
            assert_eq!(name.to_str().unwrap(), expected);
        }
        // SAFETY: the slot's attributes, until the completion.
        unsafe {
            submitted
                .attributes
                .cast::<u8>()
                .write_bytes(0xa5, size_of::<libc::statx>())
        };
    }

    #[test]
    fn the_kernel_uses_slots_while_the_worker_changes_others() {
        let depth = 4;
        let mut slots = Slots::new(depth);
        let (submit, submitted) = channel::<Submitted>();
        let (complete, completed) = channel();
        let kernel = std::thread::spawn(move || {
            let mut held = Vec::new();
            while let Ok(entry) = submitted.recv() {
                held.push(entry);
                // Of two in flight the later one ends first.
                if held.len() == 2 {
                    held.drain(..).rev().for_each(|entry| {
                        execute(&entry);
                        complete.send(entry.slot).unwrap();
                    });
                }
            }
        });
        for slot in (0..depth).cycle().take(16) {
            let name = format!("f{slot}");
            *slots.call_mut(slot) = call::NONE;
            slots.set_name(slot, false, &name);
            slots.set_name(slot, true, &name.replace('f', "r"));
            let entry = Submitted {
                slot,
                names: [false, true].map(|other| slots.name(slot, other)),
                attributes: slots.attributes(slot),
            };
            submit.send(entry).unwrap();
            // What the worker does meanwhile.
            for other in 0..depth {
                assert_ne!(slots.call(other).call, Call::Close);
            }
            slots.call_mut((slot + 1) % depth).call = Call::Unlink;
            if slot % 2 == 1 {
                let ended: [u32; 2] = [(); 2].map(|()| completed.recv().unwrap());
                assert_eq!(ended, [slot, slot - 1]);
            }
        }
        drop(submit);
        kernel.join().unwrap();
        // SAFETY: the fake kernel has ended.
        unsafe { slots.free() };
    }
}
