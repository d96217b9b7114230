//! `loggia image`: what a registry says about an image.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{ArgAction, Args, Subcommand};
use loggia_function::Image;
use loggia_registry::{Images, Keychain, Metadata, Platform, PrivateRegistries, Settings, Timeouts};

use crate::cli::{Format, duration};
use crate::failure::Failure;
use crate::output;
use crate::printer::Printer;

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
    #[arg(long, short, value_enum, default_value_t = Format::Text)]
    output: Format,
    /// Show each step.
    #[arg(long, short, action = ArgAction::SetTrue)]
    verbose: bool,
}

pub(crate) fn run(command: &Command) -> Result<(), Failure> {
    let Command::Inspect(inspect) = command;
    let metadata = inspect.metadata()?;
    let (built_for, wanted) = (&metadata.platform, &inspect.platform);
    if (&built_for.os, &built_for.architecture) != (&wanted.os, &wanted.architecture) {
        Printer::stderr().say(&format!("Warning: the image is built for {built_for}, not for {wanted}\n"));
    }
    match inspect.output {
        Format::Text => output::print(&text(&metadata)),
        Format::Json => output::print_data(&json(&metadata)?),
    }
}

// === impl Inspect ===

impl Inspect {
    /// What the registry says about the image.
    fn metadata(&self) -> Result<Arc<Metadata>, Failure> {
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
        let image = Image::with_prefix(image, Some(default_image_prefix.as_str()));
        let registry = image.reference().map(|reference| reference.registry().to_owned());
        let defaults = Settings::default();
        let settings = Settings {
            platform: platform.clone(),
            auth_file: registry_auth.clone(),
            public_prefixes: vec![],
            keychain: Keychain::of_this_user(),
            authorities: ca.clone(),
            plain_http: registry.ok().filter(|_| *plain_http).into_iter().collect(),
            // Whoever runs this names the image.
            private: PrivateRegistries::Any,
            timeouts: Timeouts { total: *timeout, ..defaults.timeouts },
            ..defaults
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| format!("cannot start: {error}"))?;
        let metadata = runtime.block_on(async { Images::new(settings).metadata(&image).await });
        metadata.map_err(Failure::Image)
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
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace(char::is_control, "?").replace('\'', r"'\''"))
}

fn json(metadata: &Metadata) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(metadata).map_err(|error| error.to_string())?;
    Ok(format!("{text}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata() -> Metadata {
        Metadata {
            reference: "r.io/team/fn:v1".parse().unwrap(),
            digest: "sha256:1".into(),
            index_digest: None,
            porch_digest: "sha256:2".into(),
            platform: "linux/arm64".parse().unwrap(),
            entrypoint: vec!["/fn".into(), "a b".into()],
            env: vec!["A=b".into(), "C=d e".into()],
            working_dir: String::new(),
            user: "65532".into(),
        }
    }

    #[test]
    fn people_get_lines() {
        let expected = "\
Image:       r.io/team/fn:v1
Digest:      sha256:1
Platform:    linux/arm64
Runs:        /fn 'a b'
In folder:   /
As user:     65532
Variables:   A=b
             'C=d e'
";
        assert_eq!(text(&metadata()), expected);
        let indexed = Metadata { index_digest: Some("sha256:3".into()), ..metadata() };
        assert!(text(&indexed).contains("\nIndex:       sha256:3\nPlatform:"));
    }

    #[test]
    fn programs_get_every_field() {
        let expected = r#"{
  "image": "r.io/team/fn:v1",
  "digest": "sha256:1",
  "indexDigest": null,
  "porchDigest": "sha256:2",
  "platform": "linux/arm64",
  "entrypoint": [
    "/fn",
    "a b"
  ],
  "env": [
    "A=b",
    "C=d e"
  ],
  "workingDir": "",
  "user": "65532"
}
"#;
        assert_eq!(json(&metadata()).unwrap(), expected);
    }

    #[test]
    fn words_are_shown_as_a_shell_would_need_them() {
        assert_eq!(shell("--a=b"), "--a=b");
        assert_eq!(shell("it's $X"), r"'it'\''s $X'");
        assert_eq!(shell(""), "''");
        assert_eq!(shell("a\x1b[2J"), "'a?[2J'");
    }
}
