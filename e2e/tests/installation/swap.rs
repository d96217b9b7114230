//! A stock installation of Porch whose function runner is exchanged for ours, and back, while it is used.

use std::path::{Path, PathBuf};

use loggia_e2e::{Cluster, content_tag, function_image, push_wrapper, static_program, wrapper_image};
use loggia_image::{Config, Entries, Image};

use crate::support::{FUNCTIONS, LIST, Load, SYSTEM, client, first_answer, remove};

const STOCK: &str = include_str!("stock.yaml");

#[tokio::test(flavor = "multi_thread")]
async fn a_stock_porch_is_swapped_to_loggia_and_back_under_load() {
    let Some(cluster) = Cluster::here() else { return };
    let cache = PathBuf::from(std::env::var_os("LOGGIA_CACHE").unwrap_or_default());
    let originals = ["server", "wrapper-server"].map(|name| cache.join("peers/porch").join(name));
    if !originals.iter().all(|program| program.exists()) {
        return loggia_testing::left_out("the original was not built (make peers)");
    }
    let alone = cluster.namespace_alone("swap").await.unwrap();
    let installation = Installation(cluster.clone());
    let [server, wrapper] = originals;
    let original_runner = original_image(&cluster, &server);
    let tag = content_tag(&wrapper).unwrap();
    let original_wrapper = push_wrapper(&cluster, &wrapper, &format!("original-wrapper:{tag}")).unwrap();
    let image = cluster.registry().push(&function_image("echo-function").unwrap(), "swap-echo:v1").unwrap();

    let stock = STOCK
        .replace("example.com/porch/function-runner:v1.5.8", &original_runner)
        .replace("example.com/porch/wrapper-server:v1.5.8", &original_wrapper);
    cluster.kubectl_with_input(&["apply", "-f", "-"], &stock).unwrap();
    installation.await_rollout();
    let client = client();
    assert_eq!(first_answer(&client, &image).await, LIST, "the original answers");
    let first = installation.pods();

    // To ours. The original drops what is in flight when it ends, so nothing is promised for that moment.
    installation.swap(&our_runner(&cluster), &wrapper_image(&cluster).unwrap());
    assert_eq!(first_answer(&client, &image).await, LIST, "Loggia answers");
    assert!(first.iter().any(|pod| installation.pods().contains(pod)), "the pod of the original is used");
    let policies = include_str!("../../../deploy/porch-swap/policies.yaml");
    cluster.kubectl_with_input(&["apply", "-f", "-"], policies).unwrap();
    assert_eq!(first_answer(&client, &image).await, LIST, "Loggia answers with the policies of the package");

    // And back, under load: ours answers what it was asked before it ends.
    let load = Load::start(&image);
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    installation.swap(&original_runner, &original_wrapper);
    let (answered, failed) = load.stop().await;
    // A stock manifest has one replica and no grace for those who still come to it: they are told to try again.
    let told = |text: &String| text.contains("The service is currently unavailable");
    assert!(answered > 50 && failed.iter().all(told), "{answered} answered; {failed:#?}");
    println!("{answered} answered, {} told to try again while the original took over", failed.len());
    assert_eq!(first_answer(&client, &image).await, LIST, "the original answers again");
    drop(installation);
    alone.end().await.unwrap();
}

/// The image of the original, with the paths that its manifests name.
fn original_image(cluster: &Cluster, server: &Path) -> String {
    let home = "/home/nonroot";
    let mut entries = Entries::default();
    entries.file(format!("{home}/server"), server, Some(0o555)).unwrap();
    let probe = static_program("wrapper-server");
    entries.file(format!("{home}/grpc-health-probe"), &probe, Some(0o555)).unwrap();
    entries.text(format!("{home}/config.yaml"), "functions: []\n", 0o444).unwrap();
    entries.folder(format!("{home}/functions"), 0o555).unwrap();
    let config = Config {
        entrypoint: vec![format!("{home}/server")],
        user: Some("10001:10001".to_owned()),
        ..Config::default()
    };
    let tag = content_tag(server).unwrap();
    let image = Image { entries, config, ..Image::default() };
    cluster.registry().push(&image, &format!("original-runner:{tag}")).unwrap()
}

/// The image of the release.
fn our_runner(cluster: &Cluster) -> String {
    let images = PathBuf::from(std::env::var_os("LOGGIA_IMAGES").expect("make e2e sets LOGGIA_IMAGES"));
    let layout = images.join("function-runner");
    let tag = content_tag(&layout.join("index.json")).unwrap();
    cluster.registry().push_layout(&layout, &format!("function-runner:{tag}")).unwrap()
}

/// Gone when this is dropped.
struct Installation(Cluster);

impl Installation {
    /// As `deploy/porch-swap` does it: only the images change.
    fn swap(&self, runner: &str, wrapper: &str) {
        let manifest = include_str!("../../../deploy/porch-swap/deployment.yaml")
            .replace("example.com/loggia/function-runner:v0.1.0", runner)
            .replace("example.com/loggia/wrapper-server:v0.1.0", wrapper)
            // The registry of the cluster is in a private network.
            .replace(
                "env:\n",
                "env:\n            - {name: LOGGIA_PRIVATE_REGISTRIES, value: registry.localhost}\n",
            );
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), manifest).unwrap();
        let patch = ["patch", "deployment", "function-runner", "-n", SYSTEM, "--patch-file"];
        self.0.kubectl(&[&patch[..], &[file.path().to_str().unwrap()]].concat()).unwrap();
        self.await_rollout();
    }

    fn await_rollout(&self) {
        let arguments = ["rollout", "status", "deployment/function-runner", "-n", SYSTEM, "--timeout=180s"];
        if let Err(error) = self.0.kubectl(&arguments) {
            let pods = self.0.kubectl(&["describe", "pods", "-n", SYSTEM]);
            let log = self.0.kubectl(&["logs", "-n", SYSTEM, "deployment/function-runner", "--tail=50"]);
            panic!("{error}\n{pods:?}\n{log:?}");
        }
    }

    fn pods(&self) -> Vec<String> {
        let names = self.0.kubectl(&["get", "pods", "-n", FUNCTIONS, "-o", "name"]).unwrap();
        names.lines().map(ToOwned::to_owned).collect()
    }
}

impl Drop for Installation {
    fn drop(&mut self) {
        remove(&self.0);
    }
}
