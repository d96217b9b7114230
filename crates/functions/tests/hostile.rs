//! Small lists that ask for a lot: each call ends with an error that names the function, the resource and the limit.

use loggia_functions::{CATALOG, Limits, NoSchemaFiles, Output, find};

/// The runner's limit.
const LIMITS: Limits = Limits { output: 6 << 20, advice: "raise it" };
/// What threads of a server have.
const STACK: usize = 2 << 20;

/// Runs a function on a thread as a server has it.
fn run(image: &'static str, list: String) -> Output {
    let thread = std::thread::Builder::new().stack_size(STACK);
    let filter = move || find(image).expect(image).1.filter_within(list.as_bytes(), &NoSchemaFiles, LIMITS);
    let output = thread.spawn(filter).expect("a thread").join().expect("no panic");
    assert!(output.stdout.len() <= LIMITS.output, "{image} wrote {} bytes", output.stdout.len());
    output
}

fn config_map(config: &str, data: &str) -> String {
    format!(
        "kind: ResourceList\nfunctionConfig: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: c}}, data: {{{config}}}}}\nitems:\n\
         - {{apiVersion: v1, kind: ConfigMap, metadata: {{name: victim}}, data: {{{data}}}}}\n"
    )
}

fn stopped(name: &str) -> String {
    format!(
        "function `{name}`: ConfigMap `victim`: the function would write more than 6291456 bytes and was stopped; raise it"
    )
}

#[test]
fn one_group_put_many_times_is_counted_before_it_is_made() {
    let config = format!("by-value-regex: '^(A+)$', put-value: '{}'", "${1}".repeat(25_000));
    let output = run("search-replace", config_map(&config, &format!("k: {}", "A".repeat(100_000))));
    assert_eq!((output.exit_code, output.stderr), (1, stopped("search-replace")));
    assert!(output.stdout.contains("severity: error"), "{}", output.stdout);
}

#[test]
fn groups_that_name_each_other_do_not_double_without_end() {
    let groups: String =
        (1..40).map(|at| format!("(\\$.{{{}}})", format!("{{{at}}}").len() * 2 + 1)).collect();
    let value: String = (1..40).map(|at| format!("${{{}}}${{{}}}", at + 1, at + 1)).collect();
    let output = run(
        "search-replace",
        config_map(&format!("by-value-regex: '^{groups}$', put-value: '${{1}}'"), &format!("k: '{value}'")),
    );
    assert!(output.exit_code <= 1, "{}", output.stderr);
}

#[test]
fn setters_in_setters_do_not_double_without_end() {
    let setters: Vec<String> =
        (0..60).map(|at| format!("s{at:02}: '${{s{:02}}}${{s{:02}}}'", at + 1, at + 1)).collect();
    let pattern: String = (0..60).map(|at| format!("${{s{at:02}}}")).collect();
    let list = config_map(&setters.join(", "), "a: b") + &format!("  more: x # kpt-set: {pattern}\n");
    let list = list.replace(
        "- {apiVersion: v1, kind: ConfigMap, metadata: {name: victim}, data: {a: b}}",
        "- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: victim}",
    );
    assert_eq!(run("apply-setters", list).stderr, stopped("apply-setters"));
}

#[test]
fn a_field_that_is_put_into_itself_stops_at_the_limit() {
    let replacement = "{source: {kind: ConfigMap, fieldPath: data}, targets: [{select: {kind: ConfigMap}, fieldPaths: [data.a, data.b]}]}";
    let replacements = vec![replacement; 60].join(", ");
    let list = config_map("", "a: {}, b: {}").replace(
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {}}",
        &format!("{{apiVersion: fn.kpt.dev/v1alpha1, kind: ApplyReplacements, metadata: {{name: c}}, replacements: [{replacements}]}}"),
    );
    assert_eq!(run("apply-replacements", list).stderr, stopped("apply-replacements"));
}

#[test]
fn paths_without_end_are_refused_and_not_followed() {
    for (image, kind, fields) in [
        (
            "apply-replacements",
            "ApplyReplacements",
            "replacements: [{source: {kind: ConfigMap}, targets: [{select: {kind: ConfigMap}, fieldPaths: [DOTS], options: {create: true}}]}]",
        ),
        (
            "set-annotations",
            "SetAnnotations",
            "annotations: {a: b}, additionalAnnotationFields: [{path: SLASHES, create: true}]",
        ),
        (
            "set-labels:v0.1.5",
            "SetLabels",
            "labels: {a: b}, additionalLabelFields: [{path: SLASHES, create: true}]",
        ),
    ] {
        let fields = fields
            .replace("DOTS", &format!("{}a", "a.".repeat(100_000)))
            .replace("SLASHES", &format!("{}a", "a/".repeat(100_000)));
        let list = config_map("", "a: b").replace(
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {}}",
            &format!("{{apiVersion: fn.kpt.dev/v1alpha1, kind: {kind}, metadata: {{name: c}}, {fields}}}"),
        );
        let output = run(image, list);
        let text = format!("{}{}", output.stderr, output.stdout);
        assert!(
            output.exit_code == 1 && text.contains("a field path has 100001 parts; at most"),
            "{image}: {}",
            output.stderr
        );
    }
    let output = run(
        "search-replace",
        config_map(&format!("by-path: {}a, put-value: x", "a.".repeat(100_000)), "a: b"),
    );
    assert!(
        output.stderr.contains("a field path has 100000 parts; at most 1000"),
        "{}",
        &output.stderr[..200]
    );
}

#[test]
fn nesting_up_to_the_parsers_limit_is_survived_wherever_it_is() {
    let deep = |open: &str, close: &str| format!("{}x{}", open.repeat(9_900), close.repeat(9_900));
    for (nested, places) in [(deep("[", "]"), 4), (deep("{a: ", "}"), 2)] {
        for function in CATALOG {
            let lists = [
                format!("kind: ResourceList\nitems: []\nresults: [{nested}]\n"),
                format!(
                    "kind: ResourceList\nitems:\n- {{apiVersion: v1, kind: Pod, metadata: {{name: a}}, spec: {{containers: {nested}}}}}\n"
                ),
                format!(
                    "kind: ResourceList\nfunctionConfig: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: c}}, data: {nested}}}\nitems: []\n"
                ),
                format!(
                    "kind: ResourceList\nitems:\n- {{apiVersion: v1, kind: A, metadata: {{name: a, annotations: {nested}}}}}\n"
                ),
            ];
            for list in lists.into_iter().take(places) {
                assert!(run(function.name, list).exit_code <= 1, "{}", function.name);
            }
        }
    }
}

#[test]
fn one_anchor_in_every_item_is_an_error() {
    let items: String =
        (0..2_000).map(|at| format!("- {{kind: A, metadata: {{name: a{at}}}, x: *big}}\n")).collect();
    let list = format!("kind: ResourceList\nmine: &big [{}]\nitems:\n{items}", "x, ".repeat(50_000));
    for image in ["no-op", "set-annotations"] {
        let output = run(image, list.clone());
        assert!(output.stderr.contains("document contains excessive aliasing"), "{image}: {}", output.stderr);
    }
}

#[test]
fn a_comment_below_something_deep_is_not_indented_without_end() {
    let comment = "#\n".repeat(200_000);
    let list = format!(
        "kind: ResourceList\nitems:\n- kind: A\n  metadata: {{name: a}}\n  k:\n  {}x\n{comment}",
        "- ".repeat(5_000)
    );
    let output = run("no-op", list);
    assert!(output.exit_code == 0 || output.stderr.contains("more than 6291456 bytes"), "{}", output.stderr);
}

#[test]
fn programs_that_nest_deeper_than_their_engine_can_follow_are_refused() {
    let nested = |open: &str, close: &str| format!("x = {}1{}", open.repeat(50_000), close.repeat(50_000));
    let chains = ["1+", "not ", "1 if 1 else ", "lambda: "].map(|link| nested(link, ""));
    for source in chains.into_iter().chain([
        nested("(", ")"),
        nested("[", "]"),
        format!("x = a{}", "()".repeat(50_000)),
    ]) {
        let output = run(
            "starlark",
            format!(
                "kind: ResourceList\nfunctionConfig: {{apiVersion: fn.kpt.dev/v1alpha1, kind: StarlarkRun, metadata: {{name: c}}, source: '{source}'}}\nitems: []\n"
            ),
        );
        assert!(
            output.stdout.contains("line 1: an expression is nested more than 4000 deep"),
            "{}",
            output.stdout
        );
    }
    let rego = format!(
        "package named\\nviolation[{{\\\"msg\\\": msg}}] {{\\n  msg := {}1{}\\n}}\\n",
        "[".repeat(50_000),
        "]".repeat(50_000)
    );
    let list = format!(
        "kind: ResourceList\nitems:\n- {{apiVersion: templates.gatekeeper.sh/v1, kind: ConstraintTemplate, metadata: {{name: named}}, spec: {{crd: {{spec: {{names: {{kind: Named}}}}}}, targets: [{{target: admission.k8s.gatekeeper.sh, rego: \"{rego}\"}}]}}}}\n"
    );
    let output = run("gatekeeper", list);
    assert!(output.stderr.contains("brackets are nested more than 100 deep"), "{}", output.stderr);
}

#[test]
fn what_a_program_leaves_is_counted_as_it_is_written() {
    for source in [
        "items[0][\"k\"] = \"A\" * 8000000",
        "items[0][\"k\"] = [\"A\" * 1000] * 10000",
        "items[0][\"k\"] = [[1] * 1000] * 10000",
    ] {
        let list = format!("kind: ResourceList\nfunctionConfig: {{apiVersion: fn.kpt.dev/v1alpha1, kind: StarlarkRun, metadata: {{name: c}}, source: 'items = ctx.resource_list[\"items\"]\n\n  {source}'}}\nitems:\n- {{kind: A, metadata: {{name: a}}}}\n").replace("\n\n  ", "\n\n\n");
        let output = run("starlark", list);
        let expected =
            "function `starlark`: the function would write more than 6291456 bytes and was stopped; raise it";
        assert_eq!(output.stderr, expected, "{}", output.stdout);
    }
}
