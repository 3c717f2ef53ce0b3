//! The counter of the CPU: the time stamp counter of x86-64, the virtual counter of AArch64.
//!
//! It is used only where the kernel itself trusts it, which means that its current clock source is this counter, and where
//! the CPU says that it is invariant; that of AArch64 is by definition. A reading is not fenced: a stamp can be some 10 ns
//! early. Sources: Intel SDM 18.17; Arm ARM D12 (the generic timer); Linux, arch/arm64/include/asm/arch_timer.h.

use bw_sys::clock::monotonic_ns;

const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// The counter's name in results, and that of the kernel's clock source which reads it.
#[cfg(target_arch = "x86_64")]
const NAMES: Option<(&str, &str)> = Some(("tsc", "tsc"));
#[cfg(target_arch = "aarch64")]
const NAMES: Option<(&str, &str)> = Some(("cntvct", "arch_sys_counter"));
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const NAMES: Option<(&str, &str)> = None;

/// Returns the counter's name in results; None on architectures without one.
pub(crate) fn name() -> Option<&'static str> {
    NAMES.map(|(name, _)| name)
}

/// Checks whether the counter may be used as a clock here, now.
///
/// # Errors
/// What is missing, in words.
pub(crate) fn sound() -> Result<(), String> {
    trusted(&std::fs::read_to_string(SOURCE).unwrap_or_default())?;
    if invariant() {
        Ok(())
    } else {
        Err("the CPU does not report that its counter is invariant".to_owned())
    }
}

/// Checks whether the kernel trusts the counter: whether `source`, its current clock source, is the counter.
pub(super) fn trusted(source: &str) -> Result<(), String> {
    let (_, own) = NAMES.ok_or("this architecture has no counter that programs can read")?;
    if source.trim() == own {
        return Ok(());
    }
    Err(format!(
        "the kernel's clock source is '{}', not '{own}'",
        source.trim()
    ))
}

/// Returns whether the time stamp counter runs at one rate, whatever the CPU does to save power; None on machines
/// without one. Source: CPUID, leaf 8000_0007h, EDX, bit 8.
#[cfg(target_arch = "x86_64")]
pub(crate) fn invariant_tsc() -> Option<bool> {
    use core::arch::x86_64::__cpuid;
    const GREATEST_LEAF: u32 = 0x8000_0000;
    const POWER_MANAGEMENT: u32 = 0x8000_0007;
    #[allow(unused_unsafe)] // newer compilers know that it is safe
    // SAFETY: every x86-64 CPU has CPUID.
    let leaf = |number| unsafe { __cpuid(number) };
    let known = leaf(GREATEST_LEAF).eax >= POWER_MANAGEMENT;
    Some(known && leaf(POWER_MANAGEMENT).edx & 1 << 8 != 0)
}

/// The same on other architectures: there is no such counter.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn invariant_tsc() -> Option<bool> {
    None
}

#[cfg(not(target_arch = "aarch64"))]
fn invariant() -> bool {
    invariant_tsc() == Some(true)
}

/// The system counter has one rate by definition; the firmware stores it.
#[cfg(target_arch = "aarch64")]
fn invariant() -> bool {
    nominal_hz() > 0
}

/// Reads the counter.
#[cfg(target_arch = "x86_64")]
#[inline]
#[must_use]
pub(crate) fn ticks() -> u64 {
    // SAFETY: every x86-64 CPU has RDTSC, and Linux does not forbid it to programs.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Reads the counter.
#[cfg(target_arch = "aarch64")]
#[inline]
#[must_use]
pub(crate) fn ticks() -> u64 {
    let ticks: u64;
    // SAFETY: reads a register that Linux lets programs read (its own vDSO does); changes neither memory nor flags.
    unsafe {
        core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags));
    }
    ticks
}

/// Returns 0: there is no counter here, and [`sound`] reports so.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[must_use]
pub(crate) fn ticks() -> u64 {
    0
}

/// Returns the counter's ticks per second, as the firmware stores them.
#[cfg(target_arch = "aarch64")]
#[must_use]
pub(crate) fn nominal_hz() -> u64 {
    let hz: u64;
    // SAFETY: as for `ticks`.
    unsafe {
        core::arch::asm!("mrs {}, cntfrq_el0", out(reg) hz, options(nomem, nostack, preserves_flags));
    }
    hz
}

/// One reading of both clocks, as close together as possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    /// The counter.
    pub ticks: u64,
    /// `CLOCK_MONOTONIC` [ns].
    pub ns: u64,
}

impl Pair {
    /// Reads both clocks 64 times and returns the pair with the shortest distance between its two counter readings,
    /// so that an interruption between them does not count.
    #[must_use]
    pub(crate) fn read() -> Self {
        let reading = |_| {
            let (before, ns, after) = (ticks(), monotonic_ns(), ticks());
            let width = after.saturating_sub(before);
            (
                width,
                Self {
                    ticks: before + width / 2,
                    ns,
                },
            )
        };
        (0..64)
            .map(reading)
            .min_by_key(|(width, _)| *width)
            .map_or(Self { ticks: 0, ns: 0 }, |(_, pair)| pair)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_source_that_the_kernel_left_is_not_trusted() {
        let Some((_, own)) = NAMES else {
            assert!(trusted("tsc").is_err());
            return;
        };
        assert_eq!(trusted(&format!("{own}\n")), Ok(()));
        let why = trusted("hpet\n").unwrap_err();
        assert!(why.contains("'hpet', not "), "{why}");
        assert!(trusted("").is_err());
    }

    /// Also under QEMU's user mode, where /sys is that of another machine, so `sound` is not asked.
    #[test]
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn the_counter_advances_with_the_kernels_clock() {
        let from = Pair::read();
        while monotonic_ns() < from.ns + 20_000_000 {
            std::hint::spin_loop();
        }
        let to = Pair::read();
        assert!(to.ticks > from.ticks);
        #[cfg(target_arch = "aarch64")]
        {
            let expected = u128::from(to.ns - from.ns) * u128::from(nominal_hz()) / 1_000_000_000;
            let counted = u128::from(to.ticks - from.ticks);
            assert!(
                counted.abs_diff(expected) < expected / 100,
                "{counted} {expected}"
            );
        }
    }
}
