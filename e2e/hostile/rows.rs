//! The rows: what is sent, where, in which sizes, and what the sender must see.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use regex::Regex;
use serde::Deserialize;

/// One hostile input with its variations.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Row {
    pub(crate) name: String,
    /// Part of the short form; otherwise only of the full one.
    #[serde(default)]
    pub(crate) short: bool,
    /// What each size ends in; `x1` alone if none is given.
    #[serde(default)]
    pub(crate) sizes: BTreeMap<String, String>,
    /// What the row ends in, for sizes that say nothing else.
    #[serde(default)]
    pub(crate) ends: Option<String>,
    /// Further flags of the program.
    #[serde(default)]
    pub(crate) flags: Vec<String>,
    /// How long the sender may have to wait for its answer, in seconds.
    #[serde(default = "twenty")]
    pub(crate) within: f64,
    /// Whether an honest caller must get its answers meanwhile.
    #[serde(default = "yes")]
    pub(crate) honest: bool,
    pub(crate) evaluate: Option<Evaluate>,
    pub(crate) h2: Option<H2>,
    pub(crate) raw: Option<Raw>,
    pub(crate) package: Option<Package>,
    pub(crate) exec: Option<Exec>,
    pub(crate) render: Option<Render>,
    pub(crate) registry: Option<Registry>,
}

/// A call of the function evaluator.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Evaluate {
    /// Names of functions; `every` is each built-in one.
    pub(crate) images: Vec<String>,
    /// The whole list.
    pub(crate) list: Option<String>,
    /// The value of `items`, or all but its `items:`.
    pub(crate) items: Option<String>,
    /// The function config.
    pub(crate) config: Option<String>,
    /// The value of `data` in a ConfigMap as function config.
    pub(crate) data: Option<String>,
    /// A Starlark program as config.
    pub(crate) starlark: Option<String>,
    /// The body of a Rego rule, in a template and a constraint for it.
    pub(crate) rego: Option<String>,
    /// A value that is put at each of `places`.
    pub(crate) payload: Option<String>,
    #[serde(default)]
    pub(crate) places: Vec<String>,
    /// Bytes around the list: a byte order mark, UTF-16.
    pub(crate) encoding: Option<String>,
    /// How often, and how many at once.
    #[serde(default = "one")]
    pub(crate) calls: usize,
    #[serde(default = "one")]
    pub(crate) at_once: usize,
    /// The caller's deadline in seconds.
    pub(crate) deadline: Option<f64>,
    /// The caller leaves after so many seconds.
    pub(crate) leaves: Option<f64>,
}

/// Calls by HTTP/2 as the protocol allows it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct H2 {
    #[serde(default = "one")]
    pub(crate) connections: usize,
    #[serde(default = "one")]
    pub(crate) streams: usize,
    pub(crate) path: Option<String>,
    #[serde(default)]
    pub(crate) metadata: BTreeMap<String, String>,
    /// The length in the prefix of the message, if it is not that of the message.
    pub(crate) announce: Option<u32>,
    /// A message of zeros of this length; scaled by the size.
    pub(crate) bytes: Option<usize>,
    /// A resource list for `no-op`, instead of zeros.
    pub(crate) list: Option<String>,
    #[serde(default)]
    pub(crate) gzip: bool,
    /// Whether the stream is ended by its sender.
    #[serde(default = "yes")]
    pub(crate) ends: bool,
    /// Bytes a piece, with a pause of 50 ms behind each.
    pub(crate) trickle: Option<usize>,
    /// The window for answers; 0 lets none through.
    pub(crate) window: Option<u32>,
    /// Streams are reset once sent.
    #[serde(default)]
    pub(crate) reset: bool,
    /// How long all is held in seconds, if no answer ends it.
    #[serde(default = "three")]
    pub(crate) hold: f64,
}

/// Bytes that need not be HTTP/2.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Raw {
    #[serde(default = "one")]
    pub(crate) connections: usize,
    /// Steps: see `wire.rs`.
    pub(crate) send: Vec<String>,
    #[serde(default = "three")]
    pub(crate) hold: f64,
    /// The metrics port instead of the service's.
    #[serde(default)]
    pub(crate) metrics: bool,
}

/// A call of the package service.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Package {
    /// Names, which are templates too, and contents.
    #[serde(default)]
    pub(crate) files: BTreeMap<String, String>,
    /// Folders `a/a/…` of this depth, each with a Kptfile.
    pub(crate) nested: Option<usize>,
    pub(crate) deadline: Option<f64>,
    pub(crate) leaves: Option<f64>,
    #[serde(default)]
    pub(crate) method: String,
    /// Labels for `PatchKptfile`.
    pub(crate) labels: Option<usize>,
}

/// A program of the machine that misbehaves.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Exec {
    /// A shell script.
    pub(crate) script: String,
    /// `function-runner` or `wrapper-server`.
    #[serde(default = "runner")]
    pub(crate) program: String,
    #[serde(default)]
    pub(crate) input: Option<String>,
    pub(crate) deadline: Option<f64>,
    pub(crate) leaves: Option<f64>,
    #[serde(default = "one")]
    pub(crate) calls: usize,
    #[serde(default = "one")]
    pub(crate) at_once: usize,
    /// What must not be in any answer, nor in a file that the script wrote.
    #[serde(default)]
    pub(crate) never: Vec<String>,
}

/// The command line on a folder.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Render {
    /// Names, which are templates too, and contents.
    #[serde(default)]
    pub(crate) files: BTreeMap<String, String>,
    pub(crate) nested: Option<usize>,
    /// How many files `many/N.yaml` there are, each with the content of `many-content`.
    pub(crate) many: Option<usize>,
    #[serde(default)]
    pub(crate) many_content: String,
    #[serde(default)]
    pub(crate) links: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) fifos: Vec<String>,
    #[serde(default)]
    pub(crate) sockets: Vec<String>,
    /// A Starlark program that `Kptfile` runs; the default is what `files` says.
    pub(crate) starlark: Option<String>,
    /// The arguments; `fn render PACKAGE` if there are none. `PKG` is the package.
    #[serde(default)]
    pub(crate) args: Vec<String>,
    pub(crate) stdin: Option<String>,
    /// Files that must be as before.
    #[serde(default)]
    pub(crate) untouched: Vec<String>,
    /// Files that must not be there.
    #[serde(default)]
    pub(crate) absent: Vec<String>,
    /// What must not be printed nor written into the package.
    #[serde(default)]
    pub(crate) never: Vec<String>,
    /// On a terminal.
    #[serde(default)]
    pub(crate) tty: bool,
    /// A signal after so many seconds: `INT 1`.
    pub(crate) signal: Option<String>,
}

/// A registry that lies, and `loggia image inspect`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Registry {
    /// The image; `{A}`, `{B}`, `{C}` are the hosts. `{A}/fn:v1` if not given.
    pub(crate) image: Option<String>,
    #[serde(default)]
    pub(crate) tls: bool,
    /// By host and beginning of the path, the longest first: `A /v2/`.
    pub(crate) answers: BTreeMap<String, Reply>,
    /// Hosts that must not get a request with any of the canaries in it.
    #[serde(default)]
    pub(crate) no_secret_to: Vec<String>,
    /// Hosts that must not get any request at all.
    #[serde(default)]
    pub(crate) no_request_to: Vec<String>,
    /// What must not be printed.
    #[serde(default)]
    pub(crate) never: Vec<String>,
    /// Docker's configuration; that with the canary for A if not given.
    pub(crate) docker_config: Option<String>,
    /// The most requests that all hosts together may get.
    pub(crate) requests: Option<usize>,
}

/// What a registry answers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Reply {
    #[serde(default = "ok_status")]
    pub(crate) status: u16,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) body: String,
    #[serde(default)]
    pub(crate) gzip: bool,
    /// Bytes are sent one by one, with a pause behind each.
    #[serde(default)]
    pub(crate) slow: bool,
    /// The body goes on and on.
    #[serde(default)]
    pub(crate) endless: bool,
}

/// How an attempt must end.
#[derive(Clone, Debug)]
pub(crate) enum Ending {
    /// Without an error.
    Fine,
    /// One way or another, in time.
    Any,
    /// With an error that says this.
    Says(Regex),
    /// No answer is waited for.
    Held,
}

/// One variation of a row.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) row: Row,
    pub(crate) size: f64,
    /// For calls of functions: the image and the place of the payload.
    pub(crate) image: String,
    pub(crate) place: String,
    pub(crate) ending: Ending,
    /// Of the first image and place of its row, which the short form is content with.
    pub(crate) is_first: bool,
}

impl Row {
    pub(crate) fn within(&self) -> Duration {
        Duration::from_secs_f64(self.within)
    }

    /// Every variation.
    ///
    /// # Errors
    /// If the row contradicts itself.
    pub(crate) fn attempts(&self) -> Result<Vec<Attempt>, String> {
        let kinds = [
            self.evaluate.is_some(),
            self.h2.is_some(),
            self.raw.is_some(),
            self.package.is_some(),
            self.exec.is_some(),
            self.render.is_some(),
            self.registry.is_some(),
        ];
        if kinds.iter().filter(|kind| **kind).count() != 1 {
            return Err("a row has one of evaluate, h2, raw, package, exec, render, registry".to_owned());
        }
        let mut sizes = self.sizes.clone();
        if sizes.is_empty() {
            sizes.insert("x1".to_owned(), self.ends.clone().ok_or("neither `ends` nor `sizes`")?);
        }
        let (mut images, mut places) = (vec![String::new()], vec![String::new()]);
        if let Some(evaluate) = &self.evaluate {
            images = evaluate.images.iter().flat_map(|image| names(image)).collect();
            if evaluate.payload.is_some() {
                places.clone_from(&evaluate.places);
            }
        }
        let mut attempts = Vec::new();
        for (size, ending) in &sizes {
            let number: f64 =
                size.trim_start_matches('x').parse().map_err(|_| format!("`{size}` is not a size"))?;
            let ending = Ending::parse(ending)?;
            let pairs = images.iter().flat_map(|image| places.iter().map(move |place| (image, place)));
            attempts.extend(pairs.enumerate().map(|(index, (image, place))| Attempt {
                row: self.clone(),
                size: number,
                image: image.clone(),
                place: place.clone(),
                ending: ending.clone(),
                is_first: index == 0,
            }));
        }
        Ok(attempts)
    }
}

impl Ending {
    fn parse(text: &str) -> Result<Self, String> {
        Ok(match text {
            "ok" => Self::Fine,
            "any" => Self::Any,
            "held" => Self::Held,
            _ => Self::Says(Regex::new(text).map_err(|error| format!("`{text}`: {error}"))?),
        })
    }
}

impl Attempt {
    pub(crate) fn name(&self) -> String {
        let mut name = format!("{} x{}", self.row.name, self.size);
        for part in [&self.image, &self.place] {
            if !part.is_empty() {
                name = format!("{name} {part}");
            }
        }
        name
    }
}

/// Reads all rows of a folder, in the order of the files' names.
pub(crate) fn read(folder: &Path) -> Result<Vec<Row>, String> {
    let mut files: Vec<_> = fs::read_dir(folder).map_err(|error| error.to_string())?.flatten().collect();
    files.sort_by_key(std::fs::DirEntry::file_name);
    let mut rows = Vec::new();
    for file in files
        .iter()
        .map(std::fs::DirEntry::path)
        .filter(|path| path.extension().is_some_and(|end| end == "yaml"))
    {
        let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let read: Vec<Row> =
            loggia_yaml::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?;
        rows.extend(read);
    }
    Ok(rows)
}

fn names(image: &str) -> Vec<String> {
    if image == "every" {
        return loggia_functions::CATALOG.iter().map(|function| function.name.to_owned()).collect();
    }
    vec![image.to_owned()]
}

fn yes() -> bool {
    true
}

fn one() -> usize {
    1
}

fn twenty() -> f64 {
    20.0
}

fn three() -> f64 {
    3.0
}

fn ok_status() -> u16 {
    200
}

fn runner() -> String {
    "function-runner".to_owned()
}
