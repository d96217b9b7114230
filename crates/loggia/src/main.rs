//! `loggia`: KRM functions and kpt packages on the command line.

mod cli;
mod image;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.command {
        Command::Image(command) => image::run(&command),
    }
}
