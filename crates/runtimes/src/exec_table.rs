//! Functions that are programs in a directory.
//!
//! A YAML file maps images to programs. It is read again when it changes; a file that cannot be used leaves the table
//! as it was.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use loggia_function::{Call, FunctionRef, Image, Knows, Outcome, RunError, Running, Runtime};
use loggia_go::{errno_text, quote};
use loggia_process::{self as process, Command, Environment, Processes};
use loggia_yaml::{Node, ParseOptions};
use tokio::time::Instant;
use tracing::{debug, info, warn};

/// Opening does not wait.
const NONBLOCK: i32 = rustix::fs::OFlags::NONBLOCK.bits() as i32;

/// The largest file that is read: some hundred thousand images.
const MOST_BYTES: u64 = 16 << 20;

/// How often the file is looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Runs the programs of a folder.
#[derive(Clone, Debug)]
pub struct ExecTable {
    settings: Arc<Settings>,
    processes: Processes,
    table: Arc<RwLock<Arc<Table>>>,
}

/// What an [`ExecTable`] is made from.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The file that maps images to programs; without one there are no functions.
    pub config: Option<PathBuf>,
    /// The folder that holds the programs.
    pub functions: PathBuf,
    /// The variables that functions see.
    pub environment: Environment,
    /// The longest that a function may run, whatever its caller would wait.
    pub timeout: Option<Duration>,
}

/// Images and their programs.
#[derive(Debug, Default)]
struct Table {
    programs: HashMap<String, Arc<Program>>,
}

/// One program of the folder.
#[derive(Debug)]
struct Program {
    /// The name in the file.
    name: String,
    path: PathBuf,
    /// The path leads out of the folder.
    outside: bool,
}

/// Why there is no table.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("failed to read configuration file {}: open {}: {}", quote(.0), .0, errno_text(.1))]
    Unreadable(String, std::io::Error),
    #[error("failed to parse configuration file {}: {reason}", quote(.file))]
    Malformed { file: String, reason: String },
    #[error("failed to resolve the functions folder {}: {}", quote(.0), errno_text(.1))]
    NoFolder(String, std::io::Error),
}

/// The file.
#[derive(Debug, Default)]
struct Config {
    functions: Vec<Entry>,
}

/// A program, and the images that it stands for.
#[derive(Debug)]
struct Entry {
    function: String,
    images: Vec<String>,
}

// === impl ExecTable ===

impl ExecTable {
    /// Reads the table for the first time.
    pub fn new(settings: Settings, processes: Processes) -> Result<Self, ConfigError> {
        let table = Table::load(&settings)?;
        Ok(Self { settings: Arc::new(settings), processes, table: Arc::new(RwLock::new(Arc::new(table))) })
    }

    /// Keeps the table in step with its file, for as long as the future is polled.
    pub async fn follow_changes(self) {
        let Some(file) = self.settings.config.clone() else { return };
        let mut known = Stamp::of(&file);
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            let found = Stamp::of(&file);
            if found == known {
                continue;
            }
            known = found;
            match Table::load(&self.settings) {
                Ok(table) => {
                    info!(file = %file.display(), images = table.programs.len(), "Reloaded the exec functions");
                    *self.table.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(table);
                }
                Err(error) => warn!("{error}; the exec functions stay as they were"),
            }
        }
    }

    /// The program for an image: as it was written, or else below the prefix for short names.
    fn program(&self, image: &Image) -> Option<Arc<Program>> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.programs.get(image.written()).or_else(|| table.programs.get(image.name())).cloned()
    }

    async fn evaluate(&self, call: &Call) -> Result<Outcome, RunError> {
        let program = call.function.image().and_then(|image| self.program(image));
        let program = program.ok_or_else(RunError::not_found)?;
        let origin = || match &self.settings.config {
            Some(file) => format!("; entry {} of {}", quote(&program.name), file.display()),
            None => String::new(),
        };
        let not_started = |reason| RunError::NotStarted { reason, origin: origin() };
        if program.outside || program.leads_out_of(&self.settings.functions) {
            let folder = self.settings.functions.display();
            return Err(not_started(format!(
                "{} is outside of --functions ({folder})",
                program.path.display()
            )));
        }
        debug!(image = %call.function, "Evaluating in executable mode");
        let command = Command {
            program: program.path.clone(),
            arguments: vec![],
            environment: self.settings.environment.clone(),
        };
        let own = self.settings.timeout.map(|timeout| Instant::now() + timeout);
        let budget = call.budget.until(own);
        match self.processes.run_call(&command, call, budget).await {
            Ok(outcome) => {
                let Outcome { output, stderr, exit, .. } = &outcome;
                debug!(image = %call.function, ?output, ?stderr, %exit, "The function ended");
                Ok(outcome)
            }
            Err(error @ process::Error::NotStarted { .. }) => Err(not_started(error.to_string())),
            Err(process::Error::DeadlineExceeded) if budget.deadline != call.budget.deadline => {
                let limit = self.settings.timeout.unwrap_or_default();
                Err(RunError::OverTime { limit, flag: "--exec-timeout" })
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Runtime for ExecTable {
    fn name(&self) -> &'static str {
        "exec"
    }

    fn knows(&self, function: &FunctionRef) -> Knows {
        match function.image().and_then(|image| self.program(image)) {
            Some(_) => Knows::Yes,
            None => Knows::No,
        }
    }

    fn run<'a>(&'a self, call: &'a Call) -> Running<'a> {
        Box::pin(self.evaluate(call))
    }
}

// === impl Settings ===

impl Settings {
    /// The variables of a function that is to see nothing of the runner's: enough to find programs and
    /// to speak UTF-8.
    pub fn minimal_environment() -> Environment {
        let pair = |name: &str, value: &str| (OsString::from(name), OsString::from(value));
        Environment::Only(vec![
            pair("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
            pair("HOME", "/"),
            pair("LANG", "C.UTF-8"),
            pair("TMPDIR", "/tmp"),
        ])
    }
}

// === impl Table ===

impl Table {
    fn load(settings: &Settings) -> Result<Self, ConfigError> {
        let Some(file) = &settings.config else { return Ok(Self::default()) };
        let shown = || file.display().to_string();
        let text = read(file).map_err(|error| ConfigError::Unreadable(shown(), error))?;
        let config = parse(&text).map_err(|reason| ConfigError::Malformed { file: shown(), reason })?;
        let folder = std::path::absolute(&settings.functions)
            .map_err(|error| ConfigError::NoFolder(settings.functions.display().to_string(), error))?;
        Ok(Self::new(config, &folder))
    }

    fn new(config: Config, folder: &Path) -> Self {
        let mut table = Self::default();
        for Entry { function, images } in config.functions {
            let program = Arc::new(Program::new(function, folder));
            program.warn_if_unusable(folder);
            for image in images {
                if table.programs.contains_key(&image) {
                    warn!("Ignoring duplicate image {} ({})", quote(&image), program.name);
                    continue;
                }
                info!("Caching {image} as {}", program.path.display());
                table.programs.insert(image, Arc::clone(&program));
            }
        }
        table
    }
}

/// Reads the file, if it is one: a pipe or a device might have no end.
fn read(file: &Path) -> io::Result<Vec<u8>> {
    let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidInput, text);
    // Without waiting for a writer, should it be a pipe.
    let opened = fs::OpenOptions::new().read(true).custom_flags(NONBLOCK).open(file)?;
    if !opened.metadata()?.is_file() {
        return Err(invalid("it is not a regular file".to_owned()));
    }
    let mut text = Vec::new();
    opened.take(MOST_BYTES + 1).read_to_end(&mut text)?;
    match text.len() as u64 > MOST_BYTES {
        true => Err(invalid(format!("it has more than {MOST_BYTES} bytes"))),
        false => Ok(text),
    }
}

/// Reads the file leniently: unknown keys are ignored, and of keys that stand twice the last one counts.
fn parse(text: &[u8]) -> Result<Config, String> {
    let document =
        loggia_yaml::parse_first_with(text, ParseOptions::default()).map_err(|error| error.to_string())?;
    let Some(document) = document else { return Ok(Config::default()) };
    let root = document.root;
    let wrong = |node: &Node, what: &str| format!("line {}: {what}", node.line());
    if !root.is_mapping() && !root.is_null() {
        return Err(wrong(&root, "a mapping with the key `functions` belongs here"));
    }
    let mut config = Config::default();
    for entry in last(&root, "functions").map_or(Ok(&[][..]), |node| list(node, "functions"))? {
        if !entry.is_mapping() {
            return Err(wrong(entry, "an entry of `functions` is a mapping with `function` and `images`"));
        }
        let text = |node: &Node, what: &str| match node.scalar() {
            Some(text) if !node.is_null() => Ok(text.to_owned()),
            _ => Err(wrong(node, &format!("`{what}` is text"))),
        };
        let function = last(entry, "function").map_or(Ok(String::new()), |node| text(node, "function"))?;
        if function.is_empty() {
            return Err(wrong(
                entry,
                "an entry without `function`: the name of a program in the folder belongs there",
            ));
        }
        let images = last(entry, "images").map_or(Ok(&[][..]), |node| list(node, "images"))?;
        let images = images.iter().map(|image| text(image, "images")).collect::<Result<_, _>>()?;
        config.functions.push(Entry { function, images });
    }
    Ok(config)
}

fn last<'a>(node: &'a Node, key: &str) -> Option<&'a Node> {
    node.pairs().iter().rev().find(|pair| pair.key.scalar() == Some(key)).map(|pair| &pair.value)
}

fn list<'a>(node: &'a Node, what: &str) -> Result<&'a [Node], String> {
    match node.is_sequence() || node.is_null() {
        true => Ok(node.items()),
        false => Err(format!("line {}: `{what}` is a list", node.line())),
    }
}

// === impl Program ===

impl Program {
    fn new(name: String, folder: &Path) -> Self {
        let path = clean(&folder.join(name.trim_start_matches('/')));
        let outside = !path.starts_with(clean(folder)) || path == clean(folder);
        Self { name, path, outside }
    }

    /// Whether symbolic links take the path out of the folder.
    fn leads_out_of(&self, folder: &Path) -> bool {
        let direct = !self.name.contains('/');
        if direct && fs::symlink_metadata(&self.path).is_ok_and(|found| found.is_file()) {
            return false;
        }
        match (fs::canonicalize(&self.path), fs::canonicalize(folder)) {
            (Ok(path), Ok(folder)) => !path.starts_with(folder),
            // The attempt to start a missing file gives the better error.
            _ => false,
        }
    }

    fn warn_if_unusable(&self, folder: &Path) {
        let path = self.path.display();
        let name = quote(&self.name);
        if self.outside || self.leads_out_of(folder) {
            warn!(
                "function {name}: {path} is outside of --functions ({}); calls to it will fail",
                folder.display()
            );
            return;
        }
        match fs::metadata(&self.path) {
            Err(error) => {
                warn!("function {name}: {path}: {}; calls to it will fail", errno_text(&error));
            }
            Ok(found) if !found.is_file() || found.permissions().mode() & 0o111 == 0 => {
                warn!("function {name}: {path} is not an executable file; calls to it will fail");
            }
            Ok(_) => {}
        }
    }
}

/// The path without `.` and `..`, by its text alone.
fn clean(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                clean.pop();
            }
            Component::CurDir => {}
            other => clean.push(other),
        }
    }
    clean
}

/// What tells one state of a file from another. The inode is part of it because a mounted ConfigMap
/// changes by a link that points elsewhere.
#[derive(Debug, PartialEq, Eq)]
struct Stamp(Option<(u64, u64, i64, i64)>);

// === impl Stamp ===

impl Stamp {
    fn of(file: &Path) -> Self {
        Self(
            fs::metadata(file)
                .ok()
                .map(|found| (found.ino(), found.len(), found.mtime(), found.mtime_nsec())),
        )
    }
}
