//! Files with registry credentials, in the form of Docker's `config.json`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read as _};
use std::path::Path;

use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::Deserialize;
use zeroize::Zeroizing;

use crate::Reference;
use crate::secret::Secret;

/// The key of Docker Hub in files, and what helper programs know it by.
pub(crate) const DOCKER_HUB_KEY: &str = "https://index.docker.io/v1/";

const DOCKER_HUB: &str = "index.docker.io";

/// Larger files are not read.
const MAX_FILE: u64 = 4 << 20;

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The content of such a file. A broken entry is an error only for images of its registry.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct DockerConfig {
    auths: Option<BTreeMap<String, Entry>>,
    creds_store: Option<String>,
    cred_helpers: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Entry {
    Auth(Auth),
    Other(serde::de::IgnoredAny),
}

/// One entry. A field may have any type here, so that a wrong one does not make the other entries unreadable.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "lowercase")]
struct Auth {
    auth: Field,
    username: Field,
    password: Field,
    identitytoken: Field,
    registrytoken: Field,
}

#[derive(Debug, Default, Deserialize)]
#[serde(from = "Option<Untyped>")]
enum Field {
    #[default]
    Absent,
    Text(Secret),
    Wrong,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Untyped {
    Text(String),
    Other(serde::de::IgnoredAny),
}

/// A secret that authorizes us to a registry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Proof {
    Password {
        username: Secret,
        password: Secret,
    },
    /// Exchanged for a token at the registry's token service.
    IdentityToken(Secret),
    /// Sent as a bearer token.
    RegistryToken(Secret),
}

/// Where a file says the credential for a registry is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// In the file, under the key.
    Proof { key: String, proof: Proof },
    /// The program `docker-credential-NAME` has it, under the name of the server.
    Helper { name: String, server: String },
}

// === impl DockerConfig ===

impl DockerConfig {
    /// The parsed file and its bytes, or none if it does not exist. An error never quotes the file.
    pub(crate) fn read(file: &Path) -> Result<Option<(Self, Vec<u8>)>, String> {
        let shown = file.display();
        let mut bytes = Vec::new();
        let read = fs::File::open(file).and_then(|opened| opened.take(MAX_FILE + 1).read_to_end(&mut bytes));
        match read {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(format!("open {shown}: {error}")),
            Ok(count) if count as u64 > MAX_FILE => Err(format!("{shown} has more than {MAX_FILE} bytes")),
            Ok(_) => match Self::parse(&bytes) {
                Ok(config) => Ok(Some((config, bytes))),
                Err(reason) => Err(format!("{shown}{reason}")),
            },
        }
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        // The parser's own message may quote the file, and with it a secret.
        serde_json::from_slice(bytes).map_err(|error| {
            let what = match error.classify() {
                serde_json::error::Category::Data => "is JSON, but not Docker's configuration",
                serde_json::error::Category::Eof => "ends too early to be JSON",
                _ => "is not JSON",
            };
            format!(":{}:{}: the file {what}", error.line(), error.column())
        })
    }

    /// Where to find a credential for an image, in Docker's order: helpers first.
    pub(crate) fn find(&self, reference: &Reference) -> Result<Vec<Found>, String> {
        let mut found: Vec<_> = self.helper(reference).into_iter().collect();
        if let Some((key, auth)) = self.entry(reference)
            && let Some(proof) = auth.proof().map_err(|reason| format!("the entry `{key}`: {reason}"))?
        {
            found.push(Found::Proof { key: key.to_owned(), proof });
        }
        Ok(found)
    }

    fn helper(&self, reference: &Reference) -> Option<Found> {
        let registry = reference.registry();
        let server = if registry == DOCKER_HUB { DOCKER_HUB_KEY } else { registry };
        let own = self.cred_helpers.iter().flatten();
        let own = own
            .filter(|(key, _)| Scope::of(key).covers(reference))
            .max_by_key(|(key, _)| Scope::of(key).path.len());
        let name = own.map(|(_, name)| name).or(self.creds_store.as_ref()).filter(|name| !name.is_empty())?;
        Some(Found::Helper { name: name.clone(), server: server.to_owned() })
    }

    /// The most specific entry for an image: the longest path; among equal ones a key without scheme or path,
    /// then the shortest.
    fn entry(&self, reference: &Reference) -> Option<(&str, &Auth)> {
        let entries = self.auths.iter().flatten();
        entries
            .filter_map(|(key, entry)| match entry {
                Entry::Auth(auth) => Some((key.as_str(), auth)),
                Entry::Other(_) => None,
            })
            .filter(|(key, auth)| !auth.is_empty() && Scope::of(key).covers(reference))
            .max_by_key(|(key, _)| {
                let plain = *key == reference.registry() || *key == DOCKER_HUB_KEY;
                (Scope::of(key).path.len(), plain, std::cmp::Reverse(key.len()))
            })
    }
}

/// The images that a key is for.
#[derive(Debug, PartialEq, Eq)]
struct Scope<'a> {
    host: &'a str,
    path: &'a str,
}

// === impl Scope ===

impl<'a> Scope<'a> {
    fn of(key: &'a str) -> Self {
        let bare = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
        let (host, path) = bare.split_once('/').unwrap_or((bare, ""));
        let path = path.trim_matches('/');
        // Old clients appended the version of the protocol, which is not part of the path.
        let path = if path == "v1" || path == "v2" { "" } else { path };
        let host = match host {
            "docker.io" | "registry-1.docker.io" => DOCKER_HUB,
            other => other,
        };
        Self { host, path }
    }

    fn covers(&self, reference: &Reference) -> bool {
        let inside = |rest: &str| rest.is_empty() || rest.starts_with('/');
        self.host.eq_ignore_ascii_case(reference.registry())
            && (self.path.is_empty() || reference.repository().strip_prefix(self.path).is_some_and(inside))
    }
}

// === impl Auth ===

impl Auth {
    fn is_empty(&self) -> bool {
        let Self { auth, username, password, identitytoken, registrytoken } = self;
        [auth, username, password, identitytoken, registrytoken].iter().all(|field| field.is_absent())
    }

    /// The secret of an entry: a registry token if there is one, then an identity token, then `auth`, then name
    /// and password.
    fn proof(&self) -> Result<Option<Proof>, String> {
        if let Some(token) = self.registrytoken.text("registrytoken")? {
            return Ok(Some(Proof::RegistryToken(token.clone())));
        }
        if let Some(token) = self.identitytoken.text("identitytoken")? {
            return Ok(Some(Proof::IdentityToken(token.clone())));
        }
        if let Some(auth) = self.auth.text("auth")? {
            return decode(auth).map(Some);
        }
        let (username, password) = (self.username.text("username")?, self.password.text("password")?);
        Ok(username.or(password).map(|_| Proof::Password {
            username: username.cloned().unwrap_or_else(|| Secret::new("")),
            password: password.cloned().unwrap_or_else(|| Secret::new("")),
        }))
    }
}

fn decode(auth: &Secret) -> Result<Proof, String> {
    let invalid = "`auth` is not the base64 of `user:password`";
    let decoded = Zeroizing::new(BASE64.decode(auth.reveal().trim()).map_err(|_| invalid)?);
    let text = std::str::from_utf8(&decoded).map_err(|_| invalid)?;
    let (username, password) = text.split_once(':').ok_or(invalid)?;
    // Docker pads with zeros.
    let password = password.trim_end_matches('\0');
    Ok(Proof::Password { username: Secret::new(username), password: Secret::new(password) })
}

// === impl Field ===

impl Field {
    fn is_absent(&self) -> bool {
        match self {
            Self::Absent => true,
            Self::Text(text) => text.is_empty(),
            Self::Wrong => false,
        }
    }

    fn text(&self, name: &str) -> Result<Option<&Secret>, String> {
        match self {
            Self::Wrong => Err(format!("`{name}` is not text")),
            Self::Text(text) if !text.is_empty() => Ok(Some(text)),
            _ => Ok(None),
        }
    }
}

impl From<Option<Untyped>> for Field {
    fn from(found: Option<Untyped>) -> Self {
        match found {
            None => Self::Absent,
            Some(Untyped::Text(text)) => Self::Text(Secret::new(text)),
            Some(Untyped::Other(_)) => Self::Wrong,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOB: &str = "Ym9iOnNlY3JldA=="; // bob:secret

    fn find(config: &str, image: &str) -> Result<Vec<Found>, String> {
        DockerConfig::parse(config.as_bytes()).unwrap().find(&image.parse().unwrap())
    }

    fn key(keys: &[&str], image: &str) -> Option<String> {
        let entries: Vec<_> = keys.iter().map(|key| format!("{key:?}: {{\"auth\": {BOB:?}}}")).collect();
        match find(&format!("{{\"auths\": {{{}}}}}", entries.join(",")), image).unwrap().pop() {
            Some(Found::Proof { key, .. }) => Some(key),
            _ => None,
        }
    }

    fn password(username: &str, password: &str) -> Proof {
        Proof::Password { username: Secret::new(username), password: Secret::new(password) }
    }

    #[test]
    fn a_key_is_found_in_every_spelling() {
        for spelling in [
            "r.io:5000",
            "https://r.io:5000",
            "http://r.io:5000/",
            "https://r.io:5000/v1/",
            "https://r.io:5000/v2",
            "R.io:5000",
            "r.io:5000/team",
            "https://r.io:5000/team/fn/",
        ] {
            assert_eq!(key(&[spelling], "r.io:5000/team/fn:v1").as_deref(), Some(spelling));
        }
        for other in ["r.io", "r.io:5001", "r.io:5000/te", "r.io:5000/team/fn/x", "x.r.io:5000", ""] {
            assert_eq!(key(&[other], "r.io:5000/team/fn:v1"), None, "{other}");
        }
    }

    #[test]
    fn docker_hub_has_many_names() {
        for spelling in [
            "https://index.docker.io/v1/",
            "index.docker.io",
            "docker.io",
            "registry-1.docker.io",
            "https://docker.io",
        ] {
            assert_eq!(key(&[spelling], "nephio/fn").as_deref(), Some(spelling));
        }
    }

    #[test]
    fn the_longest_path_wins_and_then_the_plain_host() {
        let keys = ["r.io", "r.io/team", "https://r.io/v1/"];
        assert_eq!(key(&keys, "r.io/team/fn").as_deref(), Some("r.io/team"));
        assert_eq!(key(&keys, "r.io/other/fn").as_deref(), Some("r.io"));
    }

    #[test]
    fn every_form_of_credential_is_read() {
        for (entry, proof) in [
            (r#"{"auth": "Ym9iOnNlY3JldA=="}"#, password("bob", "secret")),
            (r#"{"auth": "Ym9iOnNlY3JldA"}"#, password("bob", "secret")),
            (r#"{"auth": "Ym9iOmE6Yg=="}"#, password("bob", "a:b")),
            (r#"{"username": "u", "password": "p"}"#, password("u", "p")),
            (r#"{"auth": "Ym9iOnNlY3JldA==", "username": "u", "password": "p"}"#, password("bob", "secret")),
            (r#"{"auth": "Ym9iOnNlY3JldA==", "identitytoken": "t"}"#, Proof::IdentityToken(Secret::new("t"))),
            (r#"{"registrytoken": "t"}"#, Proof::RegistryToken(Secret::new("t"))),
        ] {
            let found = find(&format!("{{\"auths\": {{\"r.io\": {entry}}}}}"), "r.io/fn").unwrap();
            assert_eq!(found, [Found::Proof { key: "r.io".to_owned(), proof }], "{entry}");
        }
        for nothing in ["{}", "null", r#"{"auth": ""}"#, r#"{"email": "x"}"#] {
            assert_eq!(find(&format!("{{\"auths\": {{\"r.io\": {nothing}}}}}"), "r.io/fn").unwrap(), []);
        }
    }

    #[test]
    fn a_broken_entry_is_an_error_for_its_registry_only() {
        let config = r#"{"auths": {"a.io": {"auth": "%%%"}, "b.io": {"auth": 7}, "c.io": {"auth": "Ym9iOnNlY3JldA=="}}}"#;
        assert_eq!(
            find(config, "a.io/fn").unwrap_err(),
            "the entry `a.io`: `auth` is not the base64 of `user:password`"
        );
        assert_eq!(find(config, "b.io/fn").unwrap_err(), "the entry `b.io`: `auth` is not text");
        assert_eq!(find(config, "c.io/fn").unwrap().len(), 1);
        assert_eq!(find(config, "d.io/fn").unwrap(), []);
    }

    #[test]
    fn helpers_come_first_and_get_the_name_of_the_server() {
        let helper =
            |name: &str, server: &str| Found::Helper { name: name.to_owned(), server: server.to_owned() };
        let config = r#"{"credsStore": "desktop", "credHelpers": {"gcr.io": "gcloud", "https://r.io/v1/": "r"},
                         "auths": {"gcr.io": {}}}"#;
        assert_eq!(find(config, "gcr.io/fn").unwrap(), [helper("gcloud", "gcr.io")]);
        assert_eq!(find(config, "r.io/fn").unwrap(), [helper("r", "r.io")]);
        assert_eq!(find(config, "nephio/fn").unwrap(), [helper("desktop", "https://index.docker.io/v1/")]);
    }

    #[test]
    fn an_unusable_file_is_not_quoted() {
        for (file, reason) in [
            (r#"{"auths": {"r.io": {"auth": "hunter2"}"#, "ends too early to be JSON"),
            (r#"hunter2"#, "is not JSON"),
            (r#"["hunter2"]"#, "is JSON, but not Docker's configuration"),
        ] {
            let error = DockerConfig::parse(file.as_bytes()).unwrap_err();
            assert!(error.contains(reason) && !error.contains("hunter2"), "{error}");
        }
    }
}
