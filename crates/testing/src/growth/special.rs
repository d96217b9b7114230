//! Lists that are hard for a single function.

use super::*;

/// Lists that are bad for one function.
pub(super) fn special() -> Vec<Shape> {
    let half = |bytes: usize| bytes / 2;
    let data = |entries: &str| format!("{{{CONFIG_MAP}, data: {{{entries}}}}}");
    let map = |body: &str| {
        format!("- {{apiVersion: v1, kind: ConfigMap, metadata: {{name: m}}, data: {{{body}}}}}\n")
    };
    let joined = |bytes: usize, piece: fn(usize) -> String| {
        repeated(bytes, |at, out| write!(out, "{}{}", if at == 0 { "" } else { ", " }, piece(at)))
    };
    let mut shapes: Vec<Shape> = Vec::new();
    let mut add = |image, name, make: Box<dyn Fn(usize) -> String>| {
        shapes.push(Shape { image, name, hostile: true, is_general: false, make });
    };
    add(
        "search-replace",
        "one group put many times",
        Box::new(move |bytes| {
            let put = "${1}".repeat(half(bytes) / 4);
            list(
                &data(&format!("by-value-regex: '^(A+)$', put-value: '{put}'")),
                &map(&format!("k: {}", "A".repeat(half(bytes)))),
            )
        }),
    );
    add(
        "search-replace",
        "references that never end",
        Box::new(move |bytes| {
            let put = "${".repeat(half(bytes) / 2);
            list(
                &data(&format!("by-value-regex: 'x', put-value: '{put}'")),
                &map(&joined(half(bytes), |at| format!("k{at}: x"))),
            )
        }),
    );
    add(
        "search-replace",
        "an expression that keeps its options open",
        Box::new(move |bytes| {
            let expression = format!("[ab]*a{}c", "[ab]{1000}".repeat(12));
            list(
                &data(&format!("by-value-regex: '{expression}', put-value: x")),
                &map(&format!("k: {}", "ab".repeat(half(bytes)))),
            )
        }),
    );
    add(
        "search-replace",
        "an expression of medium size on short texts",
        Box::new(move |bytes| {
            let expression = "(?:[ab]*a[ab]{60}){4}c".to_owned();
            list(
                &data(&format!("by-value-regex: '{expression}', put-value: x")),
                &map(&joined(bytes, |at| {
                    format!("k{at}: {}", if at % 3 == 0 { "abab".repeat(60) } else { "aabb".repeat(50) })
                })),
            )
        }),
    );
    add(
        "search-replace",
        "an expression of open braces",
        Box::new(move |bytes| {
            list(&data(&format!("by-value-regex: '{}', put-value: x", "{".repeat(bytes))), &map("k: v"))
        }),
    );
    add(
        "search-replace",
        "one long key above many fields",
        Box::new(move |bytes| {
            let key = "a.b".repeat(half(bytes) / 3);
            let fields = repeated(half(bytes), |at, out| writeln!(out, "      k{at}: x"));
            list(
                &data("by-path: '**.q', put-value: x"),
                &format!(
                    "- apiVersion: v1\n  kind: ConfigMap\n  metadata: {{name: m}}\n  data:\n    ? {key}\n    :\n{fields}"
                ),
            )
        }),
    );
    add(
        "search-replace",
        "lists in lists get comments",
        Box::new(move |bytes| {
            let (open, close) = ("{a: [".repeat(400), "]}".repeat(400));
            list(
                &data("by-path: '**', put-comment: c"),
                &map(&format!("k: {open}{}{close}", "x".repeat(bytes))),
            )
        }),
    );
    add(
        "apply-setters",
        "one setter many times in a comment",
        Box::new(move |bytes| {
            let (value, pattern) = ("v".repeat(half(bytes)), "${a}".repeat(half(bytes) / 4));
            list(
                &data(&format!("a: {value}")),
                &format!(
                    "- apiVersion: v1\n  kind: ConfigMap\n  metadata:\n    name: m # kpt-set: {pattern}\n"
                ),
            )
        }),
    );
    add(
        "apply-setters",
        "setters that double each other",
        Box::new(move |bytes| {
            let setters = joined(4096, |at| format!("a{at:03}: '${{a{:03}}}${{a{:03}}}'", at + 1, at + 1));
            let pattern: String = (0..200).map(|at| format!("${{a{at:03}}}")).collect();
            let pad = "x".repeat(bytes);
            list(
                &data(&setters),
                &format!(
                    "- apiVersion: v1\n  kind: ConfigMap\n  metadata:\n    name: m # kpt-set: {pattern}\n  data: {{p: {pad}}}\n"
                ),
            )
        }),
    );
    add(
        "apply-setters",
        "many setters and many comments",
        Box::new(move |bytes| {
            let fields = repeated(half(bytes), |at, out| writeln!(out, "    k{at}: x # kpt-set: ${{s{at}}}"));
            list(
                &data(&joined(half(bytes), |at| format!("s{at}: y"))),
                &format!("- apiVersion: v1\n  kind: ConfigMap\n  metadata: {{name: m}}\n  data:\n{fields}"),
            )
        }),
    );
    add(
        "apply-setters",
        "a comment of many setters",
        Box::new(move |bytes| {
            let pattern = repeated(half(bytes), |at, out| write!(out, "-${{s{at}}}"));
            list(
                &data(&joined(half(bytes), |at| format!("s{at}: y"))),
                &format!(
                    "- apiVersion: v1\n  kind: ConfigMap\n  metadata:\n    name: m # kpt-set: {pattern}\n"
                ),
            )
        }),
    );
    add(
        "apply-setters",
        "values made of references",
        Box::new(move |bytes| {
            let value = repeated(half(bytes), |at, out| write!(out, "${{s{at}}}"));
            list(
                &data("a: x"),
                &format!(
                    "- apiVersion: v1\n  kind: ConfigMap\n  metadata:\n    name: '{value}' # kpt-set: ${{a}}\n"
                ),
            )
        }),
    );
    add(
        "apply-setters",
        "a long name in every result",
        Box::new(move |bytes| {
            let fields = repeated(half(bytes), |at, out| writeln!(out, "    k{at}: x # kpt-set: ${{a}}"));
            list(
                &data("a: y"),
                &format!(
                    "- apiVersion: v1\n  kind: ConfigMap\n  metadata: {{name: {}}}\n  data:\n{fields}",
                    "n".repeat(half(bytes))
                ),
            )
        }),
    );
    add(
        "list-setters",
        "a pattern of references and a text of lines",
        Box::new(move |bytes| {
            let pattern = format!("${{a}}y{}", "${b}".repeat(half(bytes) / 4));
            let lines = "x\\n".repeat(half(bytes) / 3);
            list(
                "{}",
                &format!(
                    "- apiVersion: v1\n  kind: ConfigMap\n  metadata:\n    name: \"{lines}\" # kpt-set: {pattern}\n"
                ),
            )
        }),
    );
    add(
        "list-setters",
        "many steps with configs",
        Box::new(move |bytes| {
            let steps = repeated(half(bytes), |at, out| {
                writeln!(out, "    - {{image: apply-setters, configPath: s{at}.yaml}}")
            });
            let files = repeated(half(bytes), |at, out| {
                writeln!(
                    out,
                    "- {{apiVersion: v1, kind: ConfigMap, metadata: {{name: s{at}, annotations: {{config.kubernetes.io/path: s{at}.yaml}}}}, data: {{a{at}: b}}}}"
                )
            });
            list(
                "{}",
                &format!(
                    "- apiVersion: kpt.dev/v1\n  kind: Kptfile\n  metadata: {{name: p, annotations: {{config.kubernetes.io/path: Kptfile}}}}\n  pipeline:\n    mutators:\n{steps}{files}"
                ),
            )
        }),
    );
    add(
        "create-setters",
        "many setters and many fields",
        Box::new(move |bytes| {
            list(
                &data(&joined(half(bytes), |at| format!("s{at}: v{at}w"))),
                &map(&joined(half(bytes), |at| format!("k{at}: u{at}w"))),
            )
        }),
    );
    add(
        "create-setters",
        "a long setter that nearly fits everywhere",
        Box::new(move |bytes| {
            let (run, text) = ("a".repeat(bytes / 4), "a".repeat(half(bytes)));
            list(&data(&format!("s: {run}b")), &map(&format!("k: {text}{run}b")))
        }),
    );
    add(
        "create-setters",
        "many lists",
        Box::new(move |bytes| {
            list(
                &data(&joined(half(bytes), |at| format!("s{at}: '[a, {at}]'"))),
                &map(&joined(half(bytes), |at| format!("k{at}: [a, b{at}]"))),
            )
        }),
    );
    add(
        "apply-replacements",
        "a field put into itself",
        Box::new(move |bytes| {
            let replacements = joined(4096, |_| {
                "{source: {kind: ConfigMap, name: m, fieldPath: data}, targets: [{select: {kind: ConfigMap}, fieldPaths: [data.a, data.b], options: {create: true}}]}".to_owned()
            });
            list(
                &format!(
                    "{{apiVersion: fn.kpt.dev/v1alpha1, kind: ApplyReplacements, metadata: {{name: c}}, replacements: [{replacements}]}}"
                ),
                &map(&format!("k: {}, a: {{}}, b: {{}}", "x".repeat(bytes))),
            )
        }),
    );
    add(
        "apply-replacements",
        "a path without end",
        Box::new(move |bytes| {
            let path = "a.".repeat(bytes / 2);
            list(
                &format!(
                    "{{apiVersion: fn.kpt.dev/v1alpha1, kind: ApplyReplacements, metadata: {{name: c}}, replacements: [{{source: {{kind: ConfigMap, name: m}}, targets: [{{select: {{kind: ConfigMap}}, fieldPaths: [{path}a], options: {{create: true}}}}]}}]}}"
                ),
                &map("k: v"),
            )
        }),
    );
    add(
        "apply-replacements",
        "many targets and many items",
        Box::new(move |bytes| {
            let targets = joined(half(bytes), |at| format!("{{select: {{name: c{at}}}}}"));
            let items = repeated(half(bytes), |at, out| {
                writeln!(out, "- {{apiVersion: v1, kind: A, metadata: {{name: c{at}}}}}")
            });
            list(
                &format!(
                    "{{apiVersion: fn.kpt.dev/v1alpha1, kind: ApplyReplacements, metadata: {{name: c}}, replacements: [{{source: {{name: c0}}, targets: [{targets}]}}]}}"
                ),
                &items,
            )
        }),
    );
    add(
        "apply-replacements",
        "many paths into one text",
        Box::new(move |bytes| {
            let paths = joined(half(bytes), |_| "data.k.a".to_owned());
            let text = joined(half(bytes), |at| format!("\"a{at}\": 1"));
            list(
                &format!(
                    "{{apiVersion: fn.kpt.dev/v1alpha1, kind: ApplyReplacements, metadata: {{name: c}}, replacements: [{{source: {{kind: ConfigMap}}, targets: [{{select: {{kind: ConfigMap}}, fieldPaths: [{paths}]}}]}}]}}"
                ),
                &map(&format!("k: '{{\"a\": 1, {text}}}'")),
            )
        }),
    );
    add(
        "apply-replacements",
        "a pattern for every item of a list",
        Box::new(move |bytes| {
            let items = joined(bytes, |at| format!("{{name: n{at}, v: 1}}"));
            list(
                "{apiVersion: fn.kpt.dev/v1alpha1, kind: ApplyReplacements, metadata: {name: c}, replacements: [{source: {kind: ConfigMap}, targets: [{select: {kind: ConfigMap}, fieldPaths: ['data.l.[name=n.*9].v']}]}]}",
                &map(&format!("l: [{items}]")),
            )
        }),
    );
    add(
        "set-labels",
        "many labels on one resource",
        Box::new(move |bytes| list(&data(&joined(half(bytes), |at| format!("l{at}: v"))), &map("a: b"))),
    );
    add(
        "set-labels:v0.1.5",
        "many labels on one resource",
        Box::new(move |bytes| list(&data(&joined(half(bytes), |at| format!("l{at}: v"))), &map("a: b"))),
    );
    add(
        "set-labels",
        "many labels on many resources",
        Box::new(move |bytes| {
            let items = repeated(half(bytes), |at, out| {
                writeln!(out, "- {{apiVersion: v1, kind: A, metadata: {{name: c{at}}}}}")
            });
            list(&data(&joined(half(bytes), |at| format!("l{at}: v"))), &items)
        }),
    );
    add(
        "set-annotations",
        "many annotations on one resource",
        Box::new(move |bytes| list(&data(&joined(half(bytes), |at| format!("l{at}: v"))), &map("a: b"))),
    );
    add(
        "set-annotations",
        "many fields for many resources",
        Box::new(move |bytes| {
            let fields = joined(half(bytes), |at| format!("{{path: spec/a{at}/b}}"));
            let items = repeated(half(bytes), |at, out| {
                writeln!(out, "- {{apiVersion: v1, kind: A, metadata: {{name: c{at}}}}}")
            });
            list(
                &format!(
                    "{{apiVersion: fn.kpt.dev/v1alpha1, kind: SetAnnotations, metadata: {{name: c}}, annotations: {{a: b}}, additionalAnnotationFields: [{fields}]}}"
                ),
                &items,
            )
        }),
    );
    add(
        "set-annotations",
        "a path without end",
        Box::new(move |bytes| {
            let path = "a/".repeat(bytes / 2);
            list(
                &format!(
                    "{{apiVersion: fn.kpt.dev/v1alpha1, kind: SetAnnotations, metadata: {{name: c}}, annotations: {{a: b}}, additionalAnnotationFields: [{{path: {path}b, create: true}}]}}"
                ),
                &map("a: b"),
            )
        }),
    );
    add(
        "set-image",
        "lists where an image should be",
        Box::new(move |bytes| {
            let (open, close) = ("[".repeat(9000), "]".repeat(9000));
            let item = format!(
                "- {{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {{containers: {open}x{close}}}}}\n"
            );
            let padding = "x".repeat(bytes);
            list(&data("name: nginx, newTag: '2'"), &format!("{item}{}", map(&format!("p: {padding}"))))
        }),
    );
    add(
        "set-image",
        "a name that keeps its options open",
        Box::new(move |bytes| {
            let name = format!("[ab]*a{}c", "[ab]{1000}".repeat(12));
            let image = "ab".repeat(bytes / 2);
            list(
                &data(&format!("name: '{name}', newTag: '2'")),
                &format!(
                    "- {{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {{containers: [{{image: {image}}}]}}}}\n"
                ),
            )
        }),
    );
    add(
        "ensure-name-substring",
        "one name in many namespaces",
        Box::new(move |bytes| {
            let items = repeated(bytes, |at, out| {
                writeln!(
                    out,
                    "- {{apiVersion: v1, kind: ConfigMap, metadata: {{name: c, namespace: n{at}}}}}\n- {{apiVersion: v1, kind: Pod, metadata: {{name: p, namespace: n{at}}}, spec: {{volumes: [{{configMap: {{name: c}}}}]}}}}"
                )
            });
            list(&data("prepend: x-"), &items)
        }),
    );
    add(
        "ensure-name-substring",
        "one role that names all of them",
        Box::new(move |bytes| {
            let items = repeated(half(bytes), |at, out| {
                writeln!(
                    out,
                    "- {{apiVersion: v1, kind: ConfigMap, metadata: {{name: c, namespace: n{at}}}}}"
                )
            });
            let names = joined(half(bytes), |_| "c".to_owned());
            let role = format!(
                "- {{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {{name: r}}, rules: [{{resourceNames: [{names}]}}]}}\n"
            );
            list(&data("prepend: x-"), &format!("{items}{role}"))
        }),
    );
    add(
        "ensure-name-substring",
        "a long prefix for many names",
        Box::new(move |bytes| {
            let items = repeated(half(bytes), |at, out| {
                writeln!(out, "- {{apiVersion: v1, kind: A, metadata: {{name: c{at}}}}}")
            });
            list(&data(&format!("prepend: {}", "p".repeat(half(bytes)))), &items)
        }),
    );
    add(
        "set-namespace",
        "a long namespace for many resources",
        Box::new(move |bytes| {
            let items = repeated(half(bytes), |at, out| {
                writeln!(out, "- {{apiVersion: v1, kind: ConfigMap, metadata: {{name: c{at}}}}}")
            });
            list(&data(&format!("namespace: {}", "n".repeat(half(bytes)))), &items)
        }),
    );
    add(
        "upsert-resource",
        "many resources for many",
        Box::new(move |bytes| {
            let piece = |at: usize, out: &mut String| {
                writeln!(out, "- {{apiVersion: v1, kind: A, metadata: {{name: c{at}}}}}")
            };
            let (config, items) = (repeated(half(bytes), piece), repeated(half(bytes), piece));
            format!(
                "{HEADER}functionConfig:\n  apiVersion: v1\n  kind: List\n  items:\n  {}\nitems:\n{items}",
                config.trim_end().replace('\n', "\n  ")
            )
        }),
    );
    add(
        "set-project-id",
        "many Kptfiles with one config",
        Box::new(move |bytes| {
            let kptfiles = repeated(half(bytes), |at, out| {
                writeln!(
                    out,
                    "- {{apiVersion: kpt.dev/v1, kind: Kptfile, metadata: {{name: p{at}}}, pipeline: {{mutators: [{{image: 'apply-setters:v0.2', configPath: s.yaml}}]}}}}"
                )
            });
            let setters = joined(half(bytes), |at| format!("a{at}: b"));
            list(
                &data("project-id: p"),
                &format!(
                    "{kptfiles}- {{apiVersion: v1, kind: ConfigMap, metadata: {{name: s, annotations: {{config.kubernetes.io/path: s.yaml}}}}, data: {{{setters}}}}}\n"
                ),
            )
        }),
    );
    add(
        "fix",
        "many packages",
        Box::new(move |bytes| {
            let items = repeated(bytes, |at, out| {
                writeln!(
                    out,
                    "- {{apiVersion: kpt.dev/v1alpha1, kind: Kptfile, metadata: {{name: p{at}, annotations: {{config.kubernetes.io/path: p{at}/Kptfile}}}}}}\n- {{kind: A, metadata: {{name: a, annotations: {{config.kubernetes.io/path: p{at}/a.yaml}}}}}}"
                )
            });
            list("{}", &items)
        }),
    );
    add(
        "fix",
        "substitutions that double each other",
        Box::new(move |bytes| {
            let definitions = joined(bytes, |at| {
                format!(
                    "io.k8s.cli.substitutions.s{at}: {{x-k8s-cli: {{substitution: {{name: s{at}, pattern: xx, values: [{{marker: x, ref: '#/definitions/io.k8s.cli.substitutions.s{}'}}]}}}}}}",
                    at + 1
                )
            });
            list(
                "{}",
                &format!(
                    "- apiVersion: kpt.dev/v1alpha1\n  kind: Kptfile\n  metadata: {{name: p, annotations: {{config.kubernetes.io/path: Kptfile}}}}\n  openAPI: {{definitions: {{{definitions}}}}}\n- kind: A\n  metadata:\n    name: a # {{\"$kpt-set\":\"s0\"}}\n    annotations: {{config.kubernetes.io/path: a.yaml}}\n"
                ),
            )
        }),
    );
    add(
        "enable-gcp-services",
        "many sets",
        Box::new(move |bytes| {
            let items = repeated(bytes, |at, out| {
                writeln!(
                    out,
                    "- {{apiVersion: blueprints.cloud.google.com/v1alpha1, kind: ProjectServiceSet, metadata: {{name: s{at}}}, spec: {{services: [a.b.c]}}}}"
                )
            });
            list("{}", &items)
        }),
    );
    add(
        "enable-gcp-services",
        "a long annotation for many services",
        Box::new(move |bytes| {
            let services = joined(half(bytes), |at| format!("a{at}.b.c"));
            list(
                "{}",
                &format!(
                    "- {{apiVersion: blueprints.cloud.google.com/v1alpha1, kind: ProjectServiceSet, metadata: {{name: s, annotations: {{a: {}}}}}, spec: {{services: [{services}]}}}}\n",
                    "x".repeat(half(bytes))
                ),
            )
        }),
    );
    add(
        "gen-pkg-context",
        "a long namespace for many Kptfiles",
        Box::new(move |bytes| {
            let items = repeated(half(bytes), |at, out| {
                writeln!(
                    out,
                    "- {{apiVersion: kpt.dev/v1, kind: Kptfile, metadata: {{name: p{at}, annotations: {{config.kubernetes.io/path: Kptfile}}}}}}"
                )
            });
            list(&data(&format!("namespace: {}", "n".repeat(half(bytes)))), &items)
        }),
    );
    for image in ["kubeconform", "kubeval"] {
        let crd = |schema: &str| {
            format!(
                "- {{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {{name: c}}, spec: {{group: x.io, names: {{kind: C}}, versions: [{{name: v1, schema: {{openAPIV3Schema: {{type: object, properties: {{l: {schema}}}}}}}}}]}}}}\n"
            )
        };
        let config = data("additional_schema_locations: 'package://'");
        let with = move |config: &str, schema: &str, value: &str| {
            list(
                config,
                &format!(
                    "{}- {{apiVersion: x.io/v1, kind: C, metadata: {{name: c}}, l: {value}}}\n",
                    crd(schema)
                ),
            )
        };
        let (one, two, three, four, five) =
            (config.clone(), config.clone(), config.clone(), config.clone(), config);
        add(
            image,
            "many different items",
            Box::new(move |bytes| {
                with(
                    &one,
                    "{type: array, uniqueItems: true}",
                    &format!("[{}]", joined(bytes, |at| format!("{{a: {at}}}"))),
                )
            }),
        );
        add(
            image,
            "a pattern for every item",
            Box::new(move |bytes| {
                with(
                    &two,
                    "{type: array, items: {type: string, pattern: '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$'}}",
                    &format!("[{}]", joined(bytes, |at| format!("n{at}"))),
                )
            }),
        );
        add(
            image,
            "many values allowed and none right",
            Box::new(move |bytes| {
                with(
                    &three,
                    &format!(
                        "{{type: array, items: {{type: string, enum: [{}]}}}}",
                        joined(half(bytes), |at| format!("e{at}"))
                    ),
                    &format!("[{}]", joined(half(bytes), |at| format!("n{at}"))),
                )
            }),
        );
        add(
            image,
            "many fields required",
            Box::new(move |bytes| {
                with(
                    &four,
                    &format!("{{type: object, required: [{}]}}", joined(half(bytes), |at| format!("f{at}"))),
                    &format!("{{{}}}", joined(half(bytes), |at| format!("f{at}: 1"))),
                )
            }),
        );
        add(
            image,
            "many alternatives for many items",
            Box::new(move |bytes| {
                with(
                    &five,
                    &format!(
                        "{{type: array, items: {{anyOf: [{}]}}}}",
                        joined(half(bytes), |_| "{type: integer}".to_owned())
                    ),
                    &format!("[{}]", joined(half(bytes), |at| format!("n{at}"))),
                )
            }),
        );
        add(
            image,
            "a kind of its own for every item",
            Box::new(move |bytes| {
                list(
                    "{}",
                    &repeated(bytes, |at, out| {
                        writeln!(out, "- {{apiVersion: v{at}, kind: K{at}, metadata: {{name: c}}}}")
                    }),
                )
            }),
        );
    }
    add(
        "gatekeeper",
        "many constraints for many items",
        Box::new(move |bytes| {
            let constraints = repeated(half(bytes), |at, out| {
                writeln!(
                    out,
                    "- {{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: Named, metadata: {{name: n{at}}}, spec: {{match: {{kinds: [{{kinds: [Other]}}]}}}}}}"
                )
            });
            let items = repeated(half(bytes), |at, out| {
                writeln!(out, "- {{apiVersion: v1, kind: A, metadata: {{name: c{at}}}}}")
            });
            list("{}", &format!("{}{constraints}{items}", beside("gatekeeper")))
        }),
    );
    add(
        "starlark",
        "a list of one long text",
        Box::new(move |bytes| {
            list(
                "{apiVersion: fn.kpt.dev/v1alpha1, kind: StarlarkRun, metadata: {name: c}, source: 'ctx.resource_list[\"items\"][0][\"l\"] = [ctx.resource_list[\"items\"][0][\"data\"][\"k\"]] * 100000'}",
                &map(&format!("k: {}", "x".repeat(bytes))),
            )
        }),
    );
    add(
        "starlark",
        "many merges",
        Box::new(move |bytes| {
            let merges = joined(half(bytes), |_| "*a".to_owned());
            list(
                "{apiVersion: fn.kpt.dev/v1alpha1, kind: StarlarkRun, metadata: {name: c}, source: 'x = 1'}",
                &format!(
                    "- {{apiVersion: v1, kind: A, metadata: {{name: n}}, x: &a {{k: v}}, y: {{<<: [{merges}]}}}}\n"
                ),
            )
        }),
    );
    add(
        "no-op",
        "one anchor in every item",
        Box::new(move |bytes| {
            let items = repeated(half(bytes), |at, out| {
                writeln!(out, "- {{kind: A, metadata: {{name: c{at}}}, x: *big}}")
            });
            list(&format!("{{a: &big {}}}", "x".repeat(half(bytes))), &items)
        }),
    );
    add(
        "drop-comments",
        "an alias of a long text",
        Box::new(move |bytes| {
            let aliases = joined(half(bytes), |at| format!("k{at}: *a"));
            list(
                "{}",
                &format!(
                    "- {{apiVersion: v1, kind: A, metadata: {{name: n}}, k: &a {}, {aliases}}}\n",
                    "x".repeat(half(bytes))
                ),
            )
        }),
    );
    add(
        "drop-comments",
        "many numbers deep inside",
        Box::new(move |bytes| {
            let (open, close) = ("[".repeat(900), "]".repeat(900));
            list("{}", &map(&format!("k: {open}{}{close}", joined(bytes, |_| "1".to_owned()))))
        }),
    );
    shapes
}
