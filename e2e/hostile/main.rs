//! Hostile inputs against the programs, under a real limit on memory (`make hostile`).
//!
//! Each row of `rows/*.yaml` is an input with variations by size, place and function. For every one of them the service
//! must stay alive, answer health checks within a second, serve an honest caller, stay below its memory, tell the sender
//! what was wrong, and be as before when it is over. The command line must end in time with an error that a person can
//! read. See `docs/testing.md`.

#![allow(clippy::print_stdout, reason = "a test may")]

mod cage;
mod calls;
mod command;
mod list;
mod rows;
mod scripted;
mod service;
mod template;
mod wire;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use regex::Regex;

use crate::calls::Answer;
use crate::rows::{Attempt, Ending, Row};
use crate::service::{Manner, Service, short};

/// The memory of the service, as in `deploy/`, and of the command line.
const SERVICE: u64 = 512 << 20;
const COMMAND: u64 = 1 << 30;

/// The programs under test.
struct Programs {
    runner: PathBuf,
    wrapper: PathBuf,
    loggia: PathBuf,
}

/// What the command line of this harness says.
#[derive(Default)]
struct Options {
    short: bool,
    list: bool,
    only: Option<Regex>,
}

/// How an attempt went.
struct Verdict {
    problems: Vec<String>,
    took: Duration,
    health: Duration,
    memory: u64,
    said: String,
}

struct Harness {
    programs: Programs,
    runtime: tokio::runtime::Runtime,
    /// The service of the last row, which the next one may use too.
    service: Option<(Service, tempfile::TempDir)>,
    never: Regex,
}

fn main() -> ExitCode {
    template::check();
    let options = Options::read();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("hostile/rows");
    let rows = rows::read(&folder).unwrap_or_else(|error| panic!("{error}"));
    let chosen = |row: &&Row| {
        (row.short || !options.short) && options.only.as_ref().is_none_or(|only| only.is_match(&row.name))
    };
    let attempts: Vec<Attempt> = rows
        .iter()
        .filter(chosen)
        .flat_map(|row| row.attempts().unwrap_or_else(|error| panic!("row `{}`: {error}", row.name)))
        .filter(|attempt| !options.short || (attempt.size <= 1.0 && attempt.is_first))
        .collect();
    if options.list {
        attempts.iter().for_each(|attempt| println!("{}", attempt.name()));
        return ExitCode::SUCCESS;
    }
    assert!(!attempts.is_empty(), "no row is chosen");
    let mut harness = Harness::new();
    let begin = Instant::now();
    let mut failed = Vec::new();
    for attempt in &attempts {
        let name = attempt.name();
        let verdict = harness.attempt(attempt);
        println!("{}", verdict.line(&name));
        for problem in &verdict.problems {
            println!("       {}", problem.escape_debug());
        }
        if !verdict.problems.is_empty() {
            failed.push(name);
        }
    }
    let count = rows.iter().filter(chosen).count();
    println!(
        "\n{count} rows, {} attempts in {:.0} s, {} failed",
        attempts.len(),
        begin.elapsed().as_secs_f64(),
        failed.len()
    );
    for name in &failed {
        println!("  failed: {name}");
    }
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl Options {
    fn read() -> Self {
        let mut options = Self::default();
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--short" => options.short = true,
                "--list" => options.list = true,
                "--only" => {
                    let pattern = arguments.next().unwrap_or_default();
                    options.only =
                        Some(Regex::new(&pattern).unwrap_or_else(|error| panic!("--only: {error}")));
                }
                other => panic!("unknown argument `{other}`; expected --short, --list or --only PATTERN"),
            }
        }
        options
    }
}

impl Programs {
    /// Where the recipes say, or else beside the tests.
    fn find() -> Self {
        let named = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let wrapper = named("LOGGIA_STATIC").map(|folder| folder.join("wrapper-server"));
        Self {
            runner: named("LOGGIA_RUNNER").unwrap_or_else(|| loggia_testing::program("function-runner")),
            wrapper: wrapper.unwrap_or_else(|| loggia_testing::program("wrapper-server")),
            loggia: named("LOGGIA_CLI").unwrap_or_else(|| loggia_testing::program("loggia")),
        }
    }
}

impl Harness {
    fn new() -> Self {
        let programs = Programs::find();
        for program in [&programs.runner, &programs.wrapper, &programs.loggia] {
            assert!(program.is_file(), "{} is not there; `make hostile` builds it", program.display());
        }
        println!("limit on memory: {}", cage::Cage::new(SERVICE).describe());
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        // What no sender and no user may ever read, whatever a row expects.
        let never = "panicked|please report|memory allocation of|overflowed its stack|killed by signal|It did not end";
        Self {
            programs,
            runtime: runtime.expect("a runtime starts"),
            service: None,
            never: Regex::new(never).expect("it is a pattern"),
        }
    }

    fn attempt(&mut self, attempt: &Attempt) -> Verdict {
        let (row, begin) = (&attempt.row, Instant::now());
        let command = match (&row.render, &row.registry) {
            (Some(render), _) => Some(command::render(&self.programs.loggia, attempt, render, COMMAND)),
            (_, Some(registry)) => Some(command::registry(&self.programs.loggia, attempt, registry, COMMAND)),
            _ => None,
        };
        let Some(ran) = command else { return self.serve(attempt) };
        let ran = ran.unwrap_or_else(|error| panic!("row `{}`: {error}", row.name));
        let mut problems = ran.problems;
        problems.extend(self.judge(attempt, &ran.answer));
        let said = said(&ran.answer);
        Verdict { problems, took: begin.elapsed(), health: Duration::ZERO, memory: ran.memory, said }
    }

    /// An attempt on a service.
    fn serve(&mut self, attempt: &Attempt) -> Verdict {
        let row = &attempt.row;
        let (service, folder) = match self.service_for(row) {
            Ok(started) => started,
            Err(problem) => return Verdict::of(problem),
        };
        let watcher = service.watch(row.honest);
        let begin = Instant::now();
        let answer = self.runtime.block_on(async {
            let patience = row.within() + Duration::from_secs(3);
            tokio::time::timeout(patience, send(&service, attempt)).await
        });
        let took = begin.elapsed();
        let mut problems = match &answer {
            Ok(Ok(answer)) => self.judge(attempt, answer),
            Ok(Err(error)) => panic!("row `{}`: {error}", row.name),
            Err(_) => vec![format!("no answer after {} s", row.within().as_secs() + 3)],
        };
        if let (Some(exec), Ok(Ok(Ok(text) | Err(text)))) = (&row.exec, &answer) {
            let came_out = exec.never.iter().filter(|word| text.contains(*word));
            problems.extend(came_out.map(|word| format!("`{word}` came out")));
        }
        let watched = watcher.end(service.cage.limit);
        problems.extend(watched.problems);
        problems.extend(service.settled());
        if problems.is_empty() {
            self.service = Some((service, folder));
        }
        let said = answer.ok().and_then(Result::ok).map_or_else(String::new, |answer| said(&answer));
        Verdict { problems, took, health: watched.slowest_health, memory: watched.memory, said }
    }

    /// The service of the last row if it fits, or a new one.
    fn service_for(&mut self, row: &Row) -> Result<(Service, tempfile::TempDir), String> {
        if let Some((service, folder)) = self.service.take()
            && row.exec.is_none()
            && service.flags == row.flags
            && service.is_alive()
        {
            return Ok((service, folder));
        }
        let folder = tempfile::tempdir().expect("a folder can be made");
        let script = row.exec.as_ref().map_or("cat", |exec| exec.script.as_str());
        let script = script.replace("{FOLDER}", &folder.path().display().to_string());
        let mut arguments = command::functions(folder.path(), &script).expect("files can be written");
        let wrapper = row.exec.as_ref().is_some_and(|exec| exec.program == "wrapper-server");
        let program = if wrapper {
            arguments = vec!["--port=0".to_owned()];
            arguments.extend(row.flags.iter().cloned());
            arguments
                .extend(["--".to_owned(), folder.path().join("functions/hostile").display().to_string()]);
            self.programs.wrapper.clone()
        } else {
            arguments.push("--metrics-address=127.0.0.1:0".to_owned());
            arguments.extend(row.flags.iter().cloned());
            self.programs.runner.clone()
        };
        // A service that served an exec row is not used again, since its scripts are gone.
        let mut flags = row.flags.clone();
        if row.exec.is_some() {
            flags.push("exec".to_owned());
        }
        let manner = Manner { honest: !wrapper, alone: row.exec.is_some() };
        Ok((Service::start(program, &arguments, &flags, SERVICE, manner)?, folder))
    }

    /// What is wrong about an answer.
    fn judge(&self, attempt: &Attempt, answer: &Answer) -> Vec<String> {
        let mut problems = Vec::new();
        match (&attempt.ending, answer) {
            (Ending::Fine, Err(error)) => problems.push(format!("it failed: {}", short(error))),
            (Ending::Says(pattern), Ok(_)) => problems.push(format!("no error; expected `{pattern}`")),
            (Ending::Says(pattern), Err(error)) if !pattern.is_match(error) => {
                problems.push(format!("expected `{pattern}`, got: {}", short(error)));
            }
            _ => {}
        }
        if let (Err(error), false) = (answer, matches!(attempt.ending, Ending::Held))
            && let Some(found) = self.never.find(error)
        {
            problems.push(format!("an error says `{}`: {}", found.as_str(), short(error)));
        }
        problems
    }
}

async fn send(service: &Service, attempt: &Attempt) -> Result<Answer, String> {
    let (row, address) = (&attempt.row, service.address());
    if let Some(evaluate) = &row.evaluate {
        return calls::evaluate(&address, attempt, evaluate).await;
    }
    if let Some(package) = &row.package {
        return calls::package(&address, attempt, package).await;
    }
    if let Some(exec) = &row.exec {
        return calls::exec(&address, attempt, exec).await;
    }
    if let Some(h2) = &row.h2 {
        return wire::h2(&address, attempt, h2).await;
    }
    match &row.raw {
        Some(raw) if raw.metrics => {
            let address = service.metrics_address().ok_or("the service has no metrics port")?;
            let (answer, served) =
                tokio::join!(wire::raw(&address, attempt, raw), wire::operators_are_served(&address));
            answer.map(|answer| served.and(answer))
        }
        Some(raw) => wire::raw(&address, attempt, raw).await,
        None => Err("a row of no kind".to_owned()),
    }
}

fn said(answer: &Answer) -> String {
    match answer {
        Ok(_) => "ok".to_owned(),
        // A hostile text must not act on the terminal of whoever runs this, either.
        Err(error) => {
            error.lines().next().unwrap_or_default().chars().take(110).flat_map(char::escape_debug).collect()
        }
    }
}

impl Verdict {
    fn of(problem: String) -> Self {
        let (took, health) = (Duration::ZERO, Duration::ZERO);
        Self { problems: vec![problem], took, health, memory: 0, said: String::new() }
    }

    fn line(&self, name: &str) -> String {
        let mark = if self.problems.is_empty() { "ok    " } else { "FAILED" };
        format!(
            "{mark} {name:<60} {:>6.2} s  health {:>4} ms  {:>4} MiB  {}",
            self.took.as_secs_f64(),
            self.health.as_millis(),
            self.memory >> 20,
            self.said
        )
    }
}
