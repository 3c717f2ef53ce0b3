#!/usr/bin/env bash
# Check the unsafe and lock-free code by machines: loom (every order of the lock-free parts), miri (undefined behaviour in the
# pure crates, in the pointers of bw-process, and in the memory that a ring shares with the kernel), ThreadSanitizer (data races in the engine's own tests). Also runs the tests
# of the clock as an AArch64 program under QEMU's user mode.
# What cannot run here is printed with its reason.
#
# Usage: soundness.sh            exit status 0 if everything that could run passed
# Reads: BW_NIGHTLY              the nightly toolchain (default nightly)
set -uo pipefail
cd "$(dirname "$0")/.." || exit
nightly=${BW_NIGHTLY:-nightly}
summary=()
failed=0

say() { echo "soundness: $*" >&2; }

# check NAME COMMAND...: run a check and note how it ended.
check() {
    local name=$1
    shift
    say "$name"
    if "$@"; then
        summary+=("passed   $name")
    else
        summary+=("FAILED   $name")
        failed=1
    fi
}

skip() { summary+=("skipped  $1: $2"); }

has_nightly() { cargo "+$nightly" --version >/dev/null 2>&1; }

component_hint() { echo "rustup component add --toolchain $nightly $1"; }

if cargo fetch -q --manifest-path soundness/loom/Cargo.toml; then
    check "loom: hand-over of slots, sequence lock" env RUSTFLAGS="--cfg loom" \
        cargo test -q --release --manifest-path soundness/loom/Cargo.toml --target-dir "${CARGO_TARGET_DIR:-target}/loom"
else
    skip "loom: hand-over of slots, sequence lock" "the crate loom cannot be fetched"
fi
skip "loom: messages between workers (channels.rs)" "its rings are those of the crate rtrb, which does not use the atomics of loom"
skip "loom: barrier of the launcher (barrier.rs)" "its words are in memory that processes share, which loom does not have"

# The counter of AArch64 is read by its own instructions.
if ! command -v aarch64-linux-gnu-gcc >/dev/null; then
    skip "AArch64 under QEMU: the clock" "apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
elif ! [ -d "$(rustc --print sysroot)/lib/rustlib/aarch64-unknown-linux-gnu" ]; then
    skip "AArch64 under QEMU: the clock" "rustup target add aarch64-unknown-linux-gnu"
elif ! system=$(scripts/aarch64.sh); then
    skip "AArch64 under QEMU: the clock" "scripts/aarch64.sh failed"
else
    check "AArch64 under QEMU: the clock" env CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
        CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="$system/qemu -L $system/root" \
        cargo test -q -p bw-load --lib --target aarch64-unknown-linux-gnu -- clock
fi

pure=(bw-model bw-schedule bw-record bw-nfs)
if ! has_nightly; then
    skip "miri: ${pure[*]}, bw-process, bw-load" "there is no toolchain $nightly"
    skip "ThreadSanitizer: bw-load" "there is no toolchain $nightly"
else
    sysroot=$(rustc "+$nightly" --print sysroot)
    if ! cargo "+$nightly" miri --version >/dev/null 2>&1; then
        skip "miri: ${pure[*]}, bw-process, bw-load" "the component miri is missing: $(component_hint "miri rust-src")"
    else
        # Properties are tried a few times only: miri is some hundred times slower.
        export PROPTEST_CASES=4 PROPTEST_FAILURE_PERSISTENCE=off MIRIFLAGS="-Zmiri-disable-isolation"
        for crate in "${pure[@]}"; do
            check "miri: $crate" cargo "+$nightly" miri test -q -p "$crate" --lib
        done
        check "miri: pointers of bw-process" cargo "+$nightly" miri test -q -p bw-process --lib -- pointers_of
        check "miri: slots of file sets with a fake kernel" \
            cargo "+$nightly" miri test -q -p bw-load --lib -- file_set::slots
    fi
    if [ -d "$sysroot/lib/rustlib/src/rust/library" ]; then
        host=$(rustc "+$nightly" -vV | sed -n 's/^host: //p')
        check "ThreadSanitizer: bw-load" env RUSTFLAGS=-Zsanitizer=thread \
            cargo "+$nightly" test -q -p bw-load -Zbuild-std --target "$host" --target-dir "${CARGO_TARGET_DIR:-target}/tsan" \
            --lib --test workers --test file_data --test tcp
    else
        skip "ThreadSanitizer: bw-load" \
            "it needs the standard library's source: $(component_hint rust-src)"
    fi
fi
printf '%s\n' "${summary[@]}"
exit "$failed"
