//! What an image is, as it was pushed.

use loggia_function::Image as Name;
use loggia_registry::{Images, Kind, Platform, Settings};
use serde_json::json;

use crate::support::http::{Reply, Stub};
use crate::support::image::Image;
use crate::support::server::Registry;
use crate::support::{images, installed, settings};

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

#[tokio::test]
async fn an_image_runs_its_entrypoint_and_command_as_docker_puts_them_together() {
    if !installed() {
        return;
    }
    let (registry, images) = (Registry::open(), images());
    let both = json!({"Entrypoint": ["/fn", "-a"], "Cmd": ["b"], "Env": ["A=b", "C="], "WorkingDir": "/w", "User": "7:8"});
    for docker in [false, true] {
        let name = |name: &str| format!("{name}:{docker}");
        let image = |run| Image { docker, ..Image::running(run) };
        let both = registry.push(&image(both.clone()), &name("both"));
        let both = images.metadata(&Name::new(&both)).await.unwrap();
        assert_eq!(both.entrypoint, words("/fn -a b"));
        assert_eq!(
            (both.env.clone(), both.working_dir.as_str(), both.user.as_str()),
            (words("A=b C="), "/w", "7:8")
        );
        assert_eq!(
            (both.platform.clone(), &both.porch_digest, &both.index_digest),
            (Platform::amd64(), &both.digest, &None)
        );
        let cmd = registry.push(&image(json!({"Cmd": ["/bin/sh", "-c", "exec /fn"]})), &name("cmd"));
        assert_eq!(
            images.metadata(&Name::new(&cmd)).await.unwrap().entrypoint,
            ["/bin/sh", "-c", "exec /fn"]
        );
        let neither = registry.push(&image(json!({"Env": ["A=b"]})), &name("neither"));
        let error = images.metadata(&Name::new(&neither)).await.unwrap_err();
        assert_eq!(error.kind(), Kind::NoEntrypoint);
        let expected = format!(
            "image `{neither}`: registry `{}`: reading the config: the image declares neither an entrypoint nor a \
             command, so there is nothing to run; add ENTRYPOINT or CMD to its Dockerfile",
            registry.host()
        );
        assert_eq!(error.to_string(), expected);
    }
}

#[tokio::test]
async fn an_index_leads_to_the_image_of_the_platform() {
    if !installed() {
        return;
    }
    let registry = Registry::open();
    let both = Image { platforms: vec!["amd64", "arm64"], index: true, ..Image::named("multi") };
    let multi = registry.push(&both, "multi:v1");
    let on = |platform: &str| Images::new(Settings { platform: platform.parse().unwrap(), ..settings() });
    let amd64 = on("linux/amd64").metadata(&Name::new(&multi)).await.unwrap();
    let arm64 = on("linux/arm64").metadata(&Name::new(&multi)).await.unwrap();
    assert_eq!(arm64.platform.to_string(), "linux/arm64");
    assert_ne!(amd64.digest, arm64.digest);
    assert_eq!(amd64.index_digest, arm64.index_digest);
    assert_eq!(arm64.porch_digest, amd64.digest);
    assert!(
        arm64.is(arm64.index_digest.as_ref().unwrap()) && arm64.is(&arm64.digest) && !arm64.is(&amd64.digest)
    );

    // By digest, of the index and of one image, it is the same.
    for digest in [arm64.index_digest.clone().unwrap(), arm64.digest.clone()] {
        let by_digest = on("linux/arm64")
            .metadata(&Name::new(&registry.image(&format!("multi@{digest}"))))
            .await
            .unwrap();
        assert_eq!(by_digest.digest, arm64.digest);
    }

    let lonely = Image { platforms: vec!["arm64"], index: true, ..Image::named("arm") };
    let lonely = registry.push(&lonely, "arm-index:v1");
    let error = on("linux/amd64").metadata(&Name::new(&lonely)).await.unwrap_err();
    assert_eq!(error.kind(), Kind::NoPlatform);
    assert!(
        error.to_string().contains("the image is not built for linux/amd64, but for linux/arm64"),
        "{error}"
    );
    let found = on("linux/arm64").metadata(&Name::new(&lonely)).await.unwrap();
    assert_eq!(found.porch_digest, found.digest);

    // Without an index the image says what it is, and whoever asks decides.
    let single = registry.push(&Image { platforms: vec!["arm64"], ..Image::named("arm") }, "arm:v1");
    assert_eq!(on("linux/amd64").metadata(&Name::new(&single)).await.unwrap().platform.architecture, "arm64");
}

#[tokio::test]
async fn a_very_large_config_is_read_and_a_missing_image_is_said_to_be_missing() {
    if !installed() {
        return;
    }
    let (registry, images) = (Registry::open(), images());
    let large = registry.push(&Image { padding: 3_500_000, ..Image::named("large") }, "team/large:v1");
    assert_eq!(images.metadata(&Name::new(&large)).await.unwrap().entrypoint, words("/fn large"));
    let missing = images.metadata(&Name::new(&registry.image("team/large:v2"))).await.unwrap_err();
    assert_eq!(missing.kind(), Kind::NotFound);
    let text = missing.to_string();
    assert!(
        text.contains("reading the manifest: HTTP 404: MANIFEST_UNKNOWN: manifest unknown; check"),
        "{text}"
    );
    let error = images.metadata(&Name::new("UPPER")).await.unwrap_err();
    assert_eq!(error.kind(), Kind::InvalidReference);
    assert!(error.to_string().starts_with("could not parse reference: UPPER: "), "{error}");
}

#[tokio::test]
async fn schema_1_is_refused_clearly() {
    let old = "application/vnd.docker.distribution.manifest.v1+prettyjws";
    let stub = Stub::start(move |_| Reply::ok(old, r#"{"schemaVersion": 1, "name": "x", "history": []}"#));
    let error = images().metadata(&Name::new(&format!("{}/old:v1", stub.host()))).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Malformed);
    assert!(
        error.to_string().contains("a manifest of schema 1, which is no longer supported; push it again"),
        "{error}"
    );
    assert_eq!(stub.count("GET"), 1);
}
