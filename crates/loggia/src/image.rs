//! `loggia image`: what a registry says about an image.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgAction, Args, Subcommand, ValueEnum};
use loggia_registry::{Error, Images, Keychain, Metadata, Platform, Reference, Settings, Timeouts};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the digest, platform and entrypoint of an image as the function runner sees them.
    ///
    /// Exit code 0: the image can be run. 1: the registry or the image says otherwise, or it cannot be asked.
    Inspect(Inspect),
}

#[derive(Args, Debug)]
pub(crate) struct Inspect {
    /// The image, as in a Kptfile.
    pub(crate) image: String,
    /// A file with credentials in the form of Docker's config.json (`--registry-auth-secret-path` of the
    /// function runner); where it has none, those of Docker and Podman are used.
    #[arg(long, value_name = "FILE")]
    registry_auth: Option<PathBuf>,
    /// Certificates to trust beside the system's: a PEM file, or a folder with ca.crt or ca.pem
    /// (`--tls-secret-path`).
    #[arg(long, value_name = "FILE")]
    ca: Vec<PathBuf>,
    /// The platform of the nodes.
    #[arg(long, value_name = "OS/ARCH", default_value_t = Platform::here())]
    platform: Platform,
    /// Ask without TLS. No credentials are sent, except to this machine.
    #[arg(long)]
    plain_http: bool,
    /// What stands before an image without a slash.
    #[arg(long, value_name = "PREFIX", default_value = "")]
    default_image_prefix: String,
    /// How long all of it may take.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    timeout: std::time::Duration,
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Show each step.
    #[arg(long, short, action = ArgAction::SetTrue)]
    verbose: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Output {
    Text,
    Json,
}

pub(crate) fn run(command: &Command) -> ExitCode {
    let Command::Inspect(inspect) = command;
    match inspect.run() {
        Ok((metadata, note)) => {
            let shown = match inspect.output {
                Output::Text => text(&metadata),
                Output::Json => json(&metadata),
            };
            tell(&note);
            match std::io::stdout().write_all(shown.as_bytes()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(_) => ExitCode::FAILURE,
            }
        }
        Err(error) => {
            tell(&format!("Error: {error}\n"));
            ExitCode::FAILURE
        }
    }
}

/// Standard error, which may be closed.
fn tell(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

fn duration(text: &str) -> Result<std::time::Duration, String> {
    let duration: loggia_go::Duration =
        text.parse().map_err(|error| format!("{error}; write for instance 10s"))?;
    duration.positive().ok_or_else(|| "it must be more than 0".to_owned())
}

// === impl Inspect ===

impl Inspect {
    /// What the image is, and what should be said beside.
    fn run(&self) -> Result<(Metadata, String), Error> {
        let Self {
            image,
            registry_auth,
            ca,
            platform,
            plain_http,
            default_image_prefix,
            timeout,
            output: _,
            verbose,
        } = self;
        if *verbose {
            let targets = loggia_go::klog::Targets { own: &["loggia"], muted: &[] };
            loggia_go::klog::init(4, loggia_go::klog::Format::Text, targets);
        }
        let image = loggia_registry::with_default_prefix(default_image_prefix, image);
        let registry = image.parse::<Reference>().map(|reference| reference.registry().to_owned());
        let defaults = Settings::default();
        let settings = Settings {
            platform: platform.clone(),
            auth_file: registry_auth.clone(),
            public_prefixes: vec![],
            keychain: Keychain::of_this_user(),
            authorities: ca.clone(),
            plain_http: registry.ok().filter(|_| *plain_http).into_iter().collect(),
            timeouts: Timeouts { total: *timeout, ..defaults.timeouts },
            ..defaults
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime needs only a few descriptors, and nothing is open yet");
        let metadata = runtime.block_on(async { Images::new(settings).metadata(&image).await })?;
        let metadata = Metadata::clone(&metadata);
        let note = match (
            metadata.platform.os == platform.os,
            metadata.platform.architecture == platform.architecture,
        ) {
            (true, true) => String::new(),
            _ => format!("Warning: the image is built for {}, not for {platform}\n", metadata.platform),
        };
        Ok((metadata, note))
    }
}

fn text(metadata: &Metadata) -> String {
    let Metadata {
        reference,
        digest,
        index_digest,
        porch_digest: _,
        platform,
        entrypoint,
        env,
        working_dir,
        user,
    } = metadata;
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<13}{value}");
    };
    line("Image:", &reference.to_string());
    line("Digest:", digest);
    if let Some(index) = index_digest {
        line("Index:", index);
    }
    line("Platform:", &platform.to_string());
    let words: Vec<_> = entrypoint.iter().map(|word| shell(word)).collect();
    line("Runs:", &words.join(" "));
    line("In folder:", if working_dir.is_empty() { "/" } else { working_dir });
    line("As user:", if user.is_empty() { "root" } else { user });
    for (number, variable) in env.iter().enumerate() {
        line(if number == 0 { "Variables:" } else { "" }, &shell(variable));
    }
    text
}

/// A word as a shell would need it.
fn shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace(char::is_control, "?").replace('\'', r"'\''")),
    }
}

fn json(metadata: &Metadata) -> String {
    let Metadata {
        reference,
        digest,
        index_digest,
        porch_digest,
        platform,
        entrypoint,
        env,
        working_dir,
        user,
    } = metadata;
    let value = serde_json::json!({
        "image": reference.to_string(),
        "digest": digest,
        "indexDigest": index_digest,
        "porchDigest": porch_digest,
        "platform": platform.to_string(),
        "entrypoint": entrypoint,
        "env": env,
        "workingDir": working_dir,
        "user": user,
    });
    format!("{value:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_shown_as_a_shell_would_need_them() {
        assert_eq!(shell("--a=b"), "--a=b");
        assert_eq!(shell("it's $X"), r"'it'\''s $X'");
        assert_eq!(shell(""), "''");
        assert_eq!(shell("a\x1b[2J"), "'a?[2J'");
    }
}
