//! loggia-image: files and a config become a container image, with no container engine.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Parser;
use loggia_image::{Config, Entries, Image, Platform};

/// Writes an image as an OCI image layout, which `skopeo copy oci:FOLDER docker://NAME` pushes.
#[derive(Debug, Parser)]
struct Arguments {
    /// The folder of the layout.
    #[arg(long, value_name = "FOLDER")]
    output: PathBuf,
    /// What the layout calls the image.
    #[arg(long)]
    tag: Option<String>,
    /// A word of the command that always runs; give it once a word.
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    entrypoint: Vec<String>,
    /// A word of the arguments that a user may replace; give it once a word.
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    cmd: Vec<String>,
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    #[arg(long, value_name = "NAME=VALUE")]
    label: Vec<String>,
    #[arg(long, value_name = "UID[:GID]")]
    user: Option<String>,
    #[arg(long, value_name = "PATH")]
    working_dir: Option<String>,
    /// By default that of this program.
    #[arg(long, value_name = "OS/ARCHITECTURE")]
    platform: Option<Platform>,
    /// A file or a whole folder; the mode is octal.
    #[arg(long, value_name = "PATH=SOURCE[:MODE]")]
    file: Vec<String>,
    /// A file with the certificate authorities of Mozilla's root program, PEM. They come with this program.
    #[arg(long, value_name = "PATH")]
    authorities: Option<String>,
    /// An empty folder.
    #[arg(long, value_name = "PATH[:MODE]")]
    folder: Vec<String>,
    /// Another name for a file of the image.
    #[arg(long, value_name = "PATH=TARGET")]
    link: Vec<String>,
}

#[allow(clippy::print_stdout, clippy::print_stderr, reason = "the one place that speaks")]
fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(digest) => {
            println!("{digest}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("loggia-image: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> anyhow::Result<String> {
    let Arguments {
        output,
        tag,
        entrypoint,
        cmd,
        env,
        label,
        user,
        working_dir,
        platform,
        file,
        authorities,
        folder,
        link,
    } = arguments;
    let mut entries = Entries::default();
    for text in &folder {
        let (path, mode) = with_mode(text)?;
        entries.folder(path, mode.unwrap_or(0o755))?;
    }
    for text in &file {
        let (path, source) = pair("--file", text)?;
        let (source, mode) = with_mode(source)?;
        entries.file(path, source.as_ref(), mode)?;
    }
    if let Some(path) = authorities {
        entries.text(path, loggia_image::authorities(), 0o444)?;
    }
    for text in &link {
        let (path, target) = pair("--link", text)?;
        entries.link(path, target)?;
    }
    for text in &env {
        pair("--env", text)?;
    }
    let labels = label
        .iter()
        .map(|text| pair("--label", text).map(|(name, value)| (name.to_owned(), value.to_owned())))
        .collect::<anyhow::Result<_>>()?;
    let config = Config { entrypoint, cmd, env, user, working_dir, labels };
    let image = Image { entries, config, platform: platform.unwrap_or_default(), tag };
    Ok(image.write(&output)?.digest)
}

fn pair<'a>(flag: &str, text: &'a str) -> anyhow::Result<(&'a str, &'a str)> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name, value)),
        _ => bail!("`{flag} {text}` has no `=` after a name"),
    }
}

/// Takes an octal mode off the end of `text`, if there is a colon.
fn with_mode(text: &str) -> anyhow::Result<(&str, Option<u32>)> {
    let Some((path, mode)) = text.rsplit_once(':') else { return Ok((text, None)) };
    let number = u32::from_str_radix(mode, 8).ok().filter(|number| *number <= 0o7777);
    let number = number.with_context(|| format!("`{text}`: `{mode}` is no octal mode; write as in `555`"))?;
    Ok((path, Some(number)))
}
