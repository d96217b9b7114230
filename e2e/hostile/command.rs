//! The command line on hostile folders and against hostile registries.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::cage::{Cage, pause};
use crate::calls::{Answer, nested, scaled};
use crate::list;
use crate::rows::{Attempt, Registry, Render};
use crate::scripted::Hosts;
use crate::template::expand;

/// More output than anybody reads.
const OUTPUT: u64 = 64 << 20;
/// A signal ends a command in this time.
const SIGNALLED: Duration = Duration::from_millis(1500);
/// What no row may find with the wrong host.
const SECRET: &str = "S3cretCanary";

/// How a command ended, and what is wrong about that whatever the row expects.
pub(crate) struct Ran {
    pub(crate) answer: Answer,
    pub(crate) problems: Vec<String>,
    pub(crate) memory: u64,
}

struct Ended {
    status: Option<ExitStatus>,
    stdout: String,
    stderr: String,
    memory: u64,
    problems: Vec<String>,
}

/// Runs `loggia` on a folder.
pub(crate) fn render(loggia: &Path, attempt: &Attempt, row: &Render, limit: u64) -> Result<Ran, String> {
    let home = tempfile::tempdir().map_err(|error| error.to_string())?;
    let package = home.path().join("pkg");
    fs::create_dir(&package).map_err(|error| error.to_string())?;
    lay_out(&package, attempt, row).map_err(|error| format!("the package: {error}"))?;
    let before: Vec<_> = row.untouched.iter().map(|name| seen(&package.join(name))).collect();

    let mut arguments = row.args.clone();
    if arguments.is_empty() {
        arguments = ["fn", "render", "PKG"].map(str::to_owned).to_vec();
    }
    arguments.extend(row.flags(attempt));
    let arguments: Vec<String> =
        arguments.iter().map(|argument| argument.replace("PKG", &package.display().to_string())).collect();
    let cage = Cage::new(limit);
    let mut command = if row.tty {
        let line: Vec<String> = std::iter::once(loggia.display().to_string()).chain(arguments).collect();
        let mut command = cage.command(Path::new("/usr/bin/script"));
        command.args(["-qec", &line.join(" "), "/dev/null"]);
        command
    } else {
        let mut command = cage.command(loggia);
        command.args(&arguments);
        command
    };
    command.current_dir(home.path()).env("HOME", home.path());
    let stdin = row.stdin.as_deref().map(|stdin| expand(stdin, attempt.size)).transpose()?;
    let mut ended = run(command, &cage, attempt.row.within(), stdin, row.signal.as_deref());
    for (name, before) in row.untouched.iter().zip(before) {
        if seen(&package.join(name)) != before {
            ended.problems.push(format!("{name} was changed"));
        }
    }
    for name in row.absent.iter().filter(|name| fs::symlink_metadata(package.join(name)).is_ok()) {
        ended.problems.push(format!("{name} was created"));
    }
    for word in &row.never {
        if ended.stdout.contains(word) || ended.stderr.contains(word) || holds(&package, word) {
            ended.problems.push(format!("`{word}` came out"));
        }
    }
    let shown = if row.tty { uncoloured(&ended.stdout.replace("\r\n", "\n")) } else { ended.stderr.clone() };
    if let Some(control) = shown.chars().find(|letter| acts(*letter)) {
        ended.problems.push(format!("U+{:04X} reached the terminal", u32::from(control)));
    }
    Ok(ended.ran())
}

/// Text without the colours that the command line itself uses on a terminal.
fn uncoloured(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let colour = part.find(|letter: char| !letter.is_ascii_digit() && letter != ';');
        match colour.filter(|end| part[*end..].starts_with('m')) {
            Some(end) => plain.push_str(&part[end + 1..]),
            None => plain = plain + "\x1b[" + part,
        }
    }
    plain
}

/// Whether a character does something to a terminal, or to the order in which text is read.
fn acts(letter: char) -> bool {
    let bidirectional =
        matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}');
    (letter.is_control() && letter != '\n' && letter != '\t') || bidirectional
}

impl Render {
    fn flags(&self, attempt: &Attempt) -> Vec<String> {
        attempt.row.flags.clone()
    }
}

fn lay_out(package: &Path, attempt: &Attempt, row: &Render) -> Result<(), String> {
    let text = |error: std::io::Error| error.to_string();
    let mut files: Vec<(String, String)> = Vec::new();
    for (name, content) in &row.files {
        files.push((expand(name, attempt.size)?, expand(content, attempt.size)?));
    }
    files.extend(nested(row.nested, attempt.size));
    let many = row.many.map_or(0, |many| scaled(many, attempt.size));
    let content = expand(&row.many_content, attempt.size)?;
    files.extend(
        (0..many).map(|index| (format!("many/{index}.yaml"), content.replace("@n", &index.to_string()))),
    );
    if let Some(program) = &row.starlark {
        let source = list::starlark(&expand(program, attempt.size)?).replace('\n', "\n    ");
        let kptfile = format!(
            "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata: {{name: a}}\npipeline:\n  mutators:\n  - image: starlark\n    configMap: {source}\n"
        );
        files.push(("Kptfile".to_owned(), kptfile));
        files.push((
            "cm.yaml".to_owned(),
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n".to_owned(),
        ));
    }
    for (name, content) in files {
        let file = package.join(&name);
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).map_err(text)?;
        }
        fs::write(&file, content).map_err(text)?;
        if name.contains("hooks/") || name.ends_with(".sh") {
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).map_err(text)?;
        }
    }
    for (name, target) in &row.links {
        let link = package.join(name);
        if let Some(folder) = link.parent() {
            fs::create_dir_all(folder).map_err(text)?;
        }
        symlink(target, link).map_err(text)?;
    }
    for name in &row.fifos {
        let mode = rustix::fs::Mode::from_raw_mode(0o644);
        rustix::fs::mknodat(rustix::fs::CWD, package.join(name), rustix::fs::FileType::Fifo, mode, 0)
            .map_err(|error| error.to_string())?;
    }
    for name in &row.sockets {
        std::os::unix::net::UnixListener::bind(package.join(name)).map_err(text)?;
    }
    Ok(())
}

/// What a file is like: kind, mode and content.
fn seen(file: &Path) -> Option<(u32, Vec<u8>)> {
    let mode = fs::symlink_metadata(file).ok()?.permissions().mode();
    Some((mode, fs::read(file).unwrap_or_default()))
}

/// Whether a file of the folder that is not a link holds a text.
fn holds(folder: &Path, word: &str) -> bool {
    fs::read_dir(folder).into_iter().flatten().flatten().any(|entry| {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => holds(&path, word),
            Ok(kind) if kind.is_file() => {
                fs::read(&path).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(word))
            }
            _ => false,
        }
    })
}

/// Looks at an image of a hostile registry.
pub(crate) fn registry(loggia: &Path, attempt: &Attempt, row: &Registry, limit: u64) -> Result<Ran, String> {
    let home = tempfile::tempdir().map_err(|error| error.to_string())?;
    let hosts = Hosts::start(&row.answers, row.tls, attempt.size, home.path())?;
    let config = row.docker_config.clone().unwrap_or_else(|| {
        let auth =
            format!("{{\"auths\":{{\"{{A}}\":{{\"username\":\"robot\",\"password\":\"{SECRET}\"}}}}}}");
        auth
    });
    let file = home.path().join("config.json");
    fs::write(&file, hosts.fill(&expand(&config, attempt.size)?)).map_err(|error| error.to_string())?;
    let image = hosts.fill(&expand(row.image.as_deref().unwrap_or("{A}/fn:v1"), attempt.size)?);
    let cage = Cage::new(limit);
    let mut command = cage.command(loggia);
    command.args(["image", "inspect", "--timeout=8s"]).arg(format!("--registry-auth={}", file.display()));
    command.args(&attempt.row.flags);
    if row.tls {
        command.arg(format!("--ca={}", home.path().join("ca.crt").display()));
    }
    command.arg(&image).current_dir(home.path()).env("HOME", home.path());
    let mut ended = run(command, &cage, attempt.row.within(), None, None);
    let requests = hosts.requests();
    for host in &row.no_request_to {
        if let Some((_, head)) = requests.iter().find(|(to, _)| to == host) {
            ended.problems.push(format!("{host} was asked: {}", head.lines().next().unwrap_or_default()));
        }
    }
    // As it is, and as a header carries it: base64 of `robot:S3cretCanary`.
    let carried = [SECRET, "cm9ib3Q6UzNjcmV0Q2FuYXJ5"];
    for (host, head) in requests.iter().filter(|(to, _)| row.no_secret_to.contains(to)) {
        if carried.iter().any(|secret| head.contains(secret)) {
            ended.problems.push(format!("{host} got the credentials of another host"));
        }
    }
    if let Some(most) = row.requests
        && requests.len() > most
    {
        ended.problems.push(format!("{} requests, at most {most} are expected", requests.len()));
    }
    let shown = format!("{}{}", ended.stdout, ended.stderr);
    for word in row.never.iter().map(String::as_str).chain([SECRET]).filter(|word| shown.contains(*word)) {
        ended.problems.push(format!("`{word}` was printed"));
    }
    if let Some(control) = shown.chars().find(|letter| acts(*letter)) {
        ended.problems.push(format!("U+{:04X} reached the terminal", u32::from(control)));
    }
    Ok(ended.ran())
}

impl Ended {
    fn ran(self) -> Ran {
        let Self { status, stdout, stderr, memory, problems } = self;
        let answer = match status {
            None => Err("it did not end".to_owned()),
            Some(status) if status.success() => Ok(format!("{stdout}{stderr}")),
            Some(status) => match (status.code(), status.signal()) {
                (Some(code), _) => Err(format!("exit {code}: {stderr}{stdout}")),
                (None, signal) => Err(format!("killed by signal {}: {stderr}", signal.unwrap_or(0))),
            },
        };
        Ran { answer, problems, memory }
    }
}

/// Runs a command to its end, or for as long as it may take.
fn run(
    mut command: Command,
    cage: &Cage,
    within: Duration,
    stdin: Option<String>,
    signal: Option<&str>,
) -> Ended {
    command.stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    cage.entered_by(child.id());
    if let (Some(text), Some(mut pipe)) = (stdin, child.stdin.take()) {
        std::thread::spawn(move || pipe.write_all(text.as_bytes()));
    }
    let (stdout, stderr) = (child.stdout.take().map(gather), child.stderr.take().map(gather));
    let mut problems = Vec::new();
    let (status, memory) = wait(&mut child, cage, within, signal, &mut problems);
    let text = |reader: Option<std::thread::JoinHandle<Vec<u8>>>| {
        String::from_utf8_lossy(&reader.and_then(|reader| reader.join().ok()).unwrap_or_default())
            .into_owned()
    };
    if cage.kills() > 0 {
        problems.push("the kernel killed a process for lack of memory".to_owned());
    }
    let left = cage.processes();
    if !left.is_empty() {
        problems.push(format!("{} processes are left", left.len()));
    }
    for pid in left {
        send(pid, Signal::KILL);
    }
    Ended { status, stdout: text(stdout), stderr: text(stderr), memory, problems }
}

fn wait(
    child: &mut Child,
    cage: &Cage,
    within: Duration,
    signal: Option<&str>,
    problems: &mut Vec<String>,
) -> (Option<ExitStatus>, u64) {
    let (begin, mut memory) = (Instant::now(), 0);
    let signal = signal.and_then(|text| {
        let (name, seconds) = text.split_once(' ')?;
        let signal = if name == "INT" { Signal::INT } else { Signal::TERM };
        Some((signal, Duration::from_secs_f64(seconds.parse().ok()?)))
    });
    let mut sent = false;
    loop {
        memory = memory.max(cage.memory());
        if let Ok(Some(status)) = child.try_wait() {
            return (Some(status), memory);
        }
        if let Some((signal, after)) = signal {
            if !sent && begin.elapsed() > after {
                send(child.id(), signal);
                sent = true;
            }
            if begin.elapsed() > after + SIGNALLED {
                problems.push(format!("it goes on {} ms after the signal", SIGNALLED.as_millis()));
                return (end(child), memory);
            }
        }
        if begin.elapsed() > within {
            problems.push(format!("it goes on after {} s", within.as_secs()));
            return (end(child), memory);
        }
        pause(Duration::from_millis(10));
    }
}

fn end(child: &mut Child) -> Option<ExitStatus> {
    let _ = child.kill();
    let _ = child.wait();
    None
}

fn send(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

fn gather(pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let mut pipe = pipe.take(OUTPUT);
        let _ = pipe.read_to_end(&mut bytes);
        let _ = std::io::copy(&mut pipe.into_inner(), &mut std::io::sink());
        bytes
    })
}

/// The scripts and the table of exec functions.
pub(crate) fn functions(folder: &Path, script: &str) -> Result<Vec<String>, String> {
    let text = |error: std::io::Error| error.to_string();
    let programs: PathBuf = folder.join("functions");
    fs::create_dir_all(&programs).map_err(text)?;
    let file = programs.join("hostile");
    fs::write(&file, format!("#!/bin/sh\n{script}\n")).map_err(text)?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).map_err(text)?;
    let table = folder.join("config.yaml");
    fs::write(&table, "functions:\n- function: hostile\n  images: [example.com/hostile:v1]\n")
        .map_err(text)?;
    let secrets: BTreeMap<&str, String> = BTreeMap::from([(
        "config.json",
        format!("{{\"auths\":{{\"example.com\":{{\"username\":\"robot\",\"password\":\"{SECRET}\"}}}}}}"),
    )]);
    for (name, content) in secrets {
        fs::write(folder.join(name), content).map_err(text)?;
    }
    Ok(vec![
        "--port=0".to_owned(),
        format!("--config={}", table.display()),
        format!("--functions={}", programs.display()),
        "--enable-private-registries".to_owned(),
        format!("--registry-auth-secret-path={}", folder.join("config.json").display()),
    ])
}
