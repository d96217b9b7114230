//! The command line, before anything of it is looked at.

use clap::{Parser, Subcommand};

use crate::image;

/// Run KRM functions and render kpt packages, without a container engine.
#[derive(Debug, Parser)]
#[command(name = "loggia", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Look at function images.
    #[command(subcommand)]
    Image(image::Command),
}
