//! An oracle as a process: a frame with a question goes in, a frame with the answer comes out.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// What the original made of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Text(Vec<u8>),
    Error(String),
    /// It panicked; nothing to hold anyone against.
    Panic(String),
}

/// A running oracle. It ends with its standard input.
#[derive(Debug)]
pub struct Oracle {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

/// Where the tests' set-up keeps what is not part of the repository: the recipes name the folder in `LOGGIA_CACHE`.
pub fn cache() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache");
    let shared = || std::env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from).join("loggia-e2e");
    std::env::var_os("LOGGIA_CACHE").map_or_else(shared, PathBuf::from)
}

impl Oracle {
    /// The program of this name in the cache, or the one that the variable names; none, with a line that says so, if
    /// it is not built in its folder.
    pub fn launch(variable: &str, program: &str, folder: &str) -> Option<Self> {
        let program =
            std::env::var_os(variable).map_or_else(|| cache().join("oracle").join(program), PathBuf::from);
        let spawned = Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let Ok(mut child) = spawned else {
            let what =
                format!("no oracle (`make -C {folder} build` builds it); only recorded answers are compared");
            crate::missing("oracle", &what);
            return None;
        };
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("stdout is piped"));
        Some(Self { child, input, output })
    }

    /// Asks one question: a mode with its arguments (`nodes:wide`) about some texts.
    pub fn ask(&mut self, mode: &str, texts: &[&[u8]]) -> Answer {
        let input = self.input.as_mut().expect("stdin is open until drop");
        let mut frame = mode.as_bytes().to_vec();
        for text in texts {
            frame.extend(format!(" {}", text.len()).bytes());
        }
        frame.push(b'\n');
        for text in texts {
            frame.extend_from_slice(text);
        }
        input.write_all(&frame).and_then(|()| input.flush()).expect("the oracle reads its requests");
        self.answer(mode)
    }

    fn answer(&mut self, mode: &str) -> Answer {
        let mut header = String::new();
        self.output.read_line(&mut header).expect("the oracle answers");
        let (verdict, length) = header.trim_end().split_once(' ').expect("an answer is `verdict length`");
        let mut body = vec![0; length.parse().expect("a length is a number")];
        self.output.read_exact(&mut body).expect("the oracle answers in full");
        match verdict {
            "ok" => Answer::Text(body),
            "error" => Answer::Error(String::from_utf8_lossy(&body).into_owned()),
            "panic" => Answer::Panic(String::from_utf8_lossy(&body).into_owned()),
            _ => panic!("the oracle refused `{mode}`: {}", String::from_utf8_lossy(&body)),
        }
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        self.input.take();
        let _ = self.child.wait();
    }
}
