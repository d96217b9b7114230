//! The original, as a program to ask.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::question::Answer;

/// A running oracle. It ends with its standard input.
pub(crate) struct Oracle {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Oracle {
    /// The oracle, or none with a line that says so.
    pub(crate) fn start() -> Option<Self> {
        let cache = std::env::var_os("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))
            .unwrap_or_default();
        let program = std::env::var_os("LOGGIA_KRM_ORACLE")
            .map_or_else(|| cache.join("loggia-e2e/oracle/krm-oracle"), PathBuf::from);
        let Ok(mut child) = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() else {
            eprintln!(
                "skipped: no oracle (`make -C e2e/oracle/krm build` builds it); recorded answers are compared"
            );
            return None;
        };
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("stdout is piped"));
        Some(Self { child, input, output })
    }

    pub(crate) fn ask(&mut self, mode: &str, texts: &[&[u8]]) -> Answer {
        let mut frame = mode.as_bytes().to_vec();
        for text in texts {
            frame.extend(format!(" {}", text.len()).bytes());
        }
        frame.push(b'\n');
        texts.iter().for_each(|text| frame.extend_from_slice(text));
        let input = self.input.as_mut().expect("stdin is open until drop");
        input.write_all(&frame).and_then(|()| input.flush()).expect("the oracle reads its requests");

        let mut header = String::new();
        self.output.read_line(&mut header).expect("the oracle answers");
        let (verdict, length) = header.trim_end().split_once(' ').expect("an answer is `verdict length`");
        let mut body = vec![0; length.parse().expect("a length is a number")];
        self.output.read_exact(&mut body).expect("the oracle answers in full");
        let body = String::from_utf8_lossy(&body).into_owned();
        match verdict {
            "ok" => Answer::Text(body),
            "error" => Answer::Error(body),
            "panic" => Answer::Panic(body),
            _ => panic!("the oracle refused `{mode}`: {body}"),
        }
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        self.input.take();
        let _ = self.child.wait();
    }
}
