//! `loggia image`: what a registry says about an image.

use std::process::ExitCode;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the digest, platform and entrypoint of an image as the function runner sees them.
    Inspect(Inspect),
}

#[derive(Args, Debug)]
pub(crate) struct Inspect {
    /// The image, as in a Kptfile.
    pub(crate) image: String,
}

pub(crate) fn run(command: &Command) -> ExitCode {
    let Command::Inspect(_) = command;
    ExitCode::FAILURE
}
