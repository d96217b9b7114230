//! `deploy/`, applied as a user would: rendered by Loggia, run from the release images, reached by its Service's name.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use loggia_e2e::{Cluster, content_tag, function_image};
use serde_json::Value;

use crate::support::{FUNCTIONS, LIST, Load, SYSTEM, client, evaluate, first_answer, remove};

#[tokio::test(flavor = "multi_thread")]
async fn the_shipped_manifests_run_and_are_restarted_without_a_lost_call() {
    let Some(cluster) = Cluster::here() else { return };
    // The namespaces have fixed names, so only one such installation can be there.
    let alone = cluster.namespace_alone("deploy").await.unwrap();
    let installation = Installation::apply(&cluster);
    installation.await_rollout();
    let image = cluster.registry().push(&function_image("echo-function").unwrap(), "deploy-echo:v1").unwrap();

    let client = client();
    let answer = first_answer(&client, &image).await;
    assert_eq!(answer, LIST, "a function in a pod answers");
    let pods = installation.kubectl(&["get", "pods", "-n", FUNCTIONS, "-o", "name"]);
    assert_eq!(pods.lines().count(), 1, "{pods}");
    let answer = evaluate(&client, "no-op").await.unwrap();
    assert!(answer.contains("from-a-test"), "{answer}");

    installation.check_status(&image);

    let load = Load::start(&image);
    tokio::time::sleep(Duration::from_secs(1)).await;
    installation.kubectl(&["rollout", "restart", "deployment/function-runner", "-n", SYSTEM]);
    tokio::task::block_in_place(|| installation.await_rollout());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (answered, failed) = load.stop().await;
    assert!(failed.is_empty() && answered > 100, "{answered} answered; {failed:#?}");

    installation.check_rights();
    installation.check_policies(&image);
    installation.check_levels(&image);
    drop(installation);
    alone.end().await.unwrap();
}

/// The manifests on the cluster; gone when this is dropped.
struct Installation {
    cluster: Cluster,
    _folder: tempfile::TempDir,
}

impl Installation {
    fn apply(cluster: &Cluster) -> Self {
        let images = PathBuf::from(std::env::var_os("LOGGIA_IMAGES").expect("make e2e sets LOGGIA_IMAGES"));
        let registry = cluster.registry();
        let names = ["function-runner", "wrapper-server"]
            .map(|name| (name, images.join(name)))
            .map(|(name, layout)| {
                (format!("{name}:{}", content_tag(&layout.join("index.json")).unwrap()), layout)
            })
            .map(|(name, layout)| {
                let pushed = registry.push_layout(&layout, &name).unwrap();
                let repository = pushed.rsplit_once(':').unwrap().0;
                format!("{repository}@{}", digest(&layout))
            });
        let folder = tempfile::tempdir().unwrap();
        let package = folder.path().join("deploy");
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy"), &package);
        let kptfile = fs::read_to_string(package.join("Kptfile")).unwrap();
        let kptfile = kptfile
            .replace("example.com/loggia/function-runner:v0.1.0", &names[0])
            .replace("example.com/loggia/wrapper-server:v0.1.0", &names[1]);
        fs::write(package.join("Kptfile"), kptfile).unwrap();
        // The registry of the cluster is in a private network.
        let deployment = package.join("20-deployment.yaml");
        let flag = "--private-registries=registry.localhost";
        let text = fs::read_to_string(&deployment).unwrap();
        let text = text.replace("          args:\n", &format!("          args:\n            - {flag}\n"));
        assert!(text.contains(flag));
        fs::write(&deployment, text).unwrap();
        let here = std::env::current_exe().unwrap();
        let loggia = here.parent().and_then(Path::parent).unwrap().join("loggia");
        let rendered = Command::new(&loggia).args(["fn", "render"]).arg(&package).output().unwrap();
        assert!(rendered.status.success(), "{}", String::from_utf8_lossy(&rendered.stderr));

        let installation = Self { cluster: cluster.clone(), _folder: folder };
        let mut manifests: Vec<_> =
            fs::read_dir(&package).unwrap().map(|entry| entry.unwrap().path()).collect();
        manifests.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
        manifests.sort();
        for manifest in manifests {
            installation.kubectl(&["apply", "-f", manifest.to_str().unwrap()]);
        }
        installation
    }

    fn await_rollout(&self) {
        let arguments = ["rollout", "status", "deployment/function-runner", "-n", SYSTEM, "--timeout=180s"];
        if let Err(error) = self.cluster.kubectl(&arguments) {
            let pods = self.kubectl(&["describe", "pods", "-n", SYSTEM]);
            let log =
                self.cluster.kubectl(&["logs", "-n", SYSTEM, "deployment/function-runner", "--tail=50"]);
            panic!("{error}\n{pods}\n{log:?}");
        }
    }

    /// The page and its JSON of whichever replica had the function run in a pod.
    fn check_status(&self, image: &str) {
        let path = "jsonpath={.items[*].metadata.name}";
        let runners = self.kubectl(&["get", "pods", "-n", SYSTEM, "-l", "app=function-runner", "-o", path]);
        let get = |runner: &str, path: &str| {
            self.kubectl(&[
                "get",
                "--raw",
                &format!("/api/v1/namespaces/{SYSTEM}/pods/{runner}:9464/proxy{path}"),
            ])
        };
        let found = runners.split_whitespace().find_map(|runner| {
            let status: Value = serde_json::from_str(&get(runner, "/status.json")).unwrap();
            assert_eq!(status["phase"], "serving", "{runner}: {status:#}");
            let evaluation =
                status["evaluations"].as_array().unwrap().iter().find(|one| one["image"] == image)?;
            Some((runner, evaluation.clone(), status))
        });
        let (runner, evaluation, status) = found.expect("a replica has evaluated it");
        assert_eq!((&evaluation["evaluator"], &evaluation["outcome"]), (&"pod".into(), &"OK".into()));
        let functions = status["functions"].as_array().unwrap();
        let function = functions.iter().find(|function| function["image"] == image).unwrap();
        assert_eq!(function["pods"].as_array().unwrap().len(), 1, "{function:#}");
        assert_eq!(function["pods"][0]["state"], "idle", "{function:#}");
        assert!(get(runner, "/").contains("<!doctype html>"), "the page is not served");
        let metrics = get(runner, "/metrics");
        assert!(metrics.contains(&format!("loggia_pods{{image=\"{image}\",state=\"idle\"}} 1")), "{metrics}");
    }

    /// What the service account must not do is refused.
    fn check_rights(&self) {
        let user = format!("--as=system:serviceaccount:{SYSTEM}:porch-fn-runner");
        for (arguments, namespace) in [
            (["get", "secrets"], SYSTEM),
            (["get", "secrets"], FUNCTIONS),
            (["get", "pods"], SYSTEM),
            (["get", "pods"], "default"),
            (["get", "configmaps"], FUNCTIONS),
            (["get", "nodes"], FUNCTIONS),
        ] {
            let tried = self.cluster.kubectl(&[arguments[0], arguments[1], "-n", namespace, &user]);
            let refused = tried.expect_err(&format!("{arguments:?} in {namespace} is allowed")).to_string();
            assert!(refused.contains("Forbidden"), "{refused}");
        }
        let own = self.cluster.kubectl(&["get", "pods", "-n", FUNCTIONS, &user]);
        assert!(own.is_ok(), "{own:?}");
    }

    /// Whoever is not the runner must not reach a function pod, and a function must not reach anybody. The bridge of
    /// the test cluster does not enforce policies; that is said, and not taken for a success.
    fn check_policies(&self, image: &str) {
        let policies = self.kubectl(&["get", "networkpolicies", "-A", "-o", "name"]);
        assert_eq!(policies.lines().count(), 3, "{policies}");
        let path = "jsonpath={.items[0].status.podIP}";
        let address = self.kubectl(&["get", "pods", "-n", FUNCTIONS, "-o", path]);
        let target = format!("{address}:9446").parse().unwrap();
        match std::net::TcpStream::connect_timeout(&target, Duration::from_secs(3)) {
            Ok(_) => println!(
                "not enforced here: the network of this cluster lets anybody reach the pod of {image}"
            ),
            Err(error) => println!("enforced: {error}"),
        }
    }

    /// Namespaces enforce their levels, and function pods have the limits that the quota counts.
    fn check_levels(&self, image: &str) {
        let level = r"jsonpath={.metadata.labels.pod-security\.kubernetes\.io/enforce}";
        assert_eq!(self.kubectl(&["get", "namespace", SYSTEM, "-o", level]), "restricted");
        assert_eq!(self.kubectl(&["get", "namespace", FUNCTIONS, "-o", level]), "baseline");
        let used = "jsonpath={.status.used.pods}";
        let used = self.kubectl(&["get", "resourcequota", "function-pods", "-n", FUNCTIONS, "-o", used]);
        assert!(used.parse::<usize>().unwrap() >= 1, "{used}");
        let runs = "jsonpath={.items[*].spec.containers[*].image}";
        let runs = self.kubectl(&["get", "pods", "-n", FUNCTIONS, "-o", runs]);
        let repository = image.rsplit_once(':').unwrap().0;
        assert!(runs.contains(&format!("{repository}@sha256:")), "{runs}");
        let privileged = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers: [{name: c, image: x, \
                          securityContext: {privileged: true}}]\n";
        for namespace in [SYSTEM, FUNCTIONS] {
            let refused = self.cluster.kubectl_with_input(&["apply", "-n", namespace, "-f", "-"], privileged);
            let refused = refused.expect_err("a privileged pod is let in").to_string();
            assert!(refused.contains("violates PodSecurity"), "{refused}");
        }
    }

    fn kubectl(&self, arguments: &[&str]) -> String {
        self.cluster.kubectl(arguments).unwrap()
    }
}

impl Drop for Installation {
    fn drop(&mut self) {
        remove(&self.cluster);
    }
}

/// The digest of a layout's image, by which an installation names it.
fn digest(layout: &Path) -> String {
    let index: Value = serde_json::from_slice(&fs::read(layout.join("index.json")).unwrap()).unwrap();
    index["manifests"][0]["digest"].as_str().unwrap().to_owned()
}

#[test]
fn a_porch_that_is_installed_already_gets_the_policies_of_the_package() {
    let read = |name: &str| {
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(name)).unwrap()
    };
    let expected = format!("{}---\n{}", read("40-network-policies.yaml"), read("50-limits.yaml"));
    assert!(read("porch-swap/policies.yaml").ends_with(&expected), "copy them again");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
