//! How much memory a command may use.
//!
//! A package must not be able to take the machine. The limit is the kernel's, so it costs nothing; a command that
//! reaches it says so and ends.

use loggia_process::memory::Limit;
use loggia_runtimes::death::{Sentences, explain_yourself};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::failure::Failure;
use crate::runtimes;

/// The least that makes sense.
const LEAST: u64 = 64;

/// Limits the memory of this process, in MiB; to three quarters of what there is if no number is given. A limit that
/// is lower already stays.
pub(crate) fn limit(mib: Option<u64>) -> Result<(), Failure> {
    if mib.is_some_and(|mib| mib < LEAST) {
        return Err(format!("--memory: must be at least {LEAST}").into());
    }
    let Some(mib) = mib.or_else(default) else { return Ok(()) };
    // The stack of the thread that runs functions counts in full, though hardly any of it is used.
    let wanted = mib.saturating_mul(1 << 20).saturating_add(runtimes::STACK as u64);
    let Rlimit { current, maximum } = getrlimit(Resource::Data);
    let limit = [current, maximum].into_iter().flatten().fold(wanted, u64::min);
    explain_yourself(Sentences {
        memory: format!(
            "error: more than {} MiB of memory were needed, and the command was stopped; --memory allows more\n",
            limit.saturating_sub(runtimes::STACK as u64) >> 20
        ),
        stack: "error: the package is nested too deeply, and the command was stopped\n".to_owned(),
    });
    setrlimit(Resource::Data, Rlimit { current: Some(limit), maximum })
        .map_err(|error| format!("--memory: {error}").into())
}

/// Three quarters of the memory that there is: the machine's, or that of a container.
fn default() -> Option<u64> {
    let (Limit::Cgroup(bytes) | Limit::Machine(bytes)) = loggia_process::memory::limit()?;
    Some(((bytes / 4 * 3) >> 20).max(LEAST))
}
