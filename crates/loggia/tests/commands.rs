//! `loggia fn eval`, `source`, `sink` and the small commands, run as a program.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use support::{CM, Package, kptfile, loggia};

fn eval(package: &Package, arguments: &[&str]) -> support::Ran {
    let mut all = vec!["fn", "eval"];
    all.extend(arguments);
    loggia(&all, &package.path, "")
}

#[test]
fn eval_needs_no_permission_and_writes_in_place() {
    let package = Package::new(&[("cm.yaml", CM), ("sub/Kptfile", &kptfile(&[], &[])), ("sub/cm.yaml", CM)]);
    let ran = eval(&package, &["--exec", "sed s/[b]lue/green/"]);
    assert_eq!(
        (ran.code, ran.stderr.as_str()),
        (0, "[RUNNING] \"sed s/[b]lue/green/\"\n[PASS] \"sed s/[b]lue/green/\" in 0s\n")
    );
    assert!(package.read("cm.yaml").contains("green") && package.read("sub/cm.yaml").contains("green"));
}

#[test]
fn arguments_become_a_config_map_in_their_order() {
    let package = Package::new(&[("cm.yaml", CM)]);
    let ran = eval(&package, &["--exec", "tee ../seen", "--", "b=1", "a=x y"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let seen = std::fs::read_to_string(package.path.parent().unwrap().join("seen")).unwrap();
    assert!(
        seen.ends_with("functionConfig:\n  metadata:\n    name: function-input\n  data: {b: \"1\", a: x y}\n  kind: ConfigMap\n  apiVersion: v1\n"),
        "{seen}"
    );
    let wire = "      internal.config.kubernetes.io/annotations-migration-resource-id: '0'\n      internal.config.kubernetes.io/id: '1'\n      config.k8s.io/id: '1'\n";
    assert!(seen.contains(wire), "{seen}");
    assert_eq!(package.read("cm.yaml"), CM);
}

#[test]
fn mistakes_are_told_in_known_words() {
    let package = Package::new(&[("cm.yaml", CM)]);
    for (arguments, text) in [
        (&[][..], "error: must specify --image or --exec\n"),
        (
            &["a", "b", "--exec", "cat"],
            "error: 0 or 1 arguments supported, function arguments go after '--'\n",
        ),
        (&["--exec", "cat", "--", "a=b", "c"], "error: args must have keys and values separated by =\n"),
        (
            &["--exec", "cat", "--network"],
            "error: --mount, --as-current-user, --network and --env can only be used with container functions\n",
        ),
        (&["--exec", "cat", "--fn-config", "no.yaml"], "error: missing function config file: no.yaml\n"),
        (
            &["--exec", "cat", "--save"],
            "error: --type must be specified if saving functions to Kptfile (--save=true)\n",
        ),
        (&["--exec", "cat", "-t", "x"], "error: --type must be either `mutator` or `validator`\n"),
        (
            &["--exec", "cat", "--match-labels", "foo"],
            "error: --match-labels must be KEY=VALUE, got \"foo\"\n",
        ),
        (
            &["--exec", "cat 'x"],
            "error: exec command \"cat 'x\" must be valid: EOF found when expecting closing quote\n",
        ),
        (
            &["--image", "a b"],
            "error: function image reference \"ghcr.io/kptdev/krm-functions-catalog/a b\" is invalid: invalid reference format\n",
        ),
    ] {
        let ran = eval(&package, arguments);
        assert_eq!((ran.code, ran.stderr.as_str()), (1, text), "{arguments:?}");
    }
}

#[test]
fn selected_resources_alone_are_changed() {
    let package = Package::new(&[("cm.yaml", CM), ("b.yaml", &CM.replace("name: cm", "name: b"))]);
    let ran = eval(
        &package,
        &["--exec", "sed s/[b]lue/green/", "--match-kind", "ConfigMap", "--exclude-name", "b"],
    );
    assert!(ran.stderr.starts_with("[RUNNING] \"sed s/[b]lue/green/\" on 1 resource(s)\n"), "{}", ran.stderr);
    assert!(package.read("cm.yaml").contains("green") && package.read("b.yaml").contains("blue"));
}

#[test]
fn a_function_is_saved_once_and_comments_stay() {
    let package = Package::new(&[("cm.yaml", CM)]);
    package.write("Kptfile", "apiVersion: kpt.dev/v1\nkind: Kptfile # ours\nmetadata:\n  name: app\n");
    let save = |words: &str| {
        eval(&package, &["-s", "-t", "validator", "-i", "no-op", "--match-kind", "ConfigMap", "--", words])
    };
    assert!(
        save("a=b")
            .stderr
            .ends_with("Added \"ghcr.io/kptdev/krm-functions-catalog/no-op\" as validator in the Kptfile.\n")
    );
    assert!(
        save("a=c").stderr.ends_with(
            "Updated \"ghcr.io/kptdev/krm-functions-catalog/no-op\" as validator in the Kptfile.\n"
        )
    );
    assert_eq!(
        package.read("Kptfile"),
        "apiVersion: kpt.dev/v1\nkind: Kptfile # ours\nmetadata:\n  name: app\npipeline:\n  validators:\n    - image: ghcr.io/kptdev/krm-functions-catalog/no-op\n      configMap:\n        a: c\n      selectors:\n        - kind: ConfigMap\n"
    );
}

#[test]
fn streams_go_round() {
    let package = Package::new(&[("cm.yaml", &format!("# licence\n\n{CM}")), ("n/x.yaml", CM)]);
    let source = loggia(&["fn", "source"], &package.path, "");
    assert!(source.stdout.contains("# licence\n- apiVersion: v1\n"), "{}", source.stdout);
    let changed =
        loggia(&["fn", "eval", "-", "--exec", "sed s/[b]lue/green/"], &package.path, &source.stdout);
    assert_eq!(changed.code, 0, "{}", changed.stderr);
    let sunk = loggia(&["fn", "sink", "out"], package.path.parent().unwrap(), &changed.stdout);
    assert_eq!((sunk.code, sunk.stderr.as_str()), (0, ""));
    let out = package.path.parent().unwrap().join("out");
    let green = CM.replace("blue", "green");
    assert_eq!(std::fs::read_to_string(out.join("cm.yaml")).unwrap(), format!("# licence\n{green}"));
    assert_eq!(std::fs::read_to_string(out.join("n/x.yaml")).unwrap(), green);
    let again = loggia(&["fn", "sink", "out"], package.path.parent().unwrap(), "");
    assert_eq!(
        again.stderr,
        "error: directory \"out\" already exists, please delete the directory and retry\n"
    );
}

#[test]
fn source_knows_two_forms() {
    let package = Package::new(&[("cm.yaml", CM)]);
    assert_eq!(loggia(&["fn", "source", "-o", "unwrap"], &package.path, "").stdout, CM);
    let ran = loggia(&["fn", "source", "-o", "foo"], &package.path, "");
    assert_eq!(
        ran.stderr,
        "error: invalid input for --output flag \"foo\", must be \"stdout\" or \"unwrap\"\n"
    );
}

#[test]
fn the_catalog_is_listed_and_explained() {
    let package = Package::new(&[]);
    let list = loggia(&["fn", "list"], &package.path, "");
    assert!(list.stdout.contains("no-op "), "{}", list.stdout);
    let doc = loggia(&["fn", "doc", "no-op"], &package.path, "");
    assert!(doc.stdout.starts_with("# no-op\n") && doc.stdout.contains("Tags: latest"));
    let doc = loggia(&["fn", "doc", "op"], &package.path, "");
    assert_eq!(doc.code, 1);
    assert!(doc.stderr.contains("did you mean") && doc.stderr.contains("no-op"), "{}", doc.stderr);
}

#[test]
fn the_page_about_functions_has_the_catalog_and_its_tags() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(folder.join("../../docs/functions.md")).unwrap();
    let versions = page.split("\n## ").find(|part| part.starts_with("Versions\n")).unwrap();
    let table = versions.split("| function | tags |\n|---|---|\n").nth(1).unwrap();
    let written: Vec<(&str, Vec<&str>)> = table
        .lines()
        .map_while(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | "))
        .map(|(name, tags)| (name, tags.split('`').skip(1).step_by(2).collect()))
        .collect();

    let listed = loggia(&["fn", "list", "--output-format", "json"], folder, "");
    let listed: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    let listed: Vec<(&str, Vec<&str>)> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            let tags = entry["tags"].as_array().unwrap().iter().map(|tag| tag.as_str().unwrap()).collect();
            (entry["name"].as_str().unwrap(), tags)
        })
        .collect();
    assert_eq!(written, listed);

    for (name, tags) in listed {
        let manual = loggia(&["fn", "doc", name], folder, "").stdout;
        assert!(manual.starts_with(&format!("# {name}\n")), "{manual}");
        assert!(manual.contains("## Config") && manual.contains("## Example"), "{manual}");
        assert!(manual.ends_with(&format!("Tags: {}\n", tags.join(", "))), "{manual}");
    }
}

#[test]
fn version_help_and_completions_are_there() {
    let package = Package::new(&[]);
    assert_eq!(loggia(&["version"], &package.path, "").stdout, concat!(env!("CARGO_PKG_VERSION"), "\n"));
    let help = loggia(&["fn", "render", "--help"], &package.path, "");
    assert_eq!(help.code, 0);
    assert!(help.stdout.contains("Examples:\n  loggia fn render "), "{}", help.stdout);
    assert!(loggia(&["completion", "bash"], &package.path, "").stdout.contains("_loggia"));
    assert_eq!(loggia(&["fn", "render", "--no-such-flag"], &package.path, "").code, 1);
}

#[test]
fn an_image_that_cannot_be_inspected_is_reported_with_exit_code_1() {
    let package = Package::new(&[]);
    let inspect = |arguments: &[&str]| {
        let ran = loggia(&[&["image", "inspect"], arguments].concat(), &package.path, "");
        assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{arguments:?}");
        ran.stderr
    };
    assert!(inspect(&["UPPER"]).starts_with("Error: could not parse reference: UPPER: "));
    let refused = inspect(&["localhost:1/x:v1", "--plain-http", "--timeout=1ms"]);
    assert!(refused.starts_with("Error: image `localhost:1/x:v1`: registry `localhost:1`: "), "{refused}");
    assert!(
        inspect(&["x", "--timeout=0s"])
            .starts_with("error: invalid value '0s' for '--timeout <DURATION>': must be positive\n")
    );
}
