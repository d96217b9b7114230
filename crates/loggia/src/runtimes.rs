//! The runtimes that flags ask for.

use std::path::PathBuf;

use loggia_function::Chain;
use loggia_grpc::Remote;
use loggia_grpc::connection::TlsError;
use loggia_grpc::tls::ClientFiles;
use loggia_runtimes::guard::Guard;
use loggia_runtimes::{Builtin, ExecCommand, SchemaFolders};
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::{RuntimeName, Runtimes};
use crate::failure::Failure;

/// The runtimes in the order they are asked.
pub(crate) fn assemble(flags: &Runtimes, allow_exec: bool) -> Result<Chain, Failure> {
    let mut chain = Chain::default();
    for name in &flags.runtimes {
        match name {
            RuntimeName::Builtin => {
                let guard = Guard::default().no_longer_than(flags.timeout);
                chain.push(Builtin::new(guard).with_schemas(schemas(flags)?));
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

/// One thread is enough: functions of a pipeline run one after another. An interrupt ends what runs, and that is
/// before anything is written.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start: {error}"))?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| error.to_string())?;
        let mut terminate = signal(SignalKind::terminate()).map_err(|error| error.to_string())?;
        tokio::select! {
            biased;
            done = work => Ok(done),
            _ = interrupt.recv() => Err("interrupted; nothing was written".into()),
            _ = terminate.recv() => Err("told to stop; nothing was written".into()),
        }
    })
}
