//! What a pod runs, may use and is kept from.

use super::*;

#[test]
fn resources_that_neither_the_template_nor_the_settings_mention_have_defaults() {
    let with_defaults = |blueprint| Blueprint { default_resources: Resources::of(&defaults()), ..blueprint };
    let (pod, _) = made(&with_defaults(inline()));
    let all = json!({
        "requests": { "cpu": "10m", "memory": "32Mi" }, "limits": { "memory": "2Gi", "ephemeral-storage": "1Gi" },
    });
    assert_eq!(pod["spec"]["containers"][0]["resources"], all);
    assert_eq!(pod["spec"]["initContainers"][0]["resources"], all, "a quota counts it, too");

    // A default limit below what the template requests would make the pod invalid.
    let template =
        SIDECAR_FIRST.replace("{requests: {cpu: 1}, limits: {cpu: 2}}", "{requests: {memory: 4Gi}}");
    let (pod, _) = made(&with_defaults(given(&template)));
    let expected = json!({
        "requests": { "cpu": "10m", "memory": "4Gi" }, "limits": { "ephemeral-storage": "1Gi" },
    });
    assert_eq!(pod["spec"]["containers"][1]["resources"], expected);
    assert!(pod["spec"]["containers"][0].get("resources").is_none(), "a sidecar is the template's business");

    let mut listed = with_defaults(inline());
    listed.resources.limits = Some([("memory".to_owned(), Quantity("64Mi".to_owned()))].into());
    let (pod, _) = made(&listed);
    let resources = &pod["spec"]["containers"][0]["resources"];
    assert_eq!(resources["limits"], json!({ "memory": "64Mi", "ephemeral-storage": "1Gi" }));
    assert_eq!(resources["requests"], json!({ "cpu": "10m" }));
}

#[test]
fn the_image_is_run_by_the_digest_that_the_registry_gave_or_by_its_tag_where_that_is_wanted() {
    let image = |blueprint: &Blueprint| made(blueprint).0["spec"]["containers"][0]["image"].clone();
    assert_eq!(image(&inline()), PINNED);
    let by_tag = Blueprint { image_by_tag: true, ..inline() };
    assert_eq!(image(&by_tag), IMAGE_NAME);
    assert_ne!(by_tag.hash(), inline().hash(), "pods of the one are replaced by those of the other");
}

#[test]
fn capabilities_are_dropped_unless_they_are_to_be_kept() {
    let hardening = Hardening { keep_capabilities: true, ..Hardening::default() };
    let (pod, _) = made(&Blueprint { hardening, ..inline() });
    let context = json!({ "allowPrivilegeEscalation": false });
    for container in [&pod["spec"]["containers"][0], &pod["spec"]["initContainers"][0]] {
        assert_eq!(container["securityContext"], context);
    }
    let hardening = Hardening { security: PodSecurity::Restricted, ..hardening };
    let (pod, _) = made(&Blueprint { hardening, ..inline() });
    let dropped = &pod["spec"]["containers"][0]["securityContext"]["capabilities"];
    assert_eq!(dropped, &json!({ "drop": ["ALL"] }), "the restricted level asks for it");
}

#[test]
fn a_function_cannot_replace_the_server_of_a_given_template_either() {
    let template = |mounts: &str| {
        format!(
            "spec:\n  containers:\n  - name: function\n    command: [/tools/bin/wrapper-server]\n    volumeMounts: {mounts}\n  \
             volumes: [{{name: t, emptyDir: {{}}}}, {{name: data, emptyDir: {{}}}}]\n"
        )
    };
    let mounts =
        |text: &str| made(&given(&template(text))).0["spec"]["containers"][0]["volumeMounts"].clone();
    let found = mounts(
        "[{name: t, mountPath: /tools}, {name: t, mountPath: /again}, {name: data, mountPath: /data}]",
    );
    assert_eq!((&found[0]["readOnly"], &found[1]["readOnly"]), (&json!(true), &json!(true)));
    assert!(found[2].get("readOnly").is_none(), "what else it has is its own");
    let found = mounts("[{name: t, mountPath: /tools, readOnly: false}]");
    assert_eq!(found[0]["readOnly"], false, "who says so means it");
    let found = mounts("[{name: t, mountPath: /tool}]");
    assert!(found[0].get("readOnly").is_none(), "the server is elsewhere");
}

#[test]
fn every_dollar_of_an_entrypoint_reaches_the_function() {
    for (word, argument) in [("$(X)", "$$(X)"), ("$$(X)", "$$$$(X)"), ("a$b$", "a$$b$$"), ("$$$", "$$$$$$")] {
        assert_eq!(escaped(word), argument);
        assert_eq!(expanded(argument), word, "as Kubernetes reads it");
    }
}

/// What Kubernetes makes of an argument, with no variables: `$$` is `$`, and `$(NAME)` stays if there is no such name.
/// (third_party/forked/golang/expansion of kubernetes.)
fn expanded(argument: &str) -> String {
    let mut expanded = String::new();
    let mut characters = argument.chars().peekable();
    while let Some(c) = characters.next() {
        match (c, characters.peek()) {
            ('$', Some('$')) => {
                characters.next();
                expanded.push('$');
            }
            ('$', Some('(')) => expanded.push_str("EXPANDED"),
            _ => expanded.push(c),
        }
    }
    expanded
}

#[test]
fn a_user_namespace_that_is_only_tried_does_not_make_pods_differ() {
    let host_users = |blueprint: &Blueprint| made(blueprint).0["spec"].get("hostUsers").cloned();
    let tried = Blueprint { tries_user_namespace: true, ..inline() };
    assert_eq!(host_users(&inline()), None);
    assert_eq!(host_users(&tried), Some(json!(false)));
    assert_eq!(tried.hash(), inline().hash());
    let hardening = Hardening { user_namespace: true, ..Hardening::default() };
    let required = Blueprint { hardening, ..inline() };
    assert_eq!(host_users(&required), Some(json!(false)));
    assert_ne!(required.hash(), inline().hash());
    let template = SIDECAR_FIRST.replace("serviceAccountName: custom", "hostUsers: true");
    let given = Blueprint { hardening, ..given(&template) };
    assert_eq!(host_users(&given), Some(json!(true)), "the template says otherwise");
}
