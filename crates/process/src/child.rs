//! One child: its start, the talk over its pipes, its end.

use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::unix::pipe;
use tokio::time::timeout;

#[cfg(feature = "confine")]
use crate::confine::{OverLimit, Warden};
use crate::{Captured, Command, Environment, Error, Finished, Occupied, orphans};

/// How long a pipe may stay open after the leader's exit: until the rest of its group has written what
/// it had to, or until what left the group is given up.
const PIPE_GRACE: Duration = Duration::from_secs(1);

/// How long a child may do without a listener: a quick one is over by then.
const QUICK: Duration = Duration::from_millis(5);

/// How much is read at a time.
const CHUNK: usize = 64 * 1024;

/// A started child, talking with this process.
#[derive(Debug)]
pub(crate) struct Child {
    leader: Leader,
    stdin: Option<OwnedFd>,
    stdout: OwnedFd,
    stderr: OwnedFd,
    #[cfg(feature = "confine")]
    warden: Option<Warden>,
}

/// What goes in and what has come out so far.
#[derive(Debug)]
pub(crate) struct Conversation {
    input: Bytes,
    stdout_limit: usize,
    stdout: Vec<u8>,
    stderr: Captured,
}

/// How a conversation fails.
#[derive(Debug)]
pub(crate) enum Broken {
    TooMuchOutput,
    Pipes(io::Error),
}

/// Why a child that exited has no exit status to show.
#[derive(Debug)]
pub(crate) enum Ended {
    Lost(io::Error),
    /// It was stopped.
    #[cfg(feature = "confine")]
    OverLimit(OverLimit),
}

/// The leader of a process group. Dropped before its reaping it is killed with its group, and reaped.
#[derive(Debug)]
pub(crate) struct Leader {
    pid: Pid,
    reaped: bool,
}

// === impl Leader ===

impl Leader {
    /// A process that was entered as owned, and leads a group.
    pub(crate) fn of(pid: Pid) -> Self {
        Self { pid, reaped: false }
    }

    #[cfg(feature = "confine")]
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    fn signal_group(&self, signal: Signal) {
        // It fails if the group is empty, which is the aim.
        let _ = rustix::process::kill_process_group(self.pid, signal);
    }

    /// Whether the leader has exited; it stays to be reaped.
    fn has_exited(&self) -> io::Result<bool> {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        Ok(rustix::process::waitid(WaitId::Pid(self.pid), look)?.is_some())
    }

    /// Returns once the leader has exited.
    async fn exited(&self) -> io::Result<()> {
        if self.has_exited()? {
            return Ok(());
        }
        let pidfd = watch(rustix::process::pidfd_open(self.pid, PidfdFlags::NONBLOCK)?)?;
        loop {
            let mut ready = pidfd.readable().await?;
            if self.has_exited()? {
                return Ok(());
            }
            ready.clear_ready();
        }
    }

    /// Waits for the exit and for the end of the pipes, which others may hold open.
    async fn outlasted_by(&self, pipes: impl Future<Output = Result<(), Broken>>) -> Result<(), Broken> {
        let mut pipes = pin!(pipes);
        tokio::select! {
            biased;
            ended = pipes.as_mut() => {
                ended?;
                self.exited().await.map_err(Broken::Pipes)
            }
            exited = self.exited() => {
                exited.map_err(Broken::Pipes)?;
                // What the leader wrote is in the pipes; other processes that hold them open get a moment.
                if let Ok(ended) = timeout(PIPE_GRACE, pipes.as_mut()).await {
                    return ended;
                }
                self.signal_group(Signal::KILL);
                timeout(PIPE_GRACE / 4, pipes).await.unwrap_or(Ok(()))
            }
        }
    }

    /// Kills what is left of the group and reaps the leader.
    fn reap(&mut self) -> io::Result<ExitStatus> {
        // Until the leader is reaped its number cannot be given to another group.
        self.signal_group(Signal::KILL);
        let status = loop {
            match rustix::process::waitpid(Some(self.pid), WaitOptions::empty()) {
                Err(Errno::INTR) => {}
                ended => break ended,
            }
        };
        self.reaped = true;
        orphans::reaped(&self.pid);
        let (_, status) = status?.ok_or_else(|| io::Error::other("the child has not ended"))?;
        Ok(ExitStatus::from_raw(status.as_raw()))
    }
}

#[allow(unsafe_code)]
fn watch(pidfd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` names the same open descriptor from its making to its drop, and nothing takes
    // it out of the `AsyncFd`.
    Ok(unsafe { AsyncFd::register_with_interest(pidfd, Interest::READABLE) }?)
}

impl Drop for Leader {
    fn drop(&mut self) {
        if !self.reaped {
            let _ = self.reap();
        }
    }
}

// === impl Child ===

impl Child {
    /// Starts a command in a group of its own.
    pub(crate) fn start(command: &Command) -> Result<Self, Error> {
        let mut builder = std::process::Command::new(&command.program);
        builder
            .args(&command.arguments)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Environment::Only(variables) = &command.environment {
            builder.env_clear().envs(variables.iter().map(|(name, value)| (name, value)));
        }
        let mut process = orphans::while_starting(|| builder.spawn())
            .map_err(|source| Error::NotStarted { program: command.program.clone(), source })?;
        let leader = Leader::of(Pid::from_child(&process));
        let [stdin, stdout, stderr] = pipes(&mut process).map_err(Error::Pipes)?;
        Ok(Self {
            leader,
            stdin: Some(stdin),
            stdout,
            stderr,
            #[cfg(feature = "confine")]
            warden: None,
        })
    }

    /// A child that is confined, and the thread that watches over it.
    #[cfg(feature = "confine")]
    pub(crate) fn confined(leader: Leader, pipes: [OwnedFd; 3], warden: Warden) -> Self {
        let [stdin, stdout, stderr] = pipes;
        Self { leader, stdin: Some(stdin), stdout, stderr, warden: Some(warden) }
    }

    /// Feeds the child and listens to it until it has exited and its output has ended.
    ///
    /// All pipes move at once, so it does not matter in which order the child reads and writes, or
    /// whether it reads at all. But a quick child whose input and output fit into the pipes needs no reader
    /// at their other ends while it runs: it is woken less, and so are we.
    pub(crate) async fn converse(&mut self, conversation: &mut Conversation) -> Result<(), Broken> {
        let Self { leader, stdin, stdout, stderr, .. } = self;
        let Conversation { input, stdout_limit, stdout: out, stderr: err } = conversation;
        let limit = *stdout_limit;
        let unsent = send(stdin.take(), input).map_err(Broken::Pipes)?;
        if unsent.is_none()
            && let Ok(exited) = timeout(QUICK, leader.exited()).await
        {
            exited.map_err(Broken::Pipes)?;
            let (heard, overheard) = (gather(stdout, out, limit)?, drain(stderr, err)?);
            if heard && overheard {
                return Ok(());
            }
        }
        let pipes = async {
            tokio::try_join!(feed(unsent), listen(stdout, out, limit), overhear(stderr, err)).map(drop)
        };
        leader.outlasted_by(pipes).await
    }

    /// Takes the exit status of the leader, which must have exited; what is left of its group and of its call dies,
    /// and gives back what it took up.
    pub(crate) fn reap(mut self, occupied: Option<Occupied>) -> Result<ExitStatus, Ended> {
        let status = self.leader.reap();
        #[cfg(feature = "confine")]
        if let Some(warden) = self.warden.take() {
            warden.clean_up(occupied).map_err(Ended::OverLimit)?;
            return status.map_err(Ended::Lost);
        }
        drop(occupied);
        status.map_err(Ended::Lost)
    }

    /// Asks the whole group to end, and kills it after a while.
    pub(crate) async fn terminate(self, grace: Duration, occupied: Option<Occupied>) {
        self.leader.signal_group(Signal::TERM);
        let _ = timeout(grace, self.leader.exited()).await;
        self.leader.signal_group(Signal::KILL);
        let _ = self.leader.exited().await;
        let _ = self.reap(occupied);
    }
}

/// This side of a child's pipes, which do not block.
fn pipes(process: &mut std::process::Child) -> io::Result<[OwnedFd; 3]> {
    let missing = || io::Error::other("a pipe is missing");
    let pipes = [
        OwnedFd::from(process.stdin.take().ok_or_else(missing)?),
        OwnedFd::from(process.stdout.take().ok_or_else(missing)?),
        OwnedFd::from(process.stderr.take().ok_or_else(missing)?),
    ];
    for pipe in &pipes {
        rustix::io::ioctl_fionbio(pipe, true)?;
    }
    Ok(pipes)
}

/// Writes what fits into the pipe, and gives back the rest with the pipe if there is any.
fn send(stdin: Option<OwnedFd>, input: &[u8]) -> io::Result<Option<(OwnedFd, &[u8])>> {
    let Some(stdin) = stdin else { return Ok(None) };
    match rustix::io::write(&stdin, input) {
        Ok(written) if written == input.len() => Ok(None),
        Ok(written) => Ok(Some((stdin, &input[written..]))),
        Err(Errno::AGAIN | Errno::INTR) => Ok(Some((stdin, input))),
        // A function need not read its input.
        Err(Errno::PIPE) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

async fn feed(unsent: Option<(OwnedFd, &[u8])>) -> Result<(), Broken> {
    let Some((stdin, input)) = unsent else { return Ok(()) };
    let mut stdin = pipe::Sender::from_owned_fd_unchecked(stdin).map_err(Broken::Pipes)?;
    match stdin.write_all(input).await {
        // A function need not read all of its input.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Broken::Pipes(error)),
        _ => Ok(()),
    }
}

/// Takes what is there on standard output now, and tells whether that was the end of it.
fn gather(stdout: &OwnedFd, output: &mut Vec<u8>, limit: usize) -> Result<bool, Broken> {
    loop {
        make_room(output);
        match rustix::io::read(stdout, rustix::buffer::spare_capacity(output)) {
            Ok(0) => return Ok(true),
            Ok(_) if output.len() > limit => return Err(Broken::TooMuchOutput),
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(false),
            Err(error) => return Err(Broken::Pipes(error.into())),
        }
    }
}

async fn listen(stdout: &OwnedFd, output: &mut Vec<u8>, limit: usize) -> Result<(), Broken> {
    let mut stdout = receiver(stdout)?;
    loop {
        make_room(output);
        if stdout.read_buf(output).await.map_err(Broken::Pipes)? == 0 {
            return Ok(());
        }
        if output.len() > limit {
            return Err(Broken::TooMuchOutput);
        }
    }
}

fn make_room(output: &mut Vec<u8>) {
    if output.capacity() == output.len() {
        output.reserve(CHUNK.max(output.len()));
    }
}

/// Takes what is there on standard error now, and tells whether that was the end of it.
fn drain(stderr: &OwnedFd, captured: &mut Captured) -> Result<bool, Broken> {
    let mut chunk = [0; 4096];
    // No more than a pipe holds: another process may go on writing forever.
    for _ in 0..CHUNK / chunk.len() {
        match rustix::io::read(stderr, &mut chunk) {
            Ok(0) => return Ok(true),
            Ok(count) => captured.push(&chunk[..count]),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => break,
            Err(error) => return Err(Broken::Pipes(error.into())),
        }
    }
    Ok(false)
}

async fn overhear(stderr: &OwnedFd, captured: &mut Captured) -> Result<(), Broken> {
    let mut stderr = receiver(stderr)?;
    let mut chunk = BytesMut::with_capacity(CHUNK / 4);
    loop {
        chunk.clear();
        if stderr.read_buf(&mut chunk).await.map_err(Broken::Pipes)? == 0 {
            return Ok(());
        }
        captured.push(&chunk);
    }
}

fn receiver(pipe: &OwnedFd) -> Result<pipe::Receiver, Broken> {
    pipe.try_clone().and_then(pipe::Receiver::from_owned_fd_unchecked).map_err(Broken::Pipes)
}

// === impl Conversation ===

impl Conversation {
    pub(crate) fn new(input: Bytes, stdout_limit: usize, stderr_limit: usize) -> Self {
        // Most functions give back about what they got.
        let expected = (input.len() + input.len() / 8 + 4096).min(stdout_limit.saturating_add(1));
        let stdout = Vec::with_capacity(expected);
        Self { input, stdout_limit, stdout, stderr: Captured::new(stderr_limit) }
    }

    pub(crate) fn finish(self, status: ExitStatus) -> Finished {
        Finished { status, stdout: self.stdout.into(), stderr: self.stderr }
    }
}

// === impl Broken ===

impl Broken {
    pub(crate) fn explain(self, conversation: Conversation) -> Error {
        match self {
            Self::TooMuchOutput => {
                Error::TooMuchOutput { limit: conversation.stdout_limit, stderr: conversation.stderr }
            }
            Self::Pipes(error) => Error::Pipes(error),
        }
    }
}

// === impl Ended ===

impl Ended {
    #[cfg_attr(not(feature = "confine"), allow(unused_variables, clippy::needless_pass_by_value))]
    pub(crate) fn explain(self, conversation: Conversation) -> Error {
        match self {
            Self::Lost(error) => Error::Pipes(error),
            #[cfg(feature = "confine")]
            Self::OverLimit(limit) => Error::OverLimit { limit, stderr: conversation.stderr },
        }
    }
}
