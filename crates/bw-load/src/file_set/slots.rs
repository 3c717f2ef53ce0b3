//! The memory of operations in a ring: the calls in progress, and the names and attributes that the kernel reads and writes.
//!
//! While an operation is in flight the kernel has pointers into its slot, and the worker changes other slots. So no
//! reference to a whole slot, or to all of them, ever exists: each slot is in an [`UnsafeCell`], of which only the
//! part that belongs to the worker is borrowed. A fake kernel tries it under miri (`make soundness`).

use crate::file_set::call::{self, SetCall};
use io_uring::types;
use std::cell::UnsafeCell;
use std::ffi::c_char;
use std::mem::{ManuallyDrop, MaybeUninit};

/// The longest name of an object, with its end: a letter and ten digits.
pub(crate) const NAME_BYTES: usize = 12;

struct Slot {
    /// The kernel has no pointer to it.
    call: SetCall,
    /// The object's name, and the other one, with a NUL at the end.
    names: [[u8; NAME_BYTES]; 2],
    attributes: MaybeUninit<libc::statx>,
}

/// The slots; leaked unless they are freed, since operations may still be in flight at the end.
pub(crate) struct Slots(ManuallyDrop<Box<[UnsafeCell<Slot>]>>);

impl Slots {
    /// Returns the slots of `depth` operations.
    pub(crate) fn new(depth: u32) -> Self {
        let slot = || Slot {
            call: call::NONE,
            names: [[0; NAME_BYTES]; 2],
            attributes: MaybeUninit::zeroed(),
        };
        let slots = (0..depth).map(|_| UnsafeCell::new(slot()));
        Self(ManuallyDrop::new(slots.collect()))
    }

    fn at(&self, slot: u32) -> *mut Slot {
        self.0[slot as usize].get()
    }

    /// Returns the call of a slot.
    pub(crate) fn call(&self, slot: u32) -> &SetCall {
        // SAFETY: only the worker has access to the call, and changes it through `&mut self`.
        unsafe { &(*self.at(slot)).call }
    }

    /// Returns the call of a slot, to change it.
    pub(crate) fn call_mut(&mut self, slot: u32) -> &mut SetCall {
        // SAFETY: as above.
        unsafe { &mut (*self.at(slot)).call }
    }

    /// Sets a name of a slot, `other` or not; it is cut off after 11 bytes.
    ///
    /// # Safety
    /// No operation of the slot is in flight.
    pub(crate) unsafe fn set_name(&mut self, slot: u32, other: bool, name: &str) {
        // SAFETY: the kernel does not read the names, by the contract.
        let bytes = unsafe { &mut (*self.at(slot)).names[usize::from(other)] };
        let length = name.len().min(NAME_BYTES - 1);
        bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
        bytes[length] = 0;
    }

    /// Returns where the kernel reads a name of a slot.
    pub(crate) fn name(&self, slot: u32, other: bool) -> *const c_char {
        // SAFETY: only an address is computed, inside the slot.
        unsafe { (&raw const (*self.at(slot)).names[usize::from(other)]).cast() }
    }

    /// Returns where the kernel writes the attributes of a slot.
    pub(crate) fn attributes(&self, slot: u32) -> *mut types::statx {
        // SAFETY: as above.
        unsafe { (&raw mut (*self.at(slot)).attributes).cast() }
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
            // SAFETY: each slot has ended before it is used again: two are in flight at most.
            unsafe {
                slots.set_name(slot, false, &name);
                slots.set_name(slot, true, &name.replace('f', "r"));
            }
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
