//! Manifests, indexes and configs: parses the bodies of a registry's responses.
//!
//! Only the fields we need are read, and as leniently as Go reads them: they may be missing or null.

use serde::Deserialize;

use crate::{Kind, Platform};

/// The media types we accept.
pub(crate) const ACCEPT: &str = "application/vnd.oci.image.index.v1+json, \
     application/vnd.docker.distribution.manifest.list.v2+json, \
     application/vnd.oci.image.manifest.v1+json, \
     application/vnd.docker.distribution.manifest.v2+json";

const INDEXES: [&str; 2] =
    ["application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json"];
const IMAGES: [&str; 2] =
    ["application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json"];
const SCHEMA_1: &str = "application/vnd.docker.distribution.manifest.v1+";

/// How many entries of an index are looked at to name its platforms.
const MAX_NAMED: usize = 1000;
const MAX_PRINTED: usize = 80;

/// The most bytes of command line, variables, folder and user that are kept of an image. A container could not start
/// with much more, and many images are kept.
const MAX_RUN: usize = 64 << 10;

/// A parsed manifest.
#[derive(Debug)]
pub(crate) enum Manifest {
    Image { config: Descriptor },
    Index { manifests: Vec<Descriptor> },
}

/// A reference to another manifest or blob.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Descriptor {
    pub(crate) media_type: String,
    pub(crate) digest: String,
    platform: Option<RawPlatform>,
}

/// The part of a config that says what to run.
#[derive(Debug)]
pub(crate) struct Config {
    /// The platform it was built for, if it is given.
    pub(crate) platform: Option<Platform>,
    pub(crate) entrypoint: Vec<String>,
    pub(crate) env: Vec<String>,
    pub(crate) working_dir: String,
    pub(crate) user: String,
}

/// Why bytes are not valid; becomes an [`Error`](crate::Error) with the image and the registry.
pub(crate) type Invalid = (Kind, String);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawManifest {
    schema_version: Option<u64>,
    media_type: Option<String>,
    config: Option<Descriptor>,
    manifests: Option<Vec<Descriptor>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct RawPlatform {
    os: Option<String>,
    architecture: Option<String>,
    variant: Option<String>,
}

#[derive(Deserialize)]
struct RawConfig {
    #[serde(flatten)]
    platform: RawPlatform,
    config: Option<RawRun>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RawRun {
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
    env: Option<Vec<String>>,
    working_dir: Option<String>,
    user: Option<String>,
}

// === impl Manifest ===

impl Manifest {
    pub(crate) fn parse(bytes: &[u8], content_type: &str) -> Result<Self, Invalid> {
        let malformed = |observed: String| (Kind::Malformed, observed);
        let declared = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if declared.starts_with(SCHEMA_1) {
            return Err(schema_1());
        }
        let RawManifest { schema_version, media_type, config, manifests } = serde_json::from_slice(bytes)
            .map_err(|error| malformed(format!("the answer is no manifest{}", position(&error))))?;
        if schema_version == Some(1) {
            return Err(schema_1());
        }
        let kind = |media_type: &str| {
            if INDEXES.contains(&media_type) {
                Some(true)
            } else {
                IMAGES.contains(&media_type).then_some(false)
            }
        };
        // A document that two readers take for two things is an attack (CVE-2021-41190): header, `mediaType` and
        // fields must agree.
        let declared = [kind(&declared), media_type.as_deref().and_then(kind)];
        match (config, manifests) {
            (Some(config), None) if !declared.contains(&Some(true)) => Ok(Self::Image { config }),
            (None, Some(manifests)) if !declared.contains(&Some(false)) => Ok(Self::Index { manifests }),
            (None, None) => {
                Err(malformed("the answer is neither an image nor an index of images".to_owned()))
            }
            _ => Err(malformed("the answer says that it is an image and an index at once".to_owned())),
        }
    }
}

/// Where JSON is invalid. The parser's own message may quote the response, which may be anything.
fn position(error: &serde_json::Error) -> String {
    format!(": line {}, column {} is not as it should be", error.line(), error.column())
}

fn schema_1() -> Invalid {
    (Kind::Malformed, "the image has a manifest of schema 1, which is no longer supported".to_owned())
}

/// The manifest of an index that runs on `platform`; the error lists the platforms of the index.
pub(crate) fn choose<'a>(
    manifests: &'a [Descriptor],
    platform: &Platform,
) -> Result<&'a Descriptor, Invalid> {
    // BuildKit lists attestations as images for the platform `unknown/unknown`.
    let known = || manifests.iter().map(|each| (each, each.platform())).filter(|(_, of)| of.os != "unknown");
    let exact = known().find(|(_, of)| of == platform);
    exact.or_else(|| known().find(|(_, of)| platform.runs(of))).map(|(manifest, _)| manifest).ok_or_else(
        || {
            let mut there: Vec<_> =
                known().take(MAX_NAMED).map(|(_, of)| printable(&of.to_string())).collect();
            there.dedup();
            there.truncate(16);
            let there = if there.is_empty() { "nothing".to_owned() } else { there.join(", ") };
            (Kind::NoPlatform, format!("the image is not built for {platform}, but for {there}"))
        },
    )
}

/// A text of a registry for messages: short and without control characters.
pub(crate) fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX_PRINTED).collect()
}

// === impl Descriptor ===

impl Descriptor {
    pub(crate) fn is_index(&self) -> bool {
        INDEXES.contains(&self.media_type.as_str())
    }

    /// Its platform; without one it is linux/amd64, as in go-containerregistry (`pkg/v1/remote/index.go`).
    fn platform(&self) -> Platform {
        self.platform.clone().and_then(RawPlatform::declared).unwrap_or_else(Platform::amd64)
    }
}

// === impl RawPlatform ===

impl RawPlatform {
    fn declared(self) -> Option<Platform> {
        let Self { os, architecture, variant } = self;
        let (os, architecture) = (os.unwrap_or_default(), architecture.unwrap_or_default());
        let declared = !os.is_empty() || !architecture.is_empty();
        declared.then(|| Platform { os, architecture, variant: variant.unwrap_or_default() })
    }
}

// === impl Config ===

impl Config {
    /// The bytes that are kept of it, and what each text costs besides.
    fn size(&self) -> usize {
        let Self { platform, entrypoint, env, working_dir, user } = self;
        let platform = platform.iter().flat_map(|of| [&of.os, &of.architecture, &of.variant]);
        let texts = entrypoint.iter().chain(env).chain([working_dir, user]).chain(platform);
        texts.map(|text| text.len() + size_of::<String>()).sum()
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Invalid> {
        let malformed =
            |error| (Kind::Malformed, format!("the config is not an image's{}", position(&error)));
        let RawConfig { platform, config } = serde_json::from_slice(bytes).map_err(malformed)?;
        let RawRun { entrypoint, cmd, env, working_dir, user } = config.unwrap_or_default();
        // Docker stores an entrypoint that was reset as one empty word.
        let words = |words: Option<Vec<String>>| words.filter(|words| words != &[""]).unwrap_or_default();
        let entrypoint = [words(entrypoint), words(cmd)].concat();
        if entrypoint.is_empty() {
            let what = "the image declares neither an entrypoint nor a command, so there is nothing to run";
            return Err((Kind::NoEntrypoint, what.to_owned()));
        }
        let config = Self {
            platform: platform.declared(),
            entrypoint,
            env: env.unwrap_or_default(),
            working_dir: working_dir.unwrap_or_default(),
            user: user.unwrap_or_default(),
        };
        match config.size() {
            size if size > MAX_RUN => {
                let what = "bytes of command line, variables, folder and user";
                Err((
                    Kind::TooLarge,
                    format!("the config has {size} {what}, more than the limit of {MAX_RUN}"),
                ))
            }
            _ => Ok(config),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entrypoint(run: &str) -> Result<Vec<String>, Kind> {
        let config = Config::parse(format!("{{\"config\": {run}}}").as_bytes());
        config.map(|config| config.entrypoint).map_err(|(kind, _)| kind)
    }

    #[test]
    fn entrypoint_and_command_are_put_together_as_docker_does() {
        let words = |text: &str| Ok(text.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(entrypoint(r#"{"Entrypoint": ["/fn"], "Cmd": ["--a", "b"]}"#), words("/fn --a b"));
        assert_eq!(entrypoint(r#"{"Entrypoint": ["/fn"], "Cmd": null}"#), words("/fn"));
        assert_eq!(entrypoint(r#"{"Cmd": ["/bin/sh", "-c", "x"]}"#), words("/bin/sh -c x"));
        assert_eq!(entrypoint(r#"{"Entrypoint": [""], "Cmd": ["/fn"]}"#), words("/fn"));
        for neither in ["{}", "null", r#"{"Entrypoint": [], "Cmd": []}"#, r#"{"Entrypoint": null}"#] {
            assert_eq!(entrypoint(neither), Err(Kind::NoEntrypoint), "{neither}");
        }
        assert_eq!(entrypoint(r#"{"Entrypoint": "/fn"}"#), Err(Kind::Malformed));
    }

    #[test]
    fn invalid_manifests_are_refused_with_the_reason() {
        for (content_type, body, reason) in [
            ("application/vnd.docker.distribution.manifest.v1+prettyjws", "{}", "schema 1"),
            ("application/json", r#"{"schemaVersion": 1, "fsLayers": []}"#, "schema 1"),
            ("", "<html>", "the answer is no manifest"),
            ("", "{}", "neither an image nor an index"),
            ("", r#"{"config": {}, "manifests": []}"#, "at once"),
            (IMAGES[0], r#"{"manifests": []}"#, "at once"),
            (INDEXES[1], r#"{"config": {}}"#, "at once"),
            ("", r#"{"mediaType": "application/vnd.oci.image.index.v1+json", "config": {}}"#, "at once"),
        ] {
            let (_, text) = Manifest::parse(body.as_bytes(), content_type).unwrap_err();
            assert!(text.contains(reason), "{body}: {text}");
        }
    }

    #[test]
    fn an_index_leads_to_the_image_for_the_platform() {
        let index = r#"{"manifests": [
            {"digest": "1", "platform": {"os": "unknown", "architecture": "unknown"}},
            {"digest": "2", "platform": {"os": "linux", "architecture": "arm64", "variant": "v8"}},
            {"digest": "3", "platform": {"os": "linux", "architecture": "arm", "variant": "v7"}},
            {"digest": "4"}]}"#;
        let Manifest::Index { manifests } = Manifest::parse(index.as_bytes(), "").unwrap() else { panic!() };
        let digest =
            |platform: &str| choose(&manifests, &platform.parse().unwrap()).map(|each| each.digest.clone());
        assert_eq!(digest("linux/arm64").unwrap(), "2");
        assert_eq!(digest("linux/amd64").unwrap(), "4");
        assert_eq!(digest("linux/arm").unwrap(), "3");
        assert_eq!(
            digest("linux/s390x").unwrap_err().1,
            "the image is not built for linux/s390x, but for linux/arm64/v8, linux/arm/v7, linux/amd64"
        );
    }

    #[test]
    fn hostile_answers_are_refused_in_little_time_and_few_words() {
        let begin = std::time::Instant::now();
        for body in
            ["[".repeat(4 << 20), "{\"a\":".repeat(600_000), format!("{{\"x\": {}", "[".repeat(4 << 20))]
        {
            let (kind, text) = Manifest::parse(body.as_bytes(), "").unwrap_err();
            assert!(kind == Kind::Malformed && text.len() < 200, "{text}");
        }
        let entry = r#"{"platform":{"os":"a","architecture":"b"}}"#;
        let many = format!("{{\"manifests\": [{}]}}", vec![entry; 90_000].join(","));
        let Manifest::Index { manifests } = Manifest::parse(many.as_bytes(), "").unwrap() else { panic!() };
        let (_, text) = choose(&manifests, &Platform::amd64()).unwrap_err();
        assert_eq!(text, "the image is not built for linux/amd64, but for a/b");
        let long =
            format!(r#"{{"manifests": [{{"platform": {{"os": "\u001b[31m{}"}}}}]}}"#, "o".repeat(1 << 20));
        let Manifest::Index { manifests } = Manifest::parse(long.as_bytes(), "").unwrap() else { panic!() };
        let (_, text) = choose(&manifests, &Platform::amd64()).unwrap_err();
        assert!(text.len() < 300 && !text.contains('\u{1b}'), "{text}");
        assert!(begin.elapsed().as_secs() < 30, "{:?}", begin.elapsed());
    }

    #[test]
    fn a_command_line_that_is_too_long_is_refused() {
        let run = |count: usize| {
            entrypoint(&format!(
                r#"{{"Cmd": ["{}"], "Env": [{}"A=b"]}}"#,
                "x".repeat(100),
                "\"\",".repeat(count)
            ))
        };
        assert!(run(10).is_ok());
        assert_eq!(run(3000), Err(Kind::TooLarge));
        assert_eq!(entrypoint(&format!(r#"{{"Cmd": ["{}"]}}"#, "x".repeat(65 << 10))), Err(Kind::TooLarge));
    }
}
