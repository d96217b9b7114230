//! Manifests, indexes and configs: what the bytes of a registry mean.
//!
//! Only what we need is read, and as leniently as Go reads it: fields may be missing or null.

use serde::Deserialize;

use crate::{Kind, Platform};

/// What we tell registries that we understand.
pub(crate) const ACCEPT: &str = "application/vnd.oci.image.index.v1+json, \
     application/vnd.docker.distribution.manifest.list.v2+json, \
     application/vnd.oci.image.manifest.v1+json, \
     application/vnd.docker.distribution.manifest.v2+json";

const INDEXES: [&str; 2] =
    ["application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json"];
const IMAGES: [&str; 2] =
    ["application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json"];
const SCHEMA_1: &str = "application/vnd.docker.distribution.manifest.v1+";

/// What a manifest's bytes are.
#[derive(Debug)]
pub(crate) enum Manifest {
    Image { config: Descriptor },
    Index { manifests: Vec<Descriptor> },
}

/// A pointer to other bytes.
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
    /// What it was built for, where it says so.
    pub(crate) platform: Option<Platform>,
    pub(crate) entrypoint: Vec<String>,
    pub(crate) env: Vec<String>,
    pub(crate) working_dir: String,
    pub(crate) user: String,
}

/// What is wrong with some bytes.
pub(crate) type Wrong = (Kind, String);

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
    pub(crate) fn parse(bytes: &[u8], content_type: &str) -> Result<Self, Wrong> {
        let malformed = |what: String| (Kind::Malformed, what);
        let declared = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if declared.starts_with(SCHEMA_1) {
            return Err(schema_1());
        }
        let RawManifest { schema_version, media_type, config, manifests } = serde_json::from_slice(bytes)
            .map_err(|error| malformed(format!("the answer is no manifest{}", place(&error))))?;
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
        // A document that two readers can take for two things is an attack: all that speak must agree.
        let said = [kind(&declared), media_type.as_deref().and_then(kind)];
        match (config, manifests) {
            (Some(config), None) if !said.contains(&Some(true)) => Ok(Self::Image { config }),
            (None, Some(manifests)) if !said.contains(&Some(false)) => Ok(Self::Index { manifests }),
            (None, None) => {
                Err(malformed("the answer is neither an image nor an index of images".to_owned()))
            }
            _ => Err(malformed("the answer says that it is an image and an index at once".to_owned())),
        }
    }
}

/// Where JSON went wrong. The parser's own words may quote what a registry sent, which may be anything.
fn place(error: &serde_json::Error) -> String {
    format!(": line {}, column {} is not as it should be", error.line(), error.column())
}

fn schema_1() -> Wrong {
    (Kind::Malformed, "the image has a manifest of schema 1, which is no longer supported".to_owned())
}

/// The manifest of an index that runs on `platform`, or which platforms there are.
pub(crate) fn choose<'a>(manifests: &'a [Descriptor], platform: &Platform) -> Result<&'a Descriptor, Wrong> {
    // Attestations stand in an index as images for an unknown platform.
    let known = || manifests.iter().map(|each| (each, each.platform())).filter(|(_, of)| of.os != "unknown");
    let exact = known().find(|(_, of)| of == platform);
    exact.or_else(|| known().find(|(_, of)| platform.runs(of))).map(|(manifest, _)| manifest).ok_or_else(
        || {
            let mut there: Vec<_> = known().map(|(_, of)| of.to_string()).collect();
            there.dedup();
            there.truncate(16);
            let there = if there.is_empty() { "nothing".to_owned() } else { there.join(", ") };
            (Kind::NoPlatform, format!("the image is not built for {platform}, but for {there}"))
        },
    )
}

// === impl Descriptor ===

impl Descriptor {
    pub(crate) fn is_index(&self) -> bool {
        INDEXES.contains(&self.media_type.as_str())
    }

    /// What it says; one that says nothing means linux/amd64, as in Go's registry library.
    fn platform(&self) -> Platform {
        self.platform.clone().and_then(RawPlatform::told).unwrap_or_else(Platform::amd64)
    }
}

// === impl RawPlatform ===

impl RawPlatform {
    fn told(self) -> Option<Platform> {
        let Self { os, architecture, variant } = self;
        let (os, architecture) = (os.unwrap_or_default(), architecture.unwrap_or_default());
        let told = !os.is_empty() || !architecture.is_empty();
        told.then(|| Platform { os, architecture, variant: variant.unwrap_or_default() })
    }
}

// === impl Config ===

impl Config {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Wrong> {
        let malformed = |error| (Kind::Malformed, format!("the config is not an image's{}", place(&error)));
        let RawConfig { platform, config } = serde_json::from_slice(bytes).map_err(malformed)?;
        let RawRun { entrypoint, cmd, env, working_dir, user } = config.unwrap_or_default();
        // Docker writes an entrypoint that was taken away as one empty word.
        let words = |words: Option<Vec<String>>| words.filter(|words| words != &[""]).unwrap_or_default();
        let entrypoint = [words(entrypoint), words(cmd)].concat();
        if entrypoint.is_empty() {
            let what = "the image declares neither an entrypoint nor a command, so there is nothing to run";
            return Err((Kind::NoEntrypoint, what.to_owned()));
        }
        Ok(Self {
            platform: platform.told(),
            entrypoint,
            env: env.unwrap_or_default(),
            working_dir: working_dir.unwrap_or_default(),
            user: user.unwrap_or_default(),
        })
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
    fn what_is_no_manifest_is_refused_with_the_reason() {
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
}
