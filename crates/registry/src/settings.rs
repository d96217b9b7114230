//! What an installation decides about registries.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::{Observer, Platform};

/// What an [`Images`](crate::Images) is made from. The default asks as anybody would: the certificates of
/// the system, the credentials of the user who runs the program.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The platform of the nodes, for which an index is resolved.
    pub platform: Platform,
    /// The file with credentials in the form of Docker's configuration. It is read at each fetch, so what a
    /// rotation leaves there is used at once; `keychain` is asked where it has nothing.
    pub auth_file: Option<PathBuf>,
    /// Prefixes of images that are public, for which `auth_file` is not used.
    pub public_prefixes: Vec<String>,
    /// Where credentials are looked for otherwise.
    pub keychain: Keychain,
    /// Certificates to trust beside those of the system: files, or folders with `ca.crt` or `ca.pem`. They
    /// are looked at before each fetch, too.
    pub authorities: Vec<PathBuf>,
    /// Registries, each `host` or `host:port`, that are spoken to in the clear.
    pub plain_http: Vec<String>,
    /// How long what a tag stands for is believed; for ever without one. A digest always is.
    pub ttl: Option<Duration>,
    /// How many images are remembered.
    pub capacity: usize,
    pub timeouts: Timeouts,
    pub retries: Retries,
    /// Who is told of requests, if somebody wants to be.
    pub observer: Option<Arc<dyn Observer>>,
}

/// How long things may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until a connection, TLS included, stands.
    pub connect: Duration,
    /// Between two pieces of an answer, and until the first.
    pub read: Duration,
    /// All that is done about one image, retries included.
    pub total: Duration,
    /// One run of a credential helper.
    pub helper: Duration,
}

/// How often a request is repeated that failed for a reason that may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// Repetitions after the first try.
    pub count: u32,
    /// The pause before the first of them; each later one is twice as long, and all vary by half.
    pub first_pause: Duration,
    /// No pause is longer, also not one that a registry asks for.
    pub longest_pause: Duration,
}

/// Files with credentials, in the order in which they are asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keychain {
    pub files: Vec<PathBuf>,
}

// === impl Settings ===

impl Default for Settings {
    fn default() -> Self {
        Self {
            platform: Platform::here(),
            auth_file: None,
            public_prefixes: vec!["gcr.io/kpt-fn/".to_owned()],
            keychain: Keychain::default(),
            authorities: Vec::new(),
            plain_http: Vec::new(),
            ttl: None,
            capacity: 4096,
            timeouts: Timeouts::default(),
            retries: Retries::default(),
            observer: None,
        }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            read: Duration::from_secs(10),
            total: Duration::from_secs(30),
            helper: Duration::from_secs(10),
        }
    }
}

impl Default for Retries {
    fn default() -> Self {
        Self { count: 3, first_pause: Duration::from_millis(250), longest_pause: Duration::from_secs(10) }
    }
}

// === impl Keychain ===

impl Keychain {
    /// Where Docker and Podman keep the credentials of the user who runs this program.
    pub fn of_this_user() -> Self {
        Self::from_variables(|name| {
            std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
        })
    }

    fn from_variables(variable: impl Fn(&str) -> Option<PathBuf>) -> Self {
        let home = variable("HOME");
        let under_home = |path: &str| home.as_deref().map(|home: &Path| home.join(path));
        let docker = variable("DOCKER_CONFIG").or_else(|| under_home(".docker"));
        let files = [
            docker.map(|folder| folder.join("config.json")),
            variable("REGISTRY_AUTH_FILE"),
            variable("XDG_RUNTIME_DIR").map(|folder| folder.join("containers/auth.json")),
            under_home(".config/containers/auth.json"),
        ];
        Self { files: files.into_iter().flatten().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(variables: &[(&str, &str)]) -> Vec<String> {
        let find =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, v)| PathBuf::from(v));
        let keychain = Keychain::from_variables(find);
        keychain.files.iter().map(|file| file.display().to_string()).collect()
    }

    #[test]
    fn the_files_of_docker_come_before_those_of_podman() {
        assert_eq!(files(&[("HOME", "/h")]), ["/h/.docker/config.json", "/h/.config/containers/auth.json"]);
        assert_eq!(
            files(&[
                ("HOME", "/h"),
                ("DOCKER_CONFIG", "/d"),
                ("XDG_RUNTIME_DIR", "/x"),
                ("REGISTRY_AUTH_FILE", "/a")
            ]),
            ["/d/config.json", "/a", "/x/containers/auth.json", "/h/.config/containers/auth.json"]
        );
        assert!(files(&[]).is_empty());
    }
}
