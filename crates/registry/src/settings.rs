//! What an installation decides about registries.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::{Observer, Platform, PrivateRegistries, SignaturePolicy};

/// The configuration of an [`Images`](crate::Images). The default trusts the system's certificates and has no
/// credentials.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The platform of the nodes; selects the image in an index.
    pub platform: Platform,
    /// The file with credentials, in the format of Docker's `config.json`. It is read at each fetch, so a rotated
    /// one is used at once. Registries that it does not list are looked up in `keychain`.
    pub auth_file: Option<PathBuf>,
    /// Prefixes of public images, for which `auth_file` is not used.
    pub public_prefixes: Vec<String>,
    /// Further files with credentials.
    pub keychain: Keychain,
    /// CA certificates to trust in addition to the system's: files, or folders with `ca.crt` or `ca.pem`. They are
    /// checked for changes before each fetch.
    pub authorities: Vec<PathBuf>,
    /// Registries, each `host` or `host:port`, that are reached by plain HTTP.
    pub plain_http: Vec<String>,
    /// Registries that may be in a private network or on this machine. Those that `plain_http` lists may, those with
    /// an entry of their own in a file with credentials may, and with `authorities` all that speak TLS may.
    pub private: PrivateRegistries,
    /// Hosts of token services, each `host` or `host:port`, that may get credentials for a registry of another owner.
    pub realms: Vec<String>,
    /// How long a resolved tag is cached; forever without one. A digest always is.
    pub ttl: Option<Duration>,
    /// How many images are cached.
    pub capacity: usize,
    pub timeouts: Timeouts,
    pub retries: Retries,
    /// Which images must be signed; none without one.
    pub signatures: Option<SignaturePolicy>,
    /// Gets every request and lookup.
    pub observer: Option<Arc<dyn Observer>>,
}

/// How long things may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until a connection is established, TLS included.
    pub connect: Duration,
    /// Until the first byte of a response, and between two reads of it.
    pub read: Duration,
    /// The whole fetch of one image, retries included.
    pub total: Duration,
    /// One run of a credential helper.
    pub helper: Duration,
}

/// How often, and after which pauses, a request is sent again that failed for a passing reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// Retries after the first attempt.
    pub count: u32,
    /// The pause before the first of them; each later one is twice as long, and all vary by half.
    pub first_pause: Duration,
    /// The upper limit of a pause. If `Retry-After` asks for more, the request is not sent again.
    pub longest_pause: Duration,
}

/// Files with credentials, in the order in which they are searched.
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
            private: PrivateRegistries::default(),
            realms: Vec::new(),
            ttl: None,
            capacity: 4096,
            timeouts: Timeouts::default(),
            retries: Retries::default(),
            signatures: None,
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
    /// The files in which Docker and Podman store the credentials of the user who runs this program.
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
