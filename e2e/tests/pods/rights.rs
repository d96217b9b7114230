//! What the runner may not do costs one clear line, and nothing else where it is not needed.

use std::time::{Duration, Instant};

use tonic::Status;

use crate::support::{PATIENCE, World, call, until};

/// One verb that the runner lacks, and what becomes of a call.
struct Case {
    resource: &'static str,
    verb: &'static str,
    /// A call is answered all the same.
    works: bool,
    /// What is said, once, in the log or to the caller.
    said: &'static str,
}

const CASES: [Case; 9] = [
    Case { resource: "pods", verb: "create", works: false, said: "grant the verb `create` on `pods`" },
    Case {
        resource: "pods",
        verb: "list",
        works: false,
        said: "grant the verbs `list` and `watch` on `pods`",
    },
    Case {
        resource: "pods",
        verb: "watch",
        works: false,
        said: "grant the verbs `list` and `watch` on `pods`",
    },
    Case { resource: "pods", verb: "patch", works: true, said: "grant the verb `patch` on `pods`" },
    Case { resource: "pods", verb: "delete", works: true, said: "grant the verb `delete` on `pods`" },
    Case {
        resource: "services",
        verb: "create",
        works: false,
        said: "grant the verb `create` on `services`",
    },
    Case {
        resource: "services",
        verb: "list",
        works: true,
        said: "grant the verbs `list` and `watch` on `services`",
    },
    Case { resource: "services", verb: "delete", works: true, said: "grant the verb `delete` on `services`" },
    Case {
        resource: "endpoints",
        verb: "watch",
        works: true,
        said: "grant the verbs `list` and `watch` on `endpoints`",
    },
];

#[tokio::test]
async fn rights_on_secrets_and_templates_are_named_to_whoever_needs_them() {
    let Some(world) = World::new("no-secrets").await else { return };
    let registry = world.namespace.cluster.private_registry();
    let behave = loggia_e2e::function_image("behave-function").unwrap();
    let image = registry.push(&behave, "behave:rights").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.json");
    std::fs::write(&config, registry.docker_config()).unwrap();
    std::fs::copy(registry.authority.as_ref().unwrap(), folder.path().join("ca.crt")).unwrap();
    let flags = [
        "--enable-private-registries".to_owned(),
        "--enable-private-registries-tls".to_owned(),
        format!("--registry-auth-secret-path={}", config.display()),
        format!("--tls-secret-path={}", folder.path().display()),
    ];
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let service = world.start(&flags);
    for verb in ["get", "create"] {
        world.patch_role(&role_without("secrets", verb));
        let said = format!("grant the verb `{verb}` on `secrets` to the runner's service account");
        let told = async || {
            let status = call(&service.address, &image, "").await.unwrap_err();
            status.message().contains(&said)
        };
        until(&said, PATIENCE, told).await;
    }
    // One that may be read and is another may not be changed.
    world.kubectl(&["create", "secret", "generic", "auth-secret", "--from-literal=.dockerconfigjson={}"]);
    world.patch_role(&role_without("secrets", "update"));
    let said = "grant the verb `update` on `secrets` to the runner's service account";
    let told = async || call(&service.address, &image, "").await.unwrap_err().message().contains(said);
    until(said, PATIENCE, told).await;
    drop(service);

    // Nobody may read the template: the start says so, and so does each call.
    let mut service = world.start(&["--function-pod-template=not-mine"]);
    let said = "grant the verb `get` on `configmaps` to the runner's service account";
    service.wait_for_line(said, PATIENCE).unwrap();
    let status = call(&service.address, &world.image, "").await.unwrap_err();
    assert!(status.message().contains(said), "{}", status.message());
    assert!(status.message().contains("failed to generate a base pod template: "), "{}", status.message());
}

/// The rules of the stock role, without one verb.
fn role_without(resource: &str, verb: &str) -> String {
    let stock = [
        ("pods", ["create", "delete", "patch", "get", "watch", "list"].as_slice()),
        ("services", ["create", "delete", "get", "watch", "list"].as_slice()),
        ("endpoints", ["create", "delete", "get", "watch", "list"].as_slice()),
        ("secrets", ["create", "delete", "update", "get"].as_slice()),
    ];
    let rules = stock.map(|(name, verbs)| {
        let verbs: Vec<_> = verbs.iter().filter(|one| name != resource || **one != verb).collect();
        serde_json::json!({ "apiGroups": [""], "resources": [name], "verbs": verbs })
    });
    serde_json::json!([{ "op": "replace", "path": "/rules", "value": rules }]).to_string()
}

#[tokio::test]
async fn each_right_that_is_missing_costs_one_clear_line() {
    // A few at a time: each has a runner of its own.
    for cases in CASES.as_chunks::<3>().0 {
        let [one, two, three] = cases;
        tokio::join!(lacking(one), lacking(two), lacking(three));
    }
}

async fn lacking(case: &'static Case) {
    let Case { resource, verb, works, said } = case;
    let Some(world) = World::new(&format!("no-{verb}-{resource}")).await else { return };
    world.patch_role(&role_without(resource, verb));
    let runner = format!("--as={}", world.runner.user);
    let refused = async || {
        let asked = ["auth", "can-i", *verb, *resource, &runner, "-n", &world.namespace.name];
        // It says no by its exit code, too.
        world.namespace.cluster.kubectl(&asked).is_err()
    };
    until("the right is taken away", PATIENCE, refused).await;
    let service = world.start(&["--pod-ttl=3s", "--scan-interval=1s"]);
    let begin = Instant::now();
    let outcome: Result<_, Status> = call(&service.address, &world.image, "").await;
    assert_eq!(outcome.is_ok(), *works, "{verb} {resource}: {outcome:?}");
    let soon = *works || begin.elapsed() < Duration::from_secs(15);
    assert!(soon, "{verb} {resource}: {:?}", begin.elapsed());
    if *works {
        // Long enough for a note on the pod, and for the end of its time.
        tokio::time::sleep(Duration::from_secs(2)).await;
        call(&service.address, &world.image, "").await.unwrap();
        tokio::time::sleep(Duration::from_secs(6)).await;
    }
    // Each call has a line of its own, with what its caller was told.
    let counts = |line: &String| line.contains(said) && !line.contains("] Evaluated image=");
    let lines: Vec<_> = service.log().into_iter().filter(counts).collect();
    let told = outcome.err().is_some_and(|status| status.message().contains(said));
    // What fails a call is told to the caller, and stands in the log as the reason of the failed start.
    assert!(told || *works, "{verb} {resource}: {}", service.log().join("\n"));
    assert!((1..=2).contains(&lines.len()) && (lines.len() == 1 || !works), "{verb} {resource}: {lines:#?}");
}
