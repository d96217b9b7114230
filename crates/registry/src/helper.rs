//! Credential helpers: programs that look up passwords.
//!
//! In Docker's protocol, `docker-credential-NAME get` reads the name of a server and writes a JSON object. The
//! programs inherit our environment, because many need `HOME`, `DISPLAY` or the variables of a cloud's CLI.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use loggia_go::errno_text;
use loggia_process::{self as process, Bounds, Command, Environment, Limits, Processes};
use serde::Deserialize;
use tokio::time::Instant;
use tracing::debug;
use zeroize::Zeroize as _;

use crate::docker_config::Proof;
use crate::secret::Secret;

/// What a helper writes if it has no credential for a server. The protocol has no other sign for it than this
/// text (docker-credential-helpers: `credentials/error.go`).
const NOT_FOUND: [&str; 2] = ["credentials not found in native keychain", "credentials not found"];

const LIMITS: Limits = Limits { concurrent: 4, stderr: 4 << 10 };

/// The most that a helper may write.
const OUTPUT_LIMIT: usize = 64 << 10;

/// The longest name of a helper.
const MAX_NAME: usize = 64;

/// Runs helpers.
#[derive(Debug)]
pub(crate) struct Helpers {
    processes: Processes,
    timeout: Duration,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Output {
    #[serde(default)]
    username: String,
    #[serde(default)]
    secret: String,
}

// === impl Helpers ===

impl Helpers {
    pub(crate) fn new(timeout: Duration) -> Self {
        Self { processes: Processes::new(LIMITS), timeout }
    }

    /// The credential that the helper has for the server, if any.
    pub(crate) async fn get(&self, name: &str, server: &str) -> Result<Option<Proof>, String> {
        let program = format!("docker-credential-{name}");
        if !is_plain(name) {
            let shown: String = name.chars().take(MAX_NAME).collect();
            return Err(format!("`{}` is no name of a credential helper", shown.escape_debug()));
        }
        debug!(program, server, "Asking a credential helper");
        let command = Command {
            program: PathBuf::from(&program),
            arguments: vec!["get".into()],
            environment: Environment::Inherited,
        };
        let deadline = Instant::now() + self.timeout;
        let bounds = Bounds { deadline: Some(deadline), stdout: OUTPUT_LIMIT };
        let finished = self.processes.run(&command, Bytes::from(server.to_owned()), bounds).await;
        let finished = finished.map_err(|error| match error {
            process::Error::DeadlineExceeded => format!("`{program}` gave no answer in {:?}", self.timeout),
            process::Error::NotStarted { source, .. } => {
                format!("`{program}` cannot be started: fork/exec {program}: {}", errno_text(&source))
            }
            other => format!("`{program}`: {other}"),
        })?;
        if finished.status.success() {
            return read(&finished.stdout).ok_or_else(|| format!("`{program}` wrote no credentials"));
        }
        let output = String::from_utf8_lossy(&finished.stdout);
        if NOT_FOUND.iter().any(|words| output.trim().eq_ignore_ascii_case(words)) {
            return Ok(None);
        }
        // Its output is not shown: it may hold a secret.
        Err(format!(
            "`{program}` failed: {}; run `echo {server} | {program} get` to see why",
            finished.status
        ))
    }
}

/// Whether a name can only be that of a program: letters, digits and `-_.`, not too many.
fn is_plain(name: &str) -> bool {
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    (1..=MAX_NAME).contains(&name.len()) && plain && !name.contains("..")
}

/// Reads a helper's output, in which the user name `<token>` marks an identity token. None is invalid output.
fn read(stdout: &[u8]) -> Option<Option<Proof>> {
    let Output { mut username, secret } = serde_json::from_slice(stdout).ok()?;
    let secret = Secret::new(secret);
    let proof = match username.as_str() {
        "" if secret.is_empty() => None,
        "<token>" => Some(Proof::IdentityToken(secret)),
        name => Some(Proof::Password { username: Secret::new(name), password: secret }),
    };
    username.zeroize();
    Some(proof)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_is_a_password_or_a_token() {
        let proof = |text: &str| read(text.as_bytes());
        assert_eq!(
            proof(r#"{"ServerURL": "r.io", "Username": "u", "Secret": "p"}"#),
            Some(Some(Proof::Password { username: Secret::new("u"), password: Secret::new("p") }))
        );
        assert_eq!(
            proof(r#"{"Username": "<token>", "Secret": "t"}"#),
            Some(Some(Proof::IdentityToken(Secret::new("t"))))
        );
        assert_eq!(proof("{}"), Some(None));
        assert_eq!(proof("hunter2"), None);
    }

    #[tokio::test]
    async fn a_name_cannot_lead_elsewhere() {
        let helpers = Helpers::new(Duration::from_secs(1));
        for name in ["", "../../bin/sh", "a b", "a\n", "\u{1b}[31m", "a..b", &"a".repeat(9_000)] {
            let error = helpers.get(name, "r.io").await.unwrap_err();
            assert!(
                error.contains("is no name") && error.len() < 200 && !error.contains('\u{1b}'),
                "{error}"
            );
        }
    }
}
