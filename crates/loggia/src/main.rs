//! `loggia`: KRM functions and kpt packages on the command line.

mod catalog;
mod cli;
mod diff;
mod eval;
mod failure;
mod image;
mod interrupt;
mod memory;
mod output;
mod printer;
mod render;
mod report;
mod runtimes;
mod sink;
mod source;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser as _};

use crate::cli::{Cli, Command, Fn};
use crate::failure::Failure;
use crate::printer::Printer;

/// So that the command can say that it ran out of memory.
#[global_allocator]
static ALLOCATOR: loggia_runtimes::death::Allocator = loggia_runtimes::death::Allocator;

fn main() -> ExitCode {
    if let Some(code) = loggia_runtimes::workers::enter() {
        return code;
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    let Cli { truncate_output: _, stack_trace, command } = cli;
    let ended = match command {
        Command::Fn(Fn::Render(arguments)) => render::run(*arguments),
        Command::Fn(Fn::Eval(arguments)) => eval::run(*arguments),
        Command::Fn(Fn::Source(arguments)) => source::run(&arguments),
        Command::Fn(Fn::Sink(arguments)) => sink::run(&arguments),
        Command::Fn(Fn::List(arguments)) => catalog::list(&arguments),
        Command::Fn(Fn::Doc(arguments)) => catalog::doc(&arguments),
        Command::Image(command) => image::run(&command),
        Command::Completion { shell } => complete(shell),
        Command::Version => output::print(concat!(env!("CARGO_PKG_VERSION"), "\n")),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            Printer::stderr().failure(&failure, stack_trace);
            ExitCode::from(failure.exit_code())
        }
    }
}

/// Help is data; anything else is a mistake of the caller's, told the way kpt does.
fn refuse(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A reader that has had enough is no failure.
            let _ = error.print();
            ExitCode::SUCCESS
        }
        _ => {
            let _ = error.print();
            ExitCode::FAILURE
        }
    }
}

fn complete(shell: clap_complete::Shell) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "loggia", &mut text);
    output::print(&String::from_utf8_lossy(&text))
}
