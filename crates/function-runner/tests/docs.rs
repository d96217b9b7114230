//! The commands in the README and the docs do what they say.
//!
//! Blocks marked `console` are run command by command, those marked `sh` as a whole, each file in a folder of its own
//! with the examples in it. A server that a command starts stays until the end of its file; one function-runner is
//! there from the beginning. Output that a file shows is the whole output, in its order: `...` stands for any lines,
//! times and blank lines do not count, and a command may be shown without any output.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, reason = "a test may")]

use std::collections::VecDeque;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use loggia_testing::{missing, wait_for};

/// A command of a document.
#[derive(Debug)]
struct Step {
    line: usize,
    script: String,
    /// Lines that it must print.
    output: Vec<String>,
}

/// What is there for the commands of one document.
struct Stage {
    folder: tempfile::TempDir,
    path: std::ffi::OsString,
    /// The port in the text, and the one that is free.
    ports: Vec<(&'static str, u16)>,
    servers: Vec<Child>,
}

#[test]
fn every_command_in_the_docs_works() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let programs = Path::new(env!("CARGO_BIN_EXE_function-runner")).parent().unwrap();
    if !["loggia", "loggia-image", "wrapper-server"].iter().all(|name| programs.join(name).is_file()) {
        return missing("tools", "the other programs are not built; cargo test --workspace builds them");
    }
    let mut documents = vec![root.join("README.md")];
    documents.extend(fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path()));
    documents.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    documents.sort();
    let (mut ran, mut wrong) = (0, Vec::new());
    for document in documents {
        let steps = steps(&fs::read_to_string(&document).unwrap());
        if steps.is_empty() {
            continue;
        }
        let name = document.strip_prefix(&root).unwrap().display().to_string();
        let mut stage = Stage::set(&root, programs);
        for step in steps {
            ran += 1;
            if let Err(text) = stage.play(&root, &step) {
                wrong.push(format!("{name}:{}: {text}\n  {}", step.line, step.script.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(ran > 10, "only {ran} commands were found");
}

/// The commands of a document.
fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut lines: VecDeque<(usize, &str)> = text.lines().enumerate().collect();
    while let Some((_, fence)) = lines.pop_front() {
        let kind = match fence {
            "```sh" => "sh",
            "```console" => "console",
            _ if fence.starts_with("```") => "other",
            _ => continue,
        };
        let mut block = Vec::new();
        while let Some((number, line)) = lines.pop_front().filter(|(_, line)| *line != "```") {
            block.push((number + 1, line));
        }
        match kind {
            "sh" => {
                let script = block.iter().map(|(_, line)| format!("{line}\n")).collect();
                steps.push(Step { line: block[0].0, script, output: Vec::new() });
            }
            "console" => steps.extend(commands(&block)),
            _ => {}
        }
    }
    steps
}

fn commands(block: &[(usize, &str)]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut goes_on = false;
    for (number, line) in block {
        if goes_on {
            let step = steps.last_mut().unwrap();
            step.script.push_str(line);
            step.script.push('\n');
        } else if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step { line: *number, script: format!("{command}\n"), output: Vec::new() });
        } else if let Some(step) = steps.last_mut() {
            step.output.push((*line).to_owned());
            continue;
        }
        goes_on = line.ends_with('\\');
    }
    steps
}

// === impl Stage ===

impl Stage {
    fn set(root: &Path, programs: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        copy(&root.join("examples"), &folder.path().join("examples"));
        // What a release build would have put there.
        let release = folder.path().join("target/release");
        fs::create_dir_all(&release).unwrap();
        for program in ["loggia", "function-runner"] {
            std::os::unix::fs::symlink(programs.join(program), release.join(program)).unwrap();
        }
        let tools = std::env::var_os("LOGGIA_TOOLS").map(PathBuf::from).unwrap_or_default();
        let others = std::env::var_os("PATH").unwrap_or_default();
        let folders = [programs.to_owned(), tools].into_iter().chain(std::env::split_paths(&others));
        let path = std::env::join_paths(folders).unwrap();
        let ports = ["9445", "9446", "9464"].map(|port| (port, free_port()));
        let mut stage = Self { folder, path, ports: ports.into(), servers: Vec::new() };
        stage.serve("function-runner --port 9445 --disable-runtimes exec,pod");
        stage
    }

    fn play(&mut self, root: &Path, step: &Step) -> Result<(), String> {
        let first = step.script.split_whitespace().next().unwrap_or_default();
        match first {
            // Their own recipes run them; that the names are right is enough.
            "make" => {
                let mut command = Command::new("make");
                command.args(["--dry-run", "--silent"]).args(step.script.split_whitespace().skip(1));
                return outcome(command.current_dir(root)).map(drop);
            }
            "cargo" => {
                let words: Vec<_> = step.script.split_whitespace().collect();
                let package = words.iter().position(|word| *word == "-p").and_then(|at| words.get(at + 1));
                let folder =
                    package.map(|package| root.join("crates").join(package.trim_start_matches("loggia-")));
                return match folder {
                    Some(folder) if !folder.exists() => Err(format!("{} is not there", folder.display())),
                    _ => Ok(()),
                };
            }
            "grpcurl" if !self.has("grpcurl") => {
                missing("tools", &format!("{} (grpcurl is not installed)", step.script.trim()));
                return Ok(());
            }
            "function-runner" | "wrapper-server" => {
                self.serve(step.script.trim());
                return Ok(());
            }
            _ => {}
        }
        let mut command = Command::new("bash");
        command.args(["-euo", "pipefail", "-c", &self.with_ports(&step.script)]);
        command.current_dir(self.folder.path()).env("PATH", &self.path).env("NO_COLOR", "1");
        if step.script.contains("example.com/") {
            // Such a host is not there, and it must be that which is said.
            return match outcome(&mut command) {
                Err(text) if text.contains("example.com") && !text.contains("--help") => Ok(()),
                other => Err(format!("was to fail because of its host: {other:?}")),
            };
        }
        let printed = outcome(&mut command)?;
        let compared = |lines: &mut dyn Iterator<Item = &str>| -> Vec<String> {
            lines.map(without_time).filter(|line| !line.is_empty()).collect()
        };
        let shown = compared(&mut step.output.iter().map(String::as_str));
        let printed = compared(&mut printed.lines());
        if shown.is_empty() || is_shown(&shown, &printed) {
            return Ok(());
        }
        Err(format!("prints\n{}\n  and is shown with\n{}", printed.join("\n"), shown.join("\n")))
    }

    /// Starts a server, in place of one that a document started before on the same port.
    fn serve(&mut self, line: &str) {
        let given = ["9446", "9464"].into_iter().find(|port| line.contains(port));
        let port = given.unwrap_or("9445");
        let mut line = line.to_owned();
        if !line.contains("--port") {
            line = line.replacen("function-runner", "function-runner --port 9445", 1);
        }
        if port == "9445"
            && let Some(mut old) = self.servers.pop()
        {
            old.kill().unwrap();
            old.wait().unwrap();
        }
        let line = format!("exec {}", self.with_ports(&line));
        let mut command = Command::new("bash");
        command.args(["-c", &line]).current_dir(self.folder.path()).env("PATH", &self.path);
        let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        self.servers.push(child);
        let free = self.ports.iter().find(|(text, _)| *text == port).unwrap().1;
        wait_for(|| TcpStream::connect(("127.0.0.1", free)).ok(), || format!("{line} does not listen"));
    }

    fn with_ports(&self, script: &str) -> String {
        let each = |script: String, (text, port): &(&str, u16)| script.replace(text, &port.to_string());
        self.ports.iter().fold(script.to_owned(), each)
    }

    fn has(&self, program: &str) -> bool {
        std::env::split_paths(&self.path).any(|folder| folder.join(program).is_file())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for server in &mut self.servers {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

/// All that a command printed, or why it failed.
fn outcome(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    if output.status.success() { Ok(said) } else { Err(format!("{}: {said}", output.status)) }
}

/// Whether what a document shows is what was printed, where `...` stands for any lines.
fn is_shown(shown: &[String], printed: &[String]) -> bool {
    match shown.iter().position(|line| line == "...") {
        None => shown == printed,
        Some(gap) => {
            let Some(rest) = printed.strip_prefix(&shown[..gap]) else { return false };
            (0..=rest.len()).any(|skipped| is_shown(&shown[gap + 1..], &rest[skipped..]))
        }
    }
}

#[test]
fn a_document_shows_all_that_is_printed_but_for_its_gaps() {
    let lines = |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
    for (shown, printed, expected) in [
        ("a b", "a b", true),
        ("a b", "a", false),
        ("a b", "a b c", false),
        ("a b", "a x b", false),
        ("b a", "a b", false),
        ("a ... c", "a c", true),
        ("a ... c", "a x y c", true),
        ("a ... c", "a x c y", false),
        ("a ... c", "b a c", false),
        ("... b ...", "a b c", true),
        ("...", "", true),
    ] {
        assert_eq!(is_shown(&lines(shown), &lines(printed)), expected, "{shown} / {printed}");
    }
}

/// A line without the time that it took.
fn without_time(line: &str) -> String {
    match line.rsplit_once(" in ") {
        Some((head, _)) if head.starts_with("[PASS]") || head.starts_with("[FAIL]") => head.to_owned(),
        _ => line.trim_end().to_owned(),
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
