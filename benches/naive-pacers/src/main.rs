//! The engine's program, with the naive pacers.

#[path = "../../../crates/bw-programs/src/bin/bw-engine.rs"]
mod engine;

fn main() {
    naive_pacers::install();
    engine::main();
}
