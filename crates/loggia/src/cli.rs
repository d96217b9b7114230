//! The command line, before anything of it is looked at. Flags and defaults are kpt's; what Loggia adds says so.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use loggia_krm::package::Limits;

use crate::image;

/// Run KRM functions and render kpt packages, without a container engine.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Start with:\n  loggia fn render my-package          run the functions that its Kptfile names\n  loggia fn render my-package --diff   only show what that would change\n  loggia fn list                       the functions that are built in"
)]
pub(crate) struct Cli {
    /// Has no effect; output is never cut.
    #[arg(long, global = true, hide = true, default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub(crate) truncate_output: bool,
    /// Print the operations a failure happened in.
    #[arg(long, global = true, env = "COBRA_STACK_TRACE_ON_ERRORS", hide_env = true, value_parser = clap::builder::FalseyValueParser::new(), action = ArgAction::SetTrue)]
    pub(crate) stack_trace: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run functions, on packages and on streams.
    #[command(subcommand)]
    Fn(Fn),
    /// Look at function images.
    #[command(subcommand)]
    Image(image::Command),
    /// Print a completion script for a shell.
    #[command(
        after_help = "Examples:\n  loggia completion bash > /etc/bash_completion.d/loggia\n  source <(loggia completion zsh)"
    )]
    Completion {
        /// The shell.
        shell: Shell,
    },
    /// Print the version.
    Version,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Fn {
    /// Render a package: run the functions that its Kptfile names, and those of the packages inside it.
    Render(Box<Render>),
    /// Run one function on a package, a folder or a stream.
    Eval(Box<Eval>),
    /// Print the resources of a folder as a ResourceList.
    Source(Source),
    /// Write the resources of standard input to a new folder.
    Sink(Sink),
    /// List the functions that are built in.
    List(List),
    /// Show what a built-in function does, its config and an example.
    Doc(Doc),
}

/// Who runs functions.
#[derive(Clone, Debug, Args)]
pub(crate) struct Runtimes {
    /// A function-runner that runs what is not built in (HOST:PORT).
    #[arg(long, value_name = "ADDRESS", help_heading = "Loggia")]
    pub(crate) runner: Option<String>,
    /// The authorities (PEM) that a function-runner's certificate must come from; with it, TLS is spoken.
    #[arg(long, value_name = "FILE", requires = "runner", help_heading = "Loggia")]
    pub(crate) runner_ca: Option<PathBuf>,
    /// The certificate (PEM) to show to a function-runner.
    #[arg(long, value_name = "FILE", requires_all = ["runner_ca", "runner_key"], help_heading = "Loggia")]
    pub(crate) runner_cert: Option<PathBuf>,
    /// The key of that certificate.
    #[arg(long, value_name = "FILE", requires = "runner_cert", help_heading = "Loggia")]
    pub(crate) runner_key: Option<PathBuf>,
    /// Who runs functions, in the order they are asked.
    #[arg(long, value_delimiter = ',', default_value = "builtin,exec,grpc", help_heading = "Loggia")]
    pub(crate) runtimes: Vec<RuntimeName>,
    /// The largest message to and from a function-runner, in bytes.
    #[arg(long, default_value_t = loggia_grpc::Remote::MESSAGE_LIMIT, value_name = "BYTES", help_heading = "Loggia")]
    pub(crate) max_message_size: usize,
    /// How long one function may run.
    #[arg(long, default_value = "5m", value_parser = duration, value_name = "DURATION", help_heading = "Loggia")]
    pub(crate) timeout: std::time::Duration,
    /// The most memory that the command may use, in MiB; by default three quarters of what the machine or the container has.
    #[arg(long, value_name = "MIB", help_heading = "Loggia")]
    pub(crate) memory: Option<u64>,
    /// A folder that kubeconform and kubeval may read schemas from, if their config names it; may be given several times.
    #[arg(long = "schema-folder", env = "LOGGIA_SCHEMA_FOLDER", value_name = "DIR", help_heading = "Loggia")]
    pub(crate) schema_folders: Vec<OsString>,
    /// A result of severity `error` is a failure, even if the function exits with 0.
    #[arg(long, help_heading = "Loggia")]
    pub(crate) strict: bool,
    /// What to print: lines for people, or one JSON document on standard output.
    #[arg(long, default_value = "text", value_name = "FORMAT", help_heading = "Loggia")]
    pub(crate) output_format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RuntimeName {
    Builtin,
    Exec,
    Grpc,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
}

/// How much of a package is read.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct PackageLimits {
    /// The largest file of a package, in bytes.
    #[arg(long, default_value_t = Limits::default().file_bytes, value_name = "BYTES", help_heading = "Loggia")]
    pub(crate) max_file_size: u64,
    /// The most bytes that all resource files of a package have, when it is read and after each function.
    #[arg(long, default_value_t = Limits::default().total_bytes, value_name = "BYTES", help_heading = "Loggia")]
    pub(crate) max_package_size: u64,
    /// The most resource files of a package, with those of the packages inside it.
    #[arg(long, default_value_t = Limits::default().files, value_name = "COUNT", help_heading = "Loggia")]
    pub(crate) max_package_files: usize,
}

/// What matters only where a container engine runs functions. Loggia has none, and takes them as they come.
#[derive(Clone, Debug, Args)]
pub(crate) struct Containers {
    /// When an engine would pull an image; Loggia has none.
    #[arg(long, hide = true, default_value = "IfNotPresent", value_parser = pull_policy)]
    pub(crate) image_pull_policy: String,
    /// The registry of images without one.
    #[arg(long, env = "KPT_IMAGE_PREFIX", default_value = loggia_function::image::DEFAULT_PREFIX)]
    pub(crate) image_prefix: String,
    /// Not supported.
    #[arg(long, hide = true)]
    pub(crate) allow_alpha_wasm: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  loggia fn render                        render the package in this folder, in place
  loggia fn render app --diff             show what would change, and write nothing
  loggia fn render app -o unwrap          print the rendered resources, and write nothing
  loggia fn render app --allow-exec       also run functions that are programs of this machine
  loggia fn render app --runner localhost:9445
                                          have a function-runner run what is not built in")]
pub(crate) struct Render {
    /// The package; this folder if not given.
    #[arg(value_name = "PKG_PATH")]
    pub(crate) package: Option<PathBuf>,
    #[arg(hide = true)]
    pub(crate) ignored: Vec<String>,
    /// Run functions that are programs of this machine.
    #[arg(long)]
    pub(crate) allow_exec: bool,
    /// Let functions use the network, where an engine runs them.
    #[arg(long, hide = true)]
    pub(crate) allow_network: bool,
    /// Where the resources go instead of the package: stdout, unwrap, or a new folder.
    #[arg(short, long, value_name = "stdout|unwrap|DIR")]
    pub(crate) output: Option<String>,
    /// Write what functions have to say to DIR/results.yaml.
    #[arg(long, value_name = "DIR")]
    pub(crate) results_dir: Option<PathBuf>,
    /// Show what would change, and write nothing.
    #[arg(long, conflicts_with = "output", help_heading = "Loggia")]
    pub(crate) diff: bool,
    /// Let functions write any file of the package, also those that no resource was read from.
    #[arg(long, help_heading = "Loggia")]
    pub(crate) allow_any_path: bool,
    /// How deep packages may nest.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=256), value_name = "COUNT", help_heading = "Loggia")]
    pub(crate) max_package_depth: u16,
    /// The most functions in one pipeline, and the most selectors of one function.
    #[arg(long, default_value_t = 1000, value_name = "COUNT", help_heading = "Loggia")]
    pub(crate) max_pipeline_steps: usize,
    #[command(flatten)]
    pub(crate) limits: PackageLimits,
    #[command(flatten)]
    pub(crate) containers: Containers,
    #[command(flatten)]
    pub(crate) runtimes: Runtimes,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  loggia fn eval app -i set-namespace -- namespace=staging
                                          run a built-in function with two words of config
  loggia fn eval app -i set-labels --match-kind Deployment -- tier=db
                                          the same for some resources only
  loggia fn eval app -i set-labels -s -t mutator -- tier=db
                                          and save it in the Kptfile
  loggia fn eval app --exec ./my-function --fn-config config.yaml
                                          run a program of this machine
  loggia fn source app | loggia fn eval - -i no-op | loggia fn sink out
                                          work on a stream")]
pub(crate) struct Eval {
    /// A folder, or - for standard input; this folder if not given.
    #[arg(value_name = "DIR|-")]
    pub(crate) places: Vec<String>,
    /// The function config's data as KEY=VALUE; the first may be its kind.
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) arguments: Vec<String>,
    /// The function to run, by image.
    #[arg(short, long)]
    pub(crate) image: Option<String>,
    /// The function to run, by command.
    #[arg(long)]
    pub(crate) exec: Option<String>,
    /// Saved with the function.
    #[arg(long)]
    pub(crate) tag: Option<String>,
    /// What the function is saved as.
    #[arg(short = 't', long = "type", value_name = "mutator|validator")]
    pub(crate) function_type: Option<String>,
    /// Save the function in the Kptfile.
    #[arg(short, long)]
    pub(crate) save: bool,
    /// The file with the function config.
    #[arg(long, value_name = "FILE")]
    pub(crate) fn_config: Option<PathBuf>,
    /// Write what the function has to say to DIR/results.yaml.
    #[arg(long, value_name = "DIR")]
    pub(crate) results_dir: Option<PathBuf>,
    /// Where the resources go instead of the folder: stdout, unwrap, or a new folder.
    #[arg(short, long, value_name = "stdout|unwrap|DIR")]
    pub(crate) output: Option<String>,
    #[arg(long, hide = true)]
    pub(crate) network: bool,
    #[arg(long, hide = true)]
    pub(crate) mount: Vec<String>,
    #[arg(short = 'e', long, hide = true)]
    pub(crate) env: Vec<String>,
    #[arg(long, hide = true)]
    pub(crate) as_current_user: bool,
    #[arg(short = 'm', long, hide = true)]
    pub(crate) include_meta_resources: bool,
    /// Let the function write any file of the folder, also those that no resource was read from.
    #[arg(long, help_heading = "Loggia")]
    pub(crate) allow_any_path: bool,
    #[command(flatten)]
    pub(crate) limits: PackageLimits,
    #[command(flatten)]
    pub(crate) selection: Selection,
    #[command(flatten)]
    pub(crate) containers: Containers,
    #[command(flatten)]
    pub(crate) runtimes: Runtimes,
}

/// Which resources the function gets.
#[derive(Clone, Debug, Args)]
pub(crate) struct Selection {
    /// Only resources of this apiVersion.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) match_api_version: String,
    /// Only resources of this kind.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) match_kind: String,
    /// Only resources of this name.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) match_name: String,
    /// Only resources in this namespace.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) match_namespace: String,
    /// Only resources with this annotation.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) match_annotations: Vec<String>,
    /// Only resources with this label.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) match_labels: Vec<String>,
    /// No resources of this apiVersion.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) exclude_api_version: String,
    /// No resources of this kind.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) exclude_kind: String,
    /// No resources of this name.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) exclude_name: String,
    /// No resources in this namespace.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) exclude_namespace: String,
    /// No resources with this annotation.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) exclude_annotations: Vec<String>,
    /// No resources with this label.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) exclude_labels: Vec<String>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  loggia fn source app > resources.yaml\n  loggia fn source app -o unwrap | kubectl apply -f -"
)]
pub(crate) struct Source {
    /// The folder; this one if not given.
    #[arg(value_name = "DIR")]
    pub(crate) folders: Vec<PathBuf>,
    /// A ResourceList with all annotations (stdout), or plain documents (unwrap).
    #[arg(short, long, default_value = "stdout")]
    pub(crate) output: String,
    /// A file to embed as function config.
    #[arg(long, value_name = "FILE")]
    pub(crate) fn_config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) limits: PackageLimits,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  loggia fn source app | loggia fn eval - -i set-labels -- a=b | loggia fn sink out"
)]
pub(crate) struct Sink {
    /// The folder to make.
    #[arg(value_name = "DIR", required = true)]
    pub(crate) folders: Vec<PathBuf>,
    /// Write files of any name, also such that no resource would be read from.
    #[arg(long, help_heading = "Loggia")]
    pub(crate) allow_any_path: bool,
    /// The most bytes to read from standard input.
    #[arg(long, default_value_t = Limits::default().total_bytes, value_name = "BYTES", help_heading = "Loggia")]
    pub(crate) max_package_size: u64,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// What to print.
    #[arg(long, default_value = "text", value_name = "FORMAT")]
    pub(crate) output_format: Format,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  loggia fn doc set-labels\n  loggia fn doc --image ghcr.io/kptdev/krm-functions-catalog/starlark:latest"
)]
pub(crate) struct Doc {
    /// The function.
    pub(crate) name: Option<String>,
    /// The function, by image.
    #[arg(short, long)]
    pub(crate) image: Option<String>,
}

// === impl PackageLimits ===

impl PackageLimits {
    /// What is read of a folder.
    pub(crate) fn read(self) -> Limits {
        let Self { max_file_size, max_package_size, max_package_files } = self;
        Limits {
            file_bytes: max_file_size,
            total_bytes: max_package_size,
            files: max_package_files,
            ..Limits::default()
        }
    }

    /// What a render takes.
    pub(crate) fn render(self) -> loggia_render::Limits {
        let output = usize::try_from(self.max_package_size).unwrap_or(usize::MAX);
        loggia_render::Limits { read: self.read(), output, ..loggia_render::Limits::default() }
    }
}

/// A duration as Go writes it.
pub(crate) fn duration(text: &str) -> Result<std::time::Duration, String> {
    let parsed: loggia_go::Duration =
        text.parse().map_err(|_| "write for example 30s, 5m or 1h30m".to_owned())?;
    parsed.positive().ok_or_else(|| "must be positive".to_owned())
}

fn pull_policy(text: &str) -> Result<String, String> {
    let known = ["Always", "IfNotPresent", "Never"];
    let found = known.iter().find(|policy| policy.eq_ignore_ascii_case(text));
    found.map(ToString::to_string).ok_or_else(|| format!("must be one of: {}", known.join(", ")))
}
