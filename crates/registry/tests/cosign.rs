//! Signatures that cosign itself made, versions 2 and 3, at a real registry. `make deep` builds cosign and runs this.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, reason = "a test may")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use loggia_function::Image as Name;
use loggia_registry::{Images, Platform, PrivateRegistries, Settings, SignaturePolicy, Unverified};
use loggia_testing::registry::image::Image;
use loggia_testing::registry::server::Registry;
use serde_json::{Value, json};

const KEYS: [(&str, &[&str]); 4] = [
    ("p256", &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]),
    ("p384", &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"]),
    ("ed25519", &["-algorithm", "ED25519"]),
    ("rsa", &["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]),
];

/// A registry, and a folder with keys.
struct Bench {
    registry: Registry,
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let bench = Self { registry: Registry::open(), folder: tempfile::tempdir().unwrap() };
        for (name, arguments) in KEYS.into_iter().chain([("other", KEYS[0].1)]) {
            let pem = bench.path(&format!("{name}.pem"));
            run(Command::new("openssl").arg("genpkey").args(arguments).arg("-out").arg(&pem));
            let prefix = bench.path(name);
            run(bench
                .cosign("v2")
                .arg("import-key-pair")
                .arg("--key")
                .arg(&pem)
                .arg("--output-key-prefix")
                .arg(&prefix));
        }
        let config = run(bench.cosign("v3").args(["signing-config", "create"]));
        fs::write(bench.path("signing.json"), config).unwrap();
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn cosign(&self, version: &str) -> Command {
        let folder = std::env::var_os("LOGGIA_COSIGN")
            .map_or_else(|| loggia_testing::cache().join("cosign"), PathBuf::from);
        let program = folder.join(version).join("cosign");
        assert!(program.exists(), "{} is not there; `make deep` builds it", program.display());
        let mut command = Command::new(program);
        // Nothing of the user who runs the tests, and nothing of the Internet.
        command.env("COSIGN_PASSWORD", "").env("HOME", self.folder.path()).env("TUF_ROOT", self.path("tuf"));
        command
    }

    /// Signs an image by its digest.
    fn sign(&self, version: &str, key: &str, image: &str, more: &[&str]) {
        let mut command = self.cosign(version);
        command.args(["sign", "-y", "--allow-http-registry", "--key"]).arg(self.path(&format!("{key}.key")));
        match version {
            "v2" => command.arg("--tlog-upload=false"),
            _ => command.arg("--signing-config").arg(self.path("signing.json")),
        };
        run(command.args(more).arg(image));
    }

    fn images(&self, rule: &Value) -> Images {
        let file = self.path("policy.yaml");
        fs::write(&file, json!({"default": "deny", "rules": [rule]}).to_string()).unwrap();
        Images::new(Settings {
            platform: Platform::amd64(),
            private: PrivateRegistries::Any,
            signatures: Some(SignaturePolicy::read(&file).unwrap()),
            ..Settings::default()
        })
    }

    async fn verify(&self, image: &str, rule: &Value) -> Result<(), Unverified> {
        self.images(rule).verify(&Name::new(image)).await
    }

    async fn digest(&self, image: &str) -> String {
        let images = self.images(&json!({"images": ["*"], "allow": true}));
        images.metadata(&Name::new(image)).await.unwrap().resolved().to_owned()
    }

    /// Gives what has a tag another one, byte for byte.
    fn tag(&self, name: &str, from: &str, to: &str) {
        let url = |tag: &str| format!("http://localhost:{}/v2/{name}/manifests/{tag}", self.registry.port);
        let kinds = ["application/vnd.oci.image.index.v1+json", "application/vnd.oci.image.manifest.v1+json"];
        let accept = format!("Accept: {}", kinds.join(", "));
        let manifest = run(Command::new("curl").args(["-sSf", "-H", &accept]).arg(url(from)));
        let kind = kinds.iter().find(|kind| manifest.contains(&format!("\"mediaType\":\"{kind}\""))).unwrap();
        let put = format!("Content-Type: {kind}");
        run(Command::new("curl")
            .args(["-sSf", "-X", "PUT", "-H", &put, "--data-binary", &manifest])
            .arg(url(to)));
    }

    fn copy(&self, from: &str, to: &str) {
        let port = self.registry.port;
        let name = |path: &str| format!("docker://127.0.0.1:{port}/{path}");
        let mut command = Command::new("skopeo");
        command.args([
            "--insecure-policy",
            "copy",
            "--quiet",
            "--all",
            "--src-tls-verify=false",
            "--dest-tls-verify=false",
        ]);
        run(command.arg(name(from)).arg(name(to)));
    }
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn rule(keys: &[&str]) -> Value {
    let keys: Vec<_> = keys.iter().map(|key| format!("{key}.pub")).collect();
    json!({"images": ["*"], "keys": keys})
}

fn refused(verdict: Result<(), Unverified>) -> String {
    match verdict {
        Err(Unverified::Refused { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
#[ignore = "needs cosign; `make deep` builds it and runs this"]
async fn what_cosign_signs_is_verified_and_nothing_else() {
    let bench = Bench::new();
    for version in ["v2", "v3"] {
        for (key, _) in KEYS {
            let name = format!("{version}/{key}");
            let image = bench.registry.push(&Image::named(&name), &format!("{name}:v1"));
            let digest = bench.digest(&image).await;
            let pinned = format!("{}@{digest}", bench.registry.image(&name));
            assert!(
                refused(bench.verify(&image, &rule(&[key])).await).ends_with("there is no signature"),
                "{name}"
            );
            bench.sign(version, key, &pinned, &[]);
            bench.verify(&image, &rule(&[key])).await.unwrap_or_else(|error| panic!("{name}: {error}"));
            bench.verify(&pinned, &rule(&["other", key])).await.unwrap();
            assert!(
                refused(bench.verify(&image, &rule(&["other"])).await).contains("that another key made"),
                "{name}"
            );

            // The signature under the digest of another image.
            let other = bench.registry.push(&Image::named("other"), &format!("{name}:v2"));
            let tag = |digest: &str| digest.replace(':', "-") + if version == "v2" { ".sig" } else { "" };
            let (from, to) = (tag(&digest), tag(&bench.digest(&other).await));
            bench.tag(&name, &from, &to);
            let text = refused(bench.verify(&other, &rule(&[key])).await);
            assert!(text.contains(&format!("for another digest, `{digest}`")), "{name}: {text}");

            // The image with its signature in another repository. A bundle names none.
            if version == "v2" {
                bench.copy(&format!("{name}:v1"), &format!("{name}-copy:v1"));
                bench.copy(&format!("{name}:{from}"), &format!("{name}-copy:{from}"));
                let copy = bench.registry.image(&format!("{name}-copy:v1"));
                let text = refused(bench.verify(&copy, &rule(&[key])).await);
                assert!(text.contains("for another repository, `localhost:"), "{name}: {text}");
            }
        }
    }
}

#[tokio::test]
#[ignore = "needs cosign; `make deep` builds it and runs this"]
async fn two_keys_annotations_and_an_index() {
    let bench = Bench::new();
    for version in ["v2", "v3"] {
        let name = format!("{version}/index");
        let index = Image { platforms: vec!["amd64", "arm64"], ..Image::named(&name) };
        let image = bench.registry.push(&index, &format!("{name}:v1"));
        let digest = bench.digest(&image).await;
        let pinned = format!("{}@{digest}", bench.registry.image(&name));
        let mut all = rule(&["p256", "other"]);
        all["require"] = json!("all");
        bench.sign(version, "p256", &pinned, &["-a", "team=x"]);
        assert!(refused(bench.verify(&image, &all).await).contains("key `other.pub`"));
        bench.sign(version, "other", &pinned, &[]);
        bench.verify(&image, &all).await.unwrap();
        let mut annotated = rule(&["p256"]);
        annotated["annotations"] = json!({"team": "x"});
        bench.verify(&image, &annotated).await.unwrap();
        annotated["annotations"] = json!({"team": "y"});
        assert!(refused(bench.verify(&image, &annotated).await).contains("without the annotation `team=y`"));
        // The signature of the index is not one of the image in it that is named by itself, as for `cosign verify`.
        let images = bench.images(&rule(&["p256"]));
        let inner = images.metadata(&Name::new(&image)).await.unwrap().digest.clone();
        let inner = format!("{}@{inner}", bench.registry.image(&name));
        assert!(refused(bench.verify(&inner, &rule(&["p256"])).await).ends_with("there is no signature"));
    }
}

/// `make deep-record` writes what the unit tests of signatures read.
#[tokio::test]
#[ignore = "writes the fixtures"]
async fn record() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let bench = Bench::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/signatures");
    fs::create_dir_all(&folder).unwrap();
    let image = bench.registry.push(&Image::named("recorded"), "team/fn:v1");
    let digest = bench.digest(&image).await;
    let mut recorded = json!({"repository": bench.registry.image("team/fn"), "digest": digest});
    for (key, _) in KEYS {
        let name = format!("team/{key}");
        bench.copy("team/fn:v1", &format!("{name}:v1"));
        let pinned = format!("{}@{digest}", bench.registry.image(&name));
        bench.sign("v2", key, &pinned, &["-a", "team=x"]);
        bench.sign("v3", key, &pinned, &["-a", "team=x"]);
        let get = async |path: String| {
            let accept =
                "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json";
            let url = format!("http://localhost:{}/v2/{name}/{path}", bench.registry.port);
            let answer = reqwest::Client::new().get(url).header("accept", accept).send().await.unwrap();
            answer.text().await.unwrap()
        };
        let parse = |text: String| serde_json::from_str::<Value>(&text).unwrap();
        let tag = digest.replace(':', "-");
        let layer = parse(get(format!("manifests/{tag}.sig")).await)["layers"][0].clone();
        let referrer = parse(get(format!("manifests/{tag}")).await)["manifests"][0].clone();
        let manifest = parse(get(format!("manifests/{}", referrer["digest"].as_str().unwrap())).await);
        recorded[key] = json!({
            "key": fs::read_to_string(bench.path(&format!("{key}.pub"))).unwrap(),
            "payload": get(format!("blobs/{}", layer["digest"].as_str().unwrap())).await,
            "signature": layer["annotations"]["dev.cosignproject.cosign/signature"],
            "bundle": get(format!("blobs/{}", manifest["layers"][0]["digest"].as_str().unwrap())).await,
        });
    }
    fs::write(folder.join("cosign.json"), serde_json::to_string_pretty(&recorded).unwrap() + "\n").unwrap();
}
