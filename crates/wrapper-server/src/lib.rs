//! wrapper-server: the program that an image for function pods consists of.
//!
//! Called by its own name it serves the function whose command line stands behind `--`. Called as
//! `grpc-health-probe` or `cp` it does what pod templates in use expect of these two, so that one file is
//! the whole image.

use std::path::Path;
use std::process::ExitCode;

mod copy;
mod entrypoint;
mod probe;
mod serve;
mod tls;

/// The program, whatever it is called.
pub fn main() -> ExitCode {
    loggia_grpc::memory::give_back_promptly();
    let mut arguments = std::env::args_os();
    let called = arguments.next().unwrap_or_default();
    let arguments: Vec<_> = arguments.collect();
    match Path::new(&called).file_name().and_then(|name| name.to_str()) {
        Some("cp") => copy::main(arguments),
        Some("grpc-health-probe" | "grpc_health_probe") => probe::main(arguments),
        _ => serve::main(arguments),
    }
}

/// The one place that writes to the terminal other than by the log.
#[allow(clippy::print_stderr)]
fn say(line: &str) {
    eprintln!("{}", loggia_go::printable(line));
}
