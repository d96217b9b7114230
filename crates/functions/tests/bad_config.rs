//! Configs that make no sense: what each function says of them, and how it ends.
//!
//! The messages and exit codes are those of the originals. Where Go and an original are there, `differential` holds
//! them against it as well; this table is complete, and needs neither.
#![allow(clippy::unwrap_used, reason = "a test may")]

use loggia_functions::{CATALOG, find};
use loggia_krm::{ResourceList, StreamOptions};

/// A function that gets a config, and what comes of it.
struct Case {
    image: &'static str,
    config: &'static str,
    exit_code: i32,
    stderr: &'static str,
    /// The messages of its results.
    messages: &'static [&'static str],
}

const SDK: &str = "failed to evaluate function: error: function failure";

/// It fails, and results of the functions SDK say why.
const fn sdk(image: &'static str, config: &'static str, messages: &'static [&'static str]) -> Case {
    Case { image, config, exit_code: 1, stderr: SDK, messages }
}

/// It fails with an error on standard error, and perhaps with results.
const fn failed(
    image: &'static str,
    config: &'static str,
    stderr: &'static str,
    messages: &'static [&'static str],
) -> Case {
    Case { image, config, exit_code: 1, stderr, messages }
}

/// It goes on as if nothing were wrong, but for the results.
const fn passed(image: &'static str, config: &'static str, messages: &'static [&'static str]) -> Case {
    Case { image, config, exit_code: 0, stderr: "", messages }
}

const CASES: &[Case] = &[
    sdk("apply-replacements", "", &["FunctionConfig is missing. Expect `ApplyReplacements`"]),
    sdk(
        "apply-replacements",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}",
        &[
            "received functionConfig of kind ConfigMap and apiVersion v1, only functionConfig of kind ApplyReplacements and \
           apiVersion fn.kpt.dev/v1alpha1 is supported",
        ],
    ),
    sdk(
        "apply-replacements",
        "{apiVersion: fn.kpt.dev/v1alpha1, kind: ApplyReplacements, metadata: {name: c}, replacements: [{}]}",
        &["replacements must specify a source and at least one target"],
    ),
    failed(
        "apply-setters",
        "{data: {tag: v2}}",
        "values for setters [${img}] must be providedvalues for setters [${img}] must be provided\n",
        &["failed to apply setters: values for setters [${img}] must be provided"],
    ),
    failed(
        "create-setters",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}",
        "config map cannot be emptyconfig map cannot be empty\n",
        &["failed to create setters: config map cannot be empty"],
    ),
    failed(
        "create-setters",
        "{data: {x: zzz}}",
        "no matches for the input list of settersno matches for the input list of setters\n",
        &["failed to create setters: no matches for the input list of setters"],
    ),
    failed(
        "ensure-name-substring",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {prepend: a, append: b}}",
        "failed to load the `functionConfig`: error unmarshaling JSON: while decoding JSON: only 1 entry is allowed in the ConfigMap, but got: 2",
        &[],
    ),
    failed(
        "ensure-name-substring",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {middle: a}}",
        "failed to load the `functionConfig`: error unmarshaling JSON: while decoding JSON: unknown editMode: middle, only prepend and append are allowed",
        &[],
    ),
    failed(
        "ensure-name-substring",
        "{apiVersion: fn.kpt.dev/v1alpha1, kind: EnsureNameSubstring, metadata: {name: c}}",
        "failed to load the `functionConfig`: validation failure list:\nsubstring must not be empty",
        &[],
    ),
    failed(
        "ensure-name-substring",
        "{apiVersion: apps/v1, kind: Other, metadata: {name: c}}",
        "failed to load the `functionConfig`: error unmarshaling JSON: while decoding JSON: function config must be either /v1, Kind=ConfigMap or fn.kpt.dev/v1alpha1, \
         Kind=EnsureNameSubstring, but we got: apps/v1, Kind=Other",
        &[],
    ),
    // It takes none, and does not do without a Kptfile.
    failed(
        "fix",
        "",
        "Kptfile not found in directory tree, make sure you specify '--include-meta-resources' flagKptfile not found in \
         directory tree, make sure you specify '--include-meta-resources' flag\n",
        &[
            "failed to fix package: Kptfile not found in directory tree, make sure you specify '--include-meta-resources' \
             flag",
        ],
    ),
    // The original asks the network for both; these are our words.
    failed(
        "kubeconform",
        "{data: {kubernetes_version: '1.2'}}",
        "failed to evaluate function: Kubernetes version `1.2` is not built in; there are v1.29.6, v1.30.14, v1.31.14, \
         v1.32.13, v1.33.13, v1.34.4, v1.35.4, v1.36.3",
        &[],
    ),
    failed(
        "kubeconform",
        "{data: {schema_location: 'https://example.com'}}",
        "failed to evaluate function: schema location `https://example.com`: nothing is fetched; put the schemas into a \
         folder and name that, or use those of Kubernetes (`default`) and of the package (`package://`)",
        &[],
    ),
    failed(
        "kubeconform",
        "{data: {additional_schema_locations: 'default,/schemas'}}",
        "failed to evaluate function: schema location `/schemas`: a built-in function reads only files that it is given, \
         and here it is given none",
        &[],
    ),
    failed(
        "kubeval",
        "{data: {schema_location: 'file:///schemas'}}",
        "schema location `file:///schemas`: a built-in function reads only files that it is given, and here it is given \
         none",
        &[],
    ),
    // The original throws; these are our words.
    failed(
        "kubeval",
        "{data: {strict: sometimes}}",
        "`strict` must be `true` or `false`, not `sometimes`",
        &[],
    ),
    failed(
        "search-replace",
        "{data: {by-what: x}}",
        "invalid matcher \"by-what\", must be one of [\"by-value\" \"by-file-path\" \"by-value-regex\" \"by-path\" \
         \"put-value\" \"put-comment\"]invalid matcher \"by-what\", must be one of [\"by-value\" \"by-file-path\" \
         \"by-value-regex\" \"by-path\" \"put-value\" \"put-comment\"]\n",
        &[
            "failed to perform search-replace operation: \"invalid matcher \\\"by-what\\\", must be one of [\\\"by-value\\\" \
           \\\"by-file-path\\\" \\\"by-value-regex\\\" \\\"by-path\\\" \\\"put-value\\\" \\\"put-comment\\\"]\"",
        ],
    ),
    failed(
        "search-replace",
        "{data: {by-value: a, by-value-regex: b}}",
        "only one of [\"by-value\", \"by-value-regex\"] can be providedonly one of [\"by-value\", \"by-value-regex\"] can be \
         provided\n",
        &[
            "failed to perform search-replace operation: \"only one of [\\\"by-value\\\", \\\"by-value-regex\\\"] can be \
           provided\"",
        ],
    ),
    failed(
        "set-annotations",
        "",
        "[error]: failed to configure function: `functionConfig` must be a `ConfigMap` or `SetAnnotations`",
        &["failed to configure function: `functionConfig` must be a `ConfigMap` or `SetAnnotations`"],
    ),
    failed(
        "set-annotations",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}",
        "[error]: failed to configure function: input annotation list cannot be empty",
        &["failed to configure function: input annotation list cannot be empty"],
    ),
    failed(
        "set-annotations:v0.1.4",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}",
        "[error] : failed to configure function: input annotation list cannot be empty",
        &["failed to configure function: input annotation list cannot be empty"],
    ),
    failed(
        "set-enforcement-action",
        "{data: {enforcementAction: off}}",
        "expected values for enforcementAction are [deny] or [warn] or [dryrun]",
        &[
            "failed to process policies: expected values for enforcementAction are [deny] or [warn] or [dryrun]",
        ],
    ),
    failed(
        "set-enforcement-action",
        "{data: {enforcementAction: deny, other: x}}",
        "expecting exactly 1 enforcementAction as part of the ConfigMap",
        &["failed to process policies: expecting exactly 1 enforcementAction as part of the ConfigMap"],
    ),
    sdk(
        "set-image",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {newTag: '1'}}",
        &["invalid FunctionConfig: must specify `name`", "summary: updated a total of 0 image(s)"],
    ),
    sdk(
        "set-image",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {name: other}}",
        &[
            "invalid FunctionConfig: must specify one of `newName`, `newTag`, or `digest`",
            "summary: updated a total of 0 image(s)",
        ],
    ),
    failed(
        "set-image:unstable",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {newTag: '1'}}",
        "failed to evaluate function: function is terminated: must specify `name`",
        &["must specify `name`", "function is terminated: must specify `name`"],
    ),
    failed(
        "set-image:unstable",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {tag: '1'}}",
        "failed to evaluate function: function is terminated: ConfigMap has wrong field name tag",
        &["ConfigMap has wrong field name tag", "function is terminated: ConfigMap has wrong field name tag"],
    ),
    sdk(
        "set-labels",
        "{apiVersion: fn.kpt.dev/v1alpha1, kind: SetLabels, metadata: {name: c}, labels: [a]}",
        &[
            "unable to convert object to *setlabels.SetLabels with error: json: cannot unmarshal array into Go struct field \
           SetLabels.labels of type map[string]string",
        ],
    ),
    sdk(
        "set-labels:v0.2.5",
        "{apiVersion: example.com/v1, kind: Other, metadata: {name: c}}",
        &["unknown FunctionConfig `Other.example.com`, expect `SetLabels.fn.kpt.dev` or `ConfigMap.v1`"],
    ),
    sdk("set-labels", "", &["`FunctionConfig` is not given"]),
    failed(
        "set-labels:v0.1.5",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}",
        "[error] : failed to configure function: input label list cannot be empty",
        &["failed to configure function: input label list cannot be empty"],
    ),
    failed(
        "set-labels:v0.1.5",
        "",
        "[error] : failed to configure function: `functionConfig` must be either a `ConfigMap` or `SetLabels`",
        &["failed to configure function: `functionConfig` must be either a `ConfigMap` or `SetLabels`"],
    ),
    sdk(
        "set-namespace",
        "",
        &["FunctionConfig is missing. Expect `ConfigMap.v1` or `SetNamespace.v1alpha1.fn.kpt.dev`"],
    ),
    sdk(
        "set-namespace",
        "{apiVersion: apps/v1, kind: Other, metadata: {name: c}}",
        &[
            "unknown functionConfig Kind=Other ApiVersion=apps/v1, expect `ConfigMap.v1` or `SetNamespace.v1alpha1.fn.kpt.dev`",
        ],
    ),
    sdk(
        "set-namespace",
        "{apiVersion: fn.kpt.dev/v1alpha1, kind: SetNamespace, metadata: {name: c}}",
        &["`namespace` should not be empty"],
    ),
    passed(
        "set-namespace:v0.4.5",
        "",
        &["FunctionConfig is missing. Expect `ConfigMap.v1` or `SetNamespace.v1alpha1.fn.kpt.dev`"],
    ),
    passed(
        "set-namespace:unstable",
        "{apiVersion: v1, kind: ConfigMap}",
        &["`data.namespace` should not be empty"],
    ),
    sdk("set-namespace:v0.4.1", "", &["FunctionConfig is missing. Expect `ConfigMap` or `SetNamespace`"]),
    sdk(
        "set-namespace:v0.4.1",
        "{apiVersion: apps/v1, kind: Other, metadata: {name: c}}",
        &["unknown functionConfig Kind=Other ApiVersion=apps/v1, expect `SetNamespace` or `ConfigMap`"],
    ),
    failed(
        "set-namespace:v0.4.1",
        "{apiVersion: v1, kind: ConfigMap, data: {namespace: 5}}",
        "failed to evaluate function: SubObject has unmatched field type: `data/namespace",
        &["SubObject has unmatched field type: `data/namespace"],
    ),
    passed(
        "set-namespace:v0.3.1",
        "{apiVersion: v1, kind: ConfigMap}",
        &["`data.namespace` should not be empty"],
    ),
    failed(
        "set-namespace:v0.2.0",
        "{apiVersion: v1, kind: ConfigMap}",
        "[error] : failed to configure function: input namespace cannot be empty",
        &["failed to configure function: input namespace cannot be empty"],
    ),
    failed(
        "set-namespace:v0.1.4",
        "",
        "[error] : failed to configure function: `functionConfig` must be a `ConfigMap` or `SetNamespace`",
        &["failed to configure function: `functionConfig` must be a `ConfigMap` or `SetNamespace`"],
    ),
    failed(
        "set-project-id",
        "{data: {project-id: x}}",
        "failed to set project-id setter: failed to find Kptfile: unable to find Kptfile, please include \
         --include-meta-resources flag if a Kptfile is presentfailed to set project-id setter: failed to find Kptfile: \
         unable to find Kptfile, please include --include-meta-resources flag if a Kptfile is present\n",
        &[],
    ),
    sdk("starlark", "", &["FunctionConfig is missing. Expect `ConfigMap` or `StarlarkRun`"]),
    sdk(
        "starlark",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}",
        &["`source` must not be empty"],
    ),
    sdk(
        "starlark",
        "{apiVersion: apps/v1, kind: Other, metadata: {name: c}}",
        &[
            "`functionConfig` must be either /v1, Kind=ConfigMap or fn.kpt.dev/v1alpha1, Kind=StarlarkRun, but we got: apps/v1, \
           Kind=Other",
        ],
    ),
    failed(
        "upsert-resource",
        "{data: {a: b}}",
        "failed to upsert resource: missing Resource metadatafailed to upsert resource: missing Resource metadata\n",
        &[],
    ),
];

/// Functions that take no config, so that none is bad.
const WITHOUT: &[&str] = &[
    "drop-comments",
    "enable-gcp-services",
    "format",
    "gatekeeper",
    "gen-pkg-context",
    "list-setters",
    "no-op",
    "remove-local-config-resources",
];

const ITEMS: &str = "- apiVersion: apps/v1
  kind: Deployment
  metadata:
    name: web
  spec:
    template:
      spec:
        containers:
        - name: web
          image: app # kpt-set: ${img}:${tag}
";

fn run(image: &str, config: &str) -> (loggia_functions::Output, Vec<String>) {
    let config = if config.is_empty() { String::new() } else { format!("functionConfig: {config}\n") };
    let input = format!("apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems:\n{ITEMS}{config}");
    let output = find(image).unwrap_or_else(|| panic!("{image} is not built in")).1.filter(input.as_bytes());
    let list = ResourceList::parse(output.stdout.as_bytes(), StreamOptions::default()).unwrap();
    let messages = list.results().unwrap().0.into_iter().map(|result| result.message).collect();
    (output, messages)
}

#[test]
fn a_bad_config_is_answered_in_the_original_s_words() {
    let mut wrong = Vec::new();
    for Case { image, config, exit_code, stderr, messages } in CASES {
        let (output, said) = run(image, config);
        if (output.exit_code, output.stderr.as_str()) != (*exit_code, *stderr) || said != *messages {
            wrong.push(format!(
                "{image} {config}: exit {}\n  {:?}\n  {said:?}",
                output.exit_code, output.stderr
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_takes_no_config_minds_none() {
    for name in WITHOUT {
        let (output, said) = run(name, "{apiVersion: v1, kind: Nonsense, data: [1, 2]}");
        assert_eq!((output.exit_code, output.stderr.as_str()), (0, ""), "{name}: {said:?}");
    }
}

#[test]
fn every_function_of_the_catalog_is_in_one_of_these_tables() {
    for function in CATALOG {
        let has = |image: &str| image.split(':').next() == Some(function.name);
        let known = CASES.iter().any(|case| has(case.image));
        assert_ne!(known, WITHOUT.contains(&function.name), "{}", function.name);
    }
}
