//! How a process ended, in Go's words.

use std::fmt;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

/// Prints an exit status as Go's `os.ProcessState` does: `exit status 3`, `signal: killed`.
#[derive(Clone, Copy, Debug)]
pub struct Exit(pub ExitStatus);

// === impl Exit ===

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.code(), self.0.signal()) {
            (Some(code), _) => write!(f, "exit status {code}"),
            (None, Some(signal)) => {
                match signal_name(signal) {
                    Some(name) => write!(f, "signal: {name}")?,
                    None => write!(f, "signal: signal {signal}")?,
                }
                if self.0.core_dumped() { f.write_str(" (core dumped)") } else { Ok(()) }
            }
            (None, None) => write!(f, "{}", self.0),
        }
    }
}

/// The signals that end a process, as Go names them: the table of `syscall/zerrors_linux_amd64.go`.
fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "hangup",
        2 => "interrupt",
        3 => "quit",
        4 => "illegal instruction",
        5 => "trace/breakpoint trap",
        6 => "aborted",
        7 => "bus error",
        8 => "floating point exception",
        9 => "killed",
        10 => "user defined signal 1",
        11 => "segmentation fault",
        12 => "user defined signal 2",
        13 => "broken pipe",
        14 => "alarm clock",
        15 => "terminated",
        16 => "stack fault",
        24 => "CPU time limit exceeded",
        25 => "file size limit exceeded",
        26 => "virtual timer expired",
        27 => "profiling timer expired",
        29 => "I/O possible",
        30 => "power failure",
        31 => "bad system call",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exits_are_printed_in_gos_words() {
        let text = |raw| Exit(ExitStatus::from_raw(raw)).to_string();
        assert_eq!(text(3 << 8), "exit status 3");
        assert_eq!(text(9), "signal: killed");
        assert_eq!(text(11 | 0x80), "signal: segmentation fault (core dumped)");
        assert_eq!(text(40), "signal: signal 40");
    }
}
