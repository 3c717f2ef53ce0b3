//! `bw-engine`: see docs/engine-protocol.md.

fn main() {
    eprintln!("bw-engine: no request is understood yet");
    std::process::exit(2);
}
