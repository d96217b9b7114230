//! Templates from a ConfigMap, and private registries.

use std::time::{Duration, Instant};

use loggia_e2e::{function_image, wrapper_image};

use crate::support::{Load, PATIENCE, World, call, pod_of, until};

/// A template for function pods with some more lines for its container.
pub(crate) fn template(wrapper: &str, more: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{labels: {{team: a}}}}\nspec:\n  terminationGracePeriodSeconds: 5\n  \
         initContainers:\n  - name: copy-wrapper-server\n    image: {wrapper}\n    \
         command: [cp, -a, /home/nonroot/wrapper-server/., /wrapper-server-tools]\n    \
         volumeMounts: [{{name: tools, mountPath: /wrapper-server-tools}}]\n  containers:\n  - name: function\n    \
         image: to-be-replaced\n    command: [/wrapper-server-tools/wrapper-server]\n    \
         terminationMessagePolicy: FallbackToLogsOnError\n    {more}\n    \
         volumeMounts: [{{name: tools, mountPath: /wrapper-server-tools}}]\n  volumes: [{{name: tools, emptyDir: {{}}}}]\n"
    )
}

pub(crate) fn config_map(world: &World, name: &str) -> String {
    format!("{name}-{}", world.namespace.name)
}

/// Puts a template where the runner looks for it, and lets the runner read it.
pub(crate) fn install(world: &World, name: &str, pod: &str, service: Option<&str>) {
    install_with(world, name, pod, service, "get");
}

/// The same, with more rights than a stock installation grants.
fn install_with(world: &World, name: &str, pod: &str, service: Option<&str>, verbs: &str) {
    let indent = |text: &str| text.lines().map(|line| format!("    {line}\n")).collect::<String>();
    let service =
        service.map(|service| format!("  serviceTemplate: |\n{}", indent(service))).unwrap_or_default();
    let (map, space) = (config_map(world, name), &world.namespace.name);
    let manifest = format!(
        "apiVersion: v1\nkind: Namespace\nmetadata: {{name: porch-system}}\n---\napiVersion: v1\nkind: ConfigMap\n\
         metadata: {{name: {map}, namespace: porch-system}}\ndata:\n  template: |\n{}{service}---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {{name: {map}, namespace: porch-system}}\n\
         rules: [{{apiGroups: [''], resources: [configmaps], resourceNames: [{map}], verbs: [{verbs}]}}]\n---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {{name: {map}, namespace: porch-system}}\n\
         roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: {map}}}\n\
         subjects: [{{kind: ServiceAccount, name: porch-fn-runner, namespace: {space}}}]\n",
        indent(pod)
    );
    world.namespace.cluster.kubectl_with_input(&["apply", "-f", "-"], &manifest).unwrap();
}

#[tokio::test]
async fn a_template_that_changes_under_load_replaces_pods_and_fails_no_call() {
    let Some(world) = World::new("template").await else { return };
    let wrapper = wrapper_image(&world.namespace.cluster).unwrap();
    install(&world, "t", &template(&wrapper, "env: [{name: EDITION, value: '1'}]"), None);
    let flag = format!("--function-pod-template={}", config_map(&world, "t"));
    let mut service = world.start(&[&flag]);
    let first = pod_of(&call(&service.address, &world.image, "").await.unwrap());
    let pod = &world.pods().await[0];
    assert_eq!(pod.metadata.labels.as_ref().unwrap()["team"], "a");
    let load = Load::start(&service.address, &world.image, 4, "sleep 20");
    install(&world, "t", &template(&wrapper, "env: [{name: EDITION, value: '2'}]"), None);
    service.wait_for_line("The template of function pods changed", PATIENCE).unwrap();
    let begin = Instant::now();
    loop {
        let pods = world.living_pods().await;
        if pods.len() == 1 && pods[0].metadata.name.as_deref() != Some(&first) {
            let edition = &pods[0].spec.as_ref().unwrap().containers[0].env.as_ref().unwrap()[0];
            assert_eq!(edition.value.as_deref(), Some("2"));
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "the old pod is still there");
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    let (answered, failed) = load.stop().await;
    assert!(failed.is_empty() && answered > 10, "{answered} answered, {failed:?}");
    // A stock installation may only `get` it, and that is said once.
    let unwatched = service.log().iter().filter(|line| line.contains("no news of configmaps")).count();
    assert_eq!(unwatched, 1);

    // What is no template changes nothing.
    install(&world, "t", "spec: [", None);
    service.wait_for_line("the template of function pods stays as it was", PATIENCE).unwrap();
    call(&service.address, &world.image, "").await.unwrap();
}

#[tokio::test]
async fn a_template_that_may_be_watched_is_and_its_service_too() {
    let Some(world) = World::new("watched").await else { return };
    let wrapper = wrapper_image(&world.namespace.cluster).unwrap();
    let edition =
        |edition: &str| template(&wrapper, &format!("env: [{{name: EDITION, value: '{edition}'}}]"));
    let service = |team: &str| {
        format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{annotations: {{team: {team}}}}}\nspec: {{ports: [{{port: 9446}}]}}\n"
        )
    };
    let rights = "get, list, watch";
    install_with(&world, "w", &edition("1"), Some(&service("a")), rights);
    let flag = format!("--function-pod-template={}", config_map(&world, "w"));
    let mut runner = world.start(&[&flag]);
    let first = pod_of(&call(&runner.address, &world.image, "").await.unwrap());
    let team = r"jsonpath={.items[*].metadata.annotations.team}";
    assert_eq!(world.kubectl(&["get", "services", "-o", team]), "a");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let begin = Instant::now();
    install_with(&world, "w", &edition("2"), Some(&service("b")), rights);
    runner.wait_for_line("The template of function pods changed", PATIENCE).unwrap();
    assert!(begin.elapsed() < Duration::from_secs(5), "it is news at once: {:?}", begin.elapsed());
    let replaced = async || pod_of(&call(&runner.address, &world.image, "").await.unwrap()) != first;
    until("the pod is replaced", PATIENCE, replaced).await;
    let only_new = async || world.kubectl(&["get", "services", "-o", team]) == "b";
    until("the service is replaced", PATIENCE, only_new).await;
    assert!(!runner.log().iter().any(|line| line.contains("no news of configmaps")));
}

#[tokio::test]
async fn the_template_objects_of_newer_releases_are_used_and_followed() {
    let Some(world) = World::new("objects").await else { return };
    let kind = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: \
                servicetemplates.config.porch.kpt.dev}\nspec:\n  group: config.porch.kpt.dev\n  scope: Namespaced\n  \
                names: {plural: servicetemplates, singular: servicetemplate, kind: ServiceTemplate}\n  versions:\n  - \
                {name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, \
                x-kubernetes-preserve-unknown-fields: true}}}\n";
    let cluster = &world.namespace.cluster;
    cluster.kubectl_with_input(&["apply", "-f", "-"], kind).unwrap();
    let crd = "crd/servicetemplates.config.porch.kpt.dev";
    cluster.kubectl(&["wait", "--for=condition=Established", "--timeout=60s", crd]).unwrap();
    let rule = |group: &str, resource: &str| {
        let value = serde_json::json!({ "apiGroups": [group], "resources": [resource], "verbs": ["get", "list", "watch"] });
        serde_json::json!({ "op": "add", "path": "/rules/-", "value": value })
    };
    let rules = [rule("", "podtemplates"), rule("config.porch.kpt.dev", "servicetemplates")];
    world.patch_role(&serde_json::to_string(&rules).unwrap());
    let wrapper = wrapper_image(cluster).unwrap();
    let pod_template = |edition: &str| {
        let pod = template(&wrapper, &format!("env: [{{name: EDITION, value: '{edition}'}}]"));
        let inner: String = pod.lines().skip(2).map(|line| format!("  {line}\n")).collect();
        format!(
            "apiVersion: v1\nkind: PodTemplate\nmetadata: {{name: base-pod-template}}\ntemplate:\n{inner}"
        )
    };
    world.namespace.apply(&pod_template("1")).unwrap();
    world
        .namespace
        .apply(
            "apiVersion: config.porch.kpt.dev/v1alpha1\nkind: ServiceTemplate\nmetadata: {name: base-service-template}\n\
             template: {metadata: {annotations: {team: s}}, spec: {type: ClusterIP, ports: [{port: 9446, targetPort: 9446}], \
             selector: {fn.kpt.dev/image: to-be-replaced}}}\n",
        )
        .unwrap();
    let mut runner = world.start(&[]);
    let first = pod_of(&call(&runner.address, &world.image, "").await.unwrap());
    let pod = &world.pods().await[0];
    assert_eq!(pod.metadata.labels.as_ref().unwrap()["team"], "a");
    let version = world.kubectl(&[
        "get",
        "podtemplate",
        "base-pod-template",
        "-o",
        "jsonpath={.metadata.resourceVersion}",
    ]);
    assert_eq!(pod.metadata.annotations.as_ref().unwrap()["fn.kpt.dev/template-version"], version);
    let team = r"jsonpath={.items[*].metadata.annotations.team}";
    assert_eq!(world.kubectl(&["get", "services", "-o", team]), "s");
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.namespace.apply(&pod_template("2")).unwrap();
    runner.wait_for_line("The template of function pods changed", Duration::from_secs(5)).unwrap();
    let replaced = async || pod_of(&call(&runner.address, &world.image, "").await.unwrap()) != first;
    until("the pod is replaced", PATIENCE, replaced).await;
}

#[tokio::test]
async fn a_private_registry_is_used_with_its_certificate_and_password_and_the_pull_secret_follows_the_file() {
    let Some(world) = World::new("private").await else { return };
    let registry = world.namespace.cluster.private_registry();
    let image = registry.push(&function_image("behave-function").unwrap(), "behave:private").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.json");
    std::fs::write(
        &config,
        r#"{"auths": {"registry.test:5443": {"username": "loggia", "password": "wrong"}}}"#,
    )
    .unwrap();
    std::fs::copy(registry.authority.as_ref().unwrap(), folder.path().join("ca.crt")).unwrap();
    let flags = [
        "--enable-private-registries".to_owned(),
        "--enable-private-registries-tls".to_owned(),
        format!("--registry-auth-secret-path={}", config.display()),
        format!("--tls-secret-path={}", folder.path().display()),
    ];
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let service = world.start(&flags);
    let status = call(&service.address, &image, "").await.unwrap_err();
    assert!(status.message().contains("unable to get the entrypoint for"), "{}", status.message());
    assert_eq!(status.code(), tonic::Code::Unknown);
    assert!(!status.message().contains("wrong"), "{}", status.message());

    std::fs::write(&config, registry.docker_config()).unwrap();
    let begin = Instant::now();
    while let Err(status) = call(&service.address, &image, "").await {
        assert!(begin.elapsed() < PATIENCE, "{}", status.message());
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let secret = |world: &World| {
        world.kubectl(&["get", "secret", "auth-secret", "-o", r"jsonpath={.data.\.dockerconfigjson}"])
    };
    let before = secret(&world);
    assert!(!before.is_empty());
    // A rotation reaches the cluster without a restart and without a call.
    std::fs::write(
        &config,
        registry.docker_config().replace("}}}", r#"}, "other.test": {"auth": "YTpi"}}}"#),
    )
    .unwrap();
    let begin = Instant::now();
    while secret(&world) == before {
        assert!(begin.elapsed() < Duration::from_secs(30), "the secret stays as it was");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

#[tokio::test]
async fn restricted_pods_are_let_in_where_only_restricted_pods_are() {
    let Some(world) = World::new("restricted").await else { return };
    let space = &world.namespace.name;
    let level = "pod-security.kubernetes.io/enforce=restricted";
    world.namespace.cluster.kubectl(&["label", "namespace", space, level]).unwrap();
    let service = world.start(&[]);
    let status = call(&service.address, &world.image, "").await.unwrap_err();
    assert!(status.message().contains("violates PodSecurity"), "{}", status.message());
    drop(service);
    let service = world.start(&["--pod-security=restricted"]);
    call(&service.address, &world.image, "").await.unwrap();
}
