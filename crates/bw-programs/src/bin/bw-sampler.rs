//! `bw-sampler`: see docs/watch-format.md.

use bw_watch::arguments::{SamplerCommand, USAGE, parse};
use bw_watch::reduce::reduce;
use bw_watch::serve::serve;
use std::io::{BufWriter, stdin, stdout};

fn main() {
    let status = match parse(std::env::args_os().skip(1)) {
        Ok(SamplerCommand::Help) => say(USAGE),
        Ok(SamplerCommand::Version) => say(concat!("bw-sampler ", env!("CARGO_PKG_VERSION"), "\n")),
        Ok(SamplerCommand::Serve(roots)) => {
            serve(&roots).map_or_else(|e| fail(1, &e.to_string()), |()| 0)
        }
        Ok(SamplerCommand::Reduce(file)) => {
            let output = BufWriter::new(stdout().lock());
            reduce(&file, stdin().lock(), output).map_or_else(|e| fail(1, &e.to_string()), |()| 0)
        }
        Err(message) => fail(2, &format!("{message}\n{USAGE}")),
    };
    std::process::exit(status);
}

fn say(text: &str) -> i32 {
    print!("{text}");
    0
}

fn fail(status: i32, message: &str) -> i32 {
    eprintln!("bw-sampler: {message}");
    status
}
