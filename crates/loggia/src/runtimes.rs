//! The runtimes that flags ask for.

use std::path::PathBuf;

use loggia_function::Chain;
use loggia_grpc::Remote;
use loggia_grpc::connection::TlsError;
use loggia_grpc::tls::ClientFiles;
use loggia_runtimes::workers::Settings;
use loggia_runtimes::{Builtin, ExecCommand, SchemaFolders, Workers};

use crate::cli::{RuntimeName, Runtimes};
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::memory;

/// The stack of threads that run functions.
pub(crate) const STACK: usize = 64 << 20;

/// The runtimes in the order they are asked. From here on the memory of the command is limited.
pub(crate) fn assemble(flags: &Runtimes, allow_exec: bool) -> Result<Chain, Failure> {
    memory::limit(flags.memory)?;
    let mut chain = Chain::default();
    for name in &flags.runtimes {
        match name {
            RuntimeName::Builtin => {
                chain.push(Builtin::on_threads(workers(flags)?));
            }
            RuntimeName::Exec => chain.push(ExecCommand::new(allow_exec, flags.timeout)),
            RuntimeName::Grpc => {
                if let Some(address) = &flags.runner {
                    chain.push(runner(address, flags)?);
                }
            }
        }
    }
    Ok(chain)
}

/// Workers for functions that execute programs of their users.
fn workers(flags: &Runtimes) -> Result<Workers, Failure> {
    let settings = Settings::one_by_one();
    let memory = flags.memory.map_or(settings.memory, |mib| settings.memory.min(mib.saturating_mul(1 << 20)));
    let schemas = schemas(flags)?;
    Ok(Workers::new(Settings { timeout: flags.timeout, memory, schemas, ..settings }))
}

fn schemas(flags: &Runtimes) -> Result<SchemaFolders, String> {
    // A variable that is empty is as good as none.
    let folders = flags.schema_folders.iter().filter(|folder| !folder.is_empty()).map(PathBuf::from);
    SchemaFolders::new(folders).map_err(|error| {
        let reason = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        format!("--schema-folder: {error}: {reason}")
    })
}

fn runner(address: &str, flags: &Runtimes) -> Result<Remote, String> {
    let (limit, timeout) = (flags.max_message_size, Some(flags.timeout));
    let Some(ca) = flags.runner_ca.clone() else {
        return Remote::new(address, limit, timeout).map_err(|error| format!("--runner: {error}"));
    };
    let identity = flags.runner_cert.clone().zip(flags.runner_key.clone());
    Remote::over_tls(address, &ClientFiles { ca, identity }, limit, timeout).map_err(|error| match error {
        TlsError::Address(error) => format!("--runner: {error}"),
        TlsError::Files(error) => format!("--runner-ca, --runner-cert, --runner-key: {error}"),
    })
}

/// Runs to the end, or until a signal ends it. One thread is enough: functions of a pipeline run one after another.
/// Nothing is written before this returns.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .thread_stack_size(STACK)
        .build()
        .map_err(|error| format!("cannot start: {error}"))?;
    let interrupts = Interrupts::listen().map_err(|error| format!("cannot listen to signals: {error}"))?;
    let done = runtime.block_on(interrupts.or(work));
    // A function that was given up may still run, and ends with the process.
    runtime.shutdown_background();
    done
}
