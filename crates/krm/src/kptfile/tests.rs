//! Kptfiles: strict reading, validation, edits that keep comments.

use super::*;

const FULL: &str = "apiVersion: kpt.dev/v1
kind: Kptfile
metadata:
  name: app
  namespace: ns
  labels:
    a: b
  annotations:
    c: d
upstream:
  type: git
  git:
    repo: https://example.com/r.git
    directory: /d
    ref: main
  updateStrategy: resource-merge
upstreamLock:
  type: git
  git:
    repo: https://example.com/r.git
    directory: /d
    ref: main
    commit: \"1234567\"
  generic:
    storeID: DB
    resourceID: r
    resourceVersion: \"3\"
info:
  site: https://example.com
  emails:
    - a@example.com
  license: Apache-2.0
  licenseFile: LICENSE
  description: words
  keywords:
    - k
  man: man.md
  readinessGates:
    - conditionType: ready
pipeline:
  mutators:
    - image: set-labels
      configMap:
        k: v
      name: labels
      tag: ~0.2
      selectors:
        - apiVersion: v1
          kind: A
          name: web
          namespace: s
          labels:
            a: b
          annotations:
            c: d
      exclude:
        - kind: B
    - exec: my-fn
  validators:
    - image: kubeval:v1
      configPath: fn.yaml
inventory:
  namespace: ns
  name: inv
  inventoryID: id
  labels:
    a: b
  annotations:
    c: d
status:
  conditions:
    - type: Rendered
      status: \"True\"
      reason: RenderSuccess
      message: fine
  renderStatus:
    mutationSteps:
      - name: labels
        image: set-labels:v0.2
        exec: x
        executionError: none
        stderr: e
        exitCode: 0
        results:
          - message: m
            severity: info
            resourceRef:
              apiVersion: v1
              kind: A
              name: web
              namespace: s
            field:
              path: p
              currentValue: a
              proposedValue: b
            file:
              path: f
              index: 1
            tags:
              t: u
        errorResults:
          - message: bad
    validationSteps:
      - exitCode: 1
    errorSummary: sum
";

fn header(rest: &str) -> String {
    format!("apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: app\n{rest}")
}

fn parse(text: &str) -> Kptfile {
    Kptfile::parse(text, "/pkg").expect("is a Kptfile")
}

fn error(text: &str) -> String {
    Kptfile::parse(text, "/pkg").expect_err("is no Kptfile").to_string()
}

#[test]
fn every_field_is_read_and_written_in_schema_order() {
    assert_eq!(parse(FULL).to_canonical_yaml(), FULL);
    assert_eq!(Kptfile::new("app").to_canonical_yaml(), header(""));
}

#[test]
fn what_is_no_kptfile_of_today_is_refused_in_kpts_words() {
    assert_eq!(KptfileError::Missing { folder: "/pkg".into() }.to_string(), "No Kptfile found at \"/pkg\".");
    let invisible = KptfileError::Missing { folder: "a\u{200b}".into() }.to_string();
    assert_eq!(invisible, "No Kptfile found at \"a\\u200b\".", "quoted as Go quotes");
    assert_eq!(
        error("apiVersion: kpt.dev/v1alpha1\nkind: Kptfile\n"),
        "Kptfile at \"/pkg\" has an old version (\"v1alpha1\") of the Kptfile schema.\nPlease update the package to the latest format by following https://kpt.dev/installation/migration."
    );
    assert_eq!(
        error("apiVersion: kpt.dev/v1alpha2\nkind: Kptfile\nfoo: bar\n"),
        "Kptfile at \"/pkg\" has an old version (\"v1alpha2\") of the Kptfile schema.\nPlease run \"kpt fn eval <PKG_PATH> -i ghcr.io/kptdev/krm-functions-catalog/fix:latest --include-meta-resources\" to upgrade the package and retry."
    );
    assert_eq!(
        error("apiVersion: kpt.dev/v2\nkind: Kptfile\n"),
        "Kptfile at \"/pkg\" has an unknown resource type (\"kpt.dev/v2, Kind=Kptfile\")."
    );
    assert_eq!(
        error("apiVersion: v1\nkind: Foo\n"),
        "Kptfile at \"/pkg\" has an unknown resource type (\"/v1, Kind=Foo\")."
    );
    assert_eq!(error("null\n"), "Kptfile at \"/pkg\" has an unknown resource type (\"/, Kind=\").");
}

#[test]
fn what_cannot_be_read_comes_with_details() {
    let details = |text: &str| {
        let error = error(text);
        let cause = error.strip_prefix("Kptfile at \"/pkg\" can't be read.\n\nDetails:\n");
        cause.unwrap_or_else(|| panic!("{error}")).to_owned()
    };
    assert_eq!(details(""), "EOF");
    assert_eq!(details("# only\n"), "EOF");
    assert_eq!(details("a: b\n"), "missing Resource metadata");
    assert_eq!(details("apiVersion: a/b/c\nkind: Kptfile\n"), "unexpected GroupVersion string: a/b/c");
    assert_eq!(
        details("apiVersion: kpt.dev/v1\nkind: [\n"),
        "yaml: line 2: did not find expected node content"
    );
    let problems = |rest: &str| {
        let details = details(&header(rest));
        let list = details.strip_prefix("yaml: unmarshal errors:\n  ");
        list.unwrap_or_else(|| panic!("{details}")).split("\n  ").map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(problems("foo: 1\n"), ["line 5: field foo not found in type v1.KptFile"]);
    assert_eq!(problems("  uid: 1\n"), ["line 5: field uid not found in type yaml.ObjectMeta"]);
    assert_eq!(problems("info:\n  a: b\n"), ["line 6: field a not found in type v1.PackageInfo"]);
    assert_eq!(
        problems("metadata:\n  name: b\n"),
        ["line 5: mapping key \"metadata\" already defined at line 3"]
    );
    assert_eq!(
        problems("info:\n  odd: 1\n  odd: 2\n"),
        ["line 7: mapping key \"odd\" already defined at line 6"]
    );
    assert_eq!(
        problems(
            "pipeline:\n  mutators:\n    - image: a\n      foo: b\n      configMap:\n        k:\n          l: m\n        n: []\n"
        ),
        [
            "line 8: field foo not found in type v1.Function",
            "line 11: cannot unmarshal !!map into string",
            "line 12: cannot unmarshal !!seq into string",
        ]
    );
    assert_eq!(
        problems("pipeline: x\ninfo: [a]\nstatus:\n  conditions: {}\n"),
        [
            "line 5: cannot unmarshal !!str `x` into v1.Pipeline",
            "line 6: cannot unmarshal !!seq into v1.PackageInfo",
            "line 8: cannot unmarshal !!map into []v1.Condition",
        ]
    );
    assert_eq!(
        problems("status:\n  renderStatus:\n    mutationSteps:\n      - exitCode: a long text\n"),
        ["line 8: cannot unmarshal !!str `a long ...` into int"]
    );
    assert_eq!(
        problems("pipeline:\n  mutators:\n    - image: a\n      configRef: {kind: A}\n"),
        ["line 8: field configRef not found in type v1.Function"]
    );
}

#[test]
fn scalars_of_any_type_are_text_and_nulls_are_nothing() {
    let kptfile = parse(&header(
        "pipeline:\n  mutators:\n    - image: a\n      configMap: {n: 5, b: yes, f: 1.50, z: ~}\n  validators:\ninfo:\n",
    ));
    let function = &kptfile.pipeline.as_ref().expect("is there").mutators[0];
    assert_eq!(function.config_map["n"], "5");
    assert_eq!(function.config_map["f"], "1.50");
    assert_eq!(kptfile.info, None);
}

#[test]
fn only_the_first_document_counts() {
    assert_eq!(parse(&format!("{}---\nfoo: bar\n", header(""))).metadata.name, "app");
}

// === validation ===

fn validate(rest: &str) -> Result<(), String> {
    let kptfile = parse(&header(&format!("pipeline:\n{rest}")));
    let open = |path: &str| match path {
        "good.yaml" => Ok(b"apiVersion: v1\nkind: A\nmetadata: {name: x}\n".to_vec()),
        "nameless.yaml" => Ok(b"apiVersion: v1\nkind: A\n".to_vec()),
        "kindless.yaml" => Ok(b"apiVersion: v1\n".to_vec()),
        "two.yaml" => Ok(b"a: 1\n---\nb: 2\n".to_vec()),
        "empty.yaml" => Ok(b"# nothing\n".to_vec()),
        "bad.yaml" => Ok(b"a: [\n".to_vec()),
        path => Err(format!("open /pkg/{path}: no such file or directory")),
    };
    kptfile.validate(&open).map_err(|error| error.to_string())
}

fn invalid(field: &str, value: &str, reason: &str) -> Result<(), String> {
    let value = if value.is_empty() { String::new() } else { format!("Value: {value:?}\n") };
    Err(format!("Kptfile is invalid:\nField: `pipeline.{field}`\n{value}Reason: {reason}\n"))
}

#[test]
fn a_function_is_an_image_or_a_command() {
    assert_eq!(validate("  mutators:\n  - image: a\n  - exec: anything at all\n"), Ok(()));
    assert_eq!(
        validate("  mutators:\n  - image: a\n  - name: b\n"),
        invalid("mutators[1]", "", "must specify a functon (`image` or `exec`) to execute")
    );
    assert_eq!(
        validate("  validators:\n  - image: a\n    exec: b\n"),
        invalid("validators[0]", "", "must not specify both `image` and `exec` at the same time")
    );
    assert_eq!(
        validate("  mutators:\n  - image: a b\n"),
        invalid(
            "mutators[0].image",
            "a b",
            "function image reference \"a b\" is invalid: invalid reference format"
        )
    );
}

#[test]
fn mutators_are_checked_before_validators() {
    let text = "  validators:\n  - name: x\n  mutators:\n  - image: A\n";
    assert_eq!(
        validate(text),
        invalid(
            "mutators[0].image",
            "A",
            "function image reference \"A\" is invalid: repository name must be lowercase"
        )
    );
}

#[test]
fn a_config_path_leads_to_one_resource_inside_the_package() {
    let check = |path: &str| validate(&format!("  mutators:\n  - image: a\n    configPath: {path:?}\n"));
    let wrong = |path: &str, reason: &str| invalid("mutators[0].configPath", path, reason);
    assert_eq!(check("good.yaml"), Ok(()));
    assert_eq!(check(" "), wrong(" ", "path must not be empty"));
    assert_eq!(check("/etc/x.yaml"), wrong("/etc/x.yaml", "path must be relative"));
    assert_eq!(check("../x.yaml"), wrong("../x.yaml", "path must not be outside the package"));
    assert_eq!(check("a..b.yaml"), wrong("a..b.yaml", "path must not be outside the package"));
    assert_eq!(
        check("none.yaml"),
        wrong(
            "none.yaml",
            "failed to open functionConfig from path \"none.yaml\": open /pkg/none.yaml: no such file or directory"
        )
    );
    assert_eq!(
        check("bad.yaml"),
        wrong(
            "bad.yaml",
            "failed to read functionConfig \"bad.yaml\": MalformedYAMLError: yaml: line 1: did not find expected node content"
        )
    );
    assert_eq!(
        check("two.yaml"),
        wrong("two.yaml", "functionConfig \"two.yaml\" must not contain more than one config, got 2")
    );
    assert_eq!(
        check("empty.yaml"),
        wrong("empty.yaml", "functionConfig \"empty.yaml\" must contain one config, got 0")
    );
    assert_eq!(
        check("nameless.yaml"),
        wrong("nameless.yaml", "functionConfig \"nameless.yaml\": resource must have `metadata.name`")
    );
    assert_eq!(
        check("kindless.yaml"),
        wrong("kindless.yaml", "functionConfig \"kindless.yaml\": resource must have `kind`")
    );
    let both = "  mutators:\n  - image: a\n    configPath: good.yaml\n    configMap: {a: b}\n";
    let reason = "functionConfig must not specify both `configMap` and `configPath` at the same time";
    assert_eq!(validate(both), invalid("mutators[0]", "", reason));
}

#[test]
fn config_paths_must_be_the_packages_own() {
    let kptfile = parse(&header(
        "pipeline:\n  mutators:\n  - image: ghcr.io/x/set-labels:v1\n    configPath: db/x.yaml\n  - image: a\n    configPath: ./own.yaml\n  validators:\n  - exec: e\n    name: check\n    configPath: y.yaml\n",
    ));
    let error = kptfile.check_config_paths(&|path| path == "own.yaml").expect_err("two are not");
    let reasons: Vec<String> =
        error.iter().map(|error| format!("{}: {}", error.field, error.reason)).collect();
    assert_eq!(
        reasons,
        [
            "pipeline.mutators[0].configPath: functionConfig resource for mutator \"set-labels\" is missing from path \"db/x.yaml\", this also occurs if \"db/x.yaml\" is part of a subpackage",
            "pipeline.validators[0].configPath: functionConfig resource for validator \"check\" is missing from path \"y.yaml\", this also occurs if \"y.yaml\" is part of a subpackage",
        ]
    );
    assert_eq!(kptfile.check_config_paths(&|_| true), Ok(()));
}

// === selectors ===

#[test]
fn a_selector_asks_for_all_it_names() {
    let document = loggia_yaml::parse_first(
        "apiVersion: v1\nkind: A\nmetadata: {name: n, labels: {a: b, n: 5}, annotations: {c: d}}\n",
    );
    let resource = Resource::from(document.expect("is YAML").expect("is there"));
    let matches =
        |yaml: &str| loggia_yaml::from_str::<Selector>(yaml).expect("is a selector").matches(&resource);
    assert!(matches("{}"));
    assert!(matches("{apiVersion: v1, kind: A, name: n, labels: {a: b, n: '5'}, annotations: {c: d}}"));
    assert!(!matches("{namespace: default}"));
    assert!(!matches("{kind: a}"));
    assert!(!matches("{labels: {a: x}}"));
    assert!(!matches("{labels: {x: b}}"));
    assert!(!matches("{annotations: {c: x}}"));
    assert!(Selector::default().is_empty());
}

// === edits ===

const COMMENTED: &str = "# the package
apiVersion: kpt.dev/v1
kind: Kptfile
metadata:
  name: app # ours
pipeline:
  # first the labels
  mutators:
  - image: set-labels:v1 # pinned
    configMap: {a: b}
  # then the rest
  - exec: my-fn
info:
  description: 'words' # few
status:
  conditions:
  # kept by hand
  - type: Ready
    status: \"True\" # yes
  - type: Rendered
    status: \"True\"
    reason: RenderSuccess
# the end
";

fn edited(change: impl FnOnce(&mut KptfileDocument)) -> String {
    let mut document = KptfileDocument::parse(COMMENTED, "/pkg").expect("is a Kptfile");
    change(&mut document);
    let text = document.to_yaml();
    assert_eq!(&parse(&text), document.kptfile(), "the text says what the types say:\n{text}");
    text
}

#[test]
fn an_edit_that_changes_nothing_leaves_the_text() {
    assert_eq!(edited(|_| {}), COMMENTED);
    assert_eq!(edited(|document| document.edit(|kptfile| kptfile.kind = "Kptfile".into())), COMMENTED);
}

#[test]
fn a_new_condition_replaces_its_namesake_at_the_end() {
    let text = edited(|document| {
        document.set_condition(Condition {
            condition_type: "Rendered".into(),
            status: "False".into(),
            reason: "RenderFailed".into(),
            message: "two\nlines".into(),
        });
    });
    let expected = COMMENTED.replace(
        "    status: \"True\"\n    reason: RenderSuccess\n",
        "    status: \"False\"\n    reason: RenderFailed\n    message: |-\n      two\n      lines\n",
    );
    assert_eq!(text, expected);
}

#[test]
fn a_render_status_comes_and_goes() {
    let status = RenderStatus { error_summary: "sum".into(), ..RenderStatus::default() };
    let text = edited(|document| document.set_render_status(Some(status.clone())));
    assert!(text.contains("    reason: RenderSuccess\n  renderStatus:\n    errorSummary: sum\n"), "{text}");
    let text = edited(|document| {
        document.set_render_status(Some(status));
        document.set_render_status(None);
    });
    assert_eq!(text, COMMENTED);
    let mut bare = KptfileDocument::parse(&header(""), "/pkg").expect("is a Kptfile");
    bare.set_render_status(None);
    assert_eq!(bare.to_yaml(), header(""));
}

#[test]
fn functions_are_told_apart_and_keep_their_comments() {
    let text = edited(|document| {
        document.edit(|kptfile| {
            let pipeline = kptfile.pipeline.as_mut().expect("is there");
            pipeline.mutators.reverse();
            pipeline.mutators[1].config_map.insert("c".into(), "yes".into());
            pipeline.validators.push(Function { image: "kubeval".into(), ..Function::default() });
        });
    });
    let expected = COMMENTED.replace(
        "  - image: set-labels:v1 # pinned\n    configMap: {a: b}\n  # then the rest\n  - exec: my-fn\n",
        "  # then the rest\n  - exec: my-fn\n  - image: set-labels:v1 # pinned\n    configMap: {a: b, c: \"yes\"}\n  validators:\n  - image: kubeval\n",
    );
    assert_eq!(text, expected);
}

#[test]
fn new_fields_go_where_the_schema_has_them_and_old_ones_go_away() {
    let text = edited(|document| {
        document.edit(|kptfile| {
            kptfile.metadata.labels.insert("l".into(), "1".into());
            kptfile.upstream = Some(Upstream { origin: "git".into(), ..Upstream::default() });
            kptfile.info.as_mut().expect("is there").description = "more words".into();
            kptfile.status = None;
        });
    });
    assert!(
        text.contains("  name: app # ours\n  labels:\n    l: \"1\"\nupstream:\n  type: git\npipeline:\n"),
        "{text}"
    );
    assert!(text.contains("  description: 'more words' # few\n"), "{text}");
    assert!(!text.contains("status"), "{text}");
}

// === size ===

fn quickly<T>(work: impl FnOnce() -> T) -> T {
    let begin = std::time::Instant::now();
    let done = work();
    assert!(begin.elapsed() < std::time::Duration::from_secs(20), "took {:?}", begin.elapsed());
    done
}

#[test]
fn very_many_labels_are_read_and_edited_in_time_that_grows_with_them() {
    let labels: String = (0..40_000).map(|n| format!("    l{n}: v\n")).collect();
    let source = format!("apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: p\n  labels:\n{labels}");
    let text = quickly(|| {
        let mut document = KptfileDocument::parse(&source, "/p").expect("is fine");
        document.edit(|kptfile| {
            let labels = &mut kptfile.metadata.labels;
            labels.retain(|key, _| !key.ends_with('7'));
            labels.extend((0..40_000).map(|n| (format!("m{n}"), "w".to_owned())));
        });
        document.to_yaml()
    });
    assert!(
        text.contains("    m39999: w\n") && !text.contains("    l17: v\n") && text.contains("    l18: v\n")
    );
}

#[test]
fn very_many_conditions_are_edited_in_time_that_grows_with_them() {
    let conditions: String = (0..20_000).map(|n| format!("  - type: t{n}\n    status: \"True\"\n")).collect();
    let source = format!(
        "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: p\nstatus:\n  conditions:\n{conditions}"
    );
    quickly(|| {
        let mut document = KptfileDocument::parse(&source, "/p").expect("is fine");
        document.edit(|kptfile| {
            kptfile.status.get_or_insert_default().conditions.reverse();
        });
        assert!(document.to_yaml().contains("type: t19999"));
    });
}

#[test]
fn very_many_errors_are_cut() {
    let same = "    l: v\n".repeat(20_000);
    let unknown: String = (0..20_000).map(|n| format!("f{n}: v\n")).collect();
    for source in
        [format!("metadata:\n  name: p\n  labels:\n{same}"), format!("metadata:\n  name: p\n{unknown}")]
    {
        let source = format!("apiVersion: kpt.dev/v1\nkind: Kptfile\n{source}");
        let error = quickly(|| Kptfile::parse(&source, "/p").expect_err("does not fit").to_string());
        assert!(error.ends_with("there are more errors"), "{}", &error[error.len() - 200..]);
        assert!(error.len() < 10_000);
    }
}

#[test]
fn a_config_that_many_steps_share_is_read_once() {
    let steps = "  - image: a:v1\n    configPath: c.yaml\n".repeat(400);
    let source = format!(
        "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: p\npipeline:\n  mutators:\n{steps}"
    );
    let reads = std::cell::Cell::new(0);
    let open = |_: &str| {
        reads.set(reads.get() + 1);
        Ok(b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n".to_vec())
    };
    Kptfile::parse(&source, "/p").expect("is fine").validate(&open).expect("is valid");
    assert_eq!(reads.get(), 1);
}
