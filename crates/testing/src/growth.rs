//! Lists that show how the cost of the built-in functions grows: honest ones, and the worst we could think of.
//!
//! [`shapes`] makes each of them at any size. A test runs them small and a benchmark large.

mod special;

use std::fmt::Write as _;

/// A list for a function, of about any size.
pub struct Shape {
    /// The function, by the short name of its image.
    pub image: &'static str,
    /// What the list looks like.
    pub name: &'static str,
    /// Whether it is made to do harm.
    pub hostile: bool,
    /// Whether every function gets such a list.
    pub is_general: bool,
    make: Box<dyn Fn(usize) -> String>,
}

impl Shape {
    /// The list, of about so many bytes.
    #[must_use]
    pub fn list(&self, bytes: usize) -> String {
        (self.make)(bytes)
    }
}

impl std::fmt::Debug for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} on {}", self.image, self.name)
    }
}

/// The processor time of this process so far, in seconds, to a hundredth. Unlike the time on a clock it hardly depends on
/// what else the machine does.
#[must_use]
pub fn processor_time() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name in brackets may hold anything; user and system time are the 12th and 13th fields behind it.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    let ticks: f64 = fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    ticks / 100.0
}

const HEADER: &str = "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\n";
const CONFIG_MAP: &str = "apiVersion: v1, kind: ConfigMap, metadata: {name: config}";

/// The functions, each with a config that makes it work.
const CONFIGS: [(&str, &str); 24] = [
    (
        "apply-replacements",
        "{apiVersion: fn.kpt.dev/v1alpha1, kind: ApplyReplacements, metadata: {name: c}, replacements: [{source: {kind: \
         Source, name: source}, targets: [{select: {name: '.*'}, fieldPaths: [spec.image], options: {create: true}}]}]}",
    ),
    ("apply-setters", "{CM, data: {tag: '2', name: x}}"),
    ("create-setters", "{CM, data: {tag: '1.7', name: nginx, list: '[a, b]'}}"),
    ("drop-comments", "{}"),
    ("enable-gcp-services", "{}"),
    ("ensure-name-substring", "{CM, data: {prepend: dev-}}"),
    ("fix", "{}"),
    ("format", "{}"),
    ("gatekeeper", "{}"),
    ("gen-pkg-context", "{CM, data: {namespace: x}}"),
    ("kubeconform", "{CM, data: {strict: 'true'}}"),
    ("kubeval", "{CM, data: {strict: 'true', ignore_missing_schemas: 'true'}}"),
    ("list-setters", "{}"),
    ("no-op", "{}"),
    ("remove-local-config-resources", "{}"),
    ("search-replace", "{CM, data: {by-value-regex: '^(ngi)nx(.*)$', put-value: '${1}x${2}'}}"),
    ("set-annotations", "{CM, data: {owner: a}}"),
    ("set-enforcement-action", "{CM, data: {enforcementAction: deny}}"),
    ("set-image", "{CM, data: {name: nginx, newTag: '2'}}"),
    ("set-labels", "{CM, data: {tier: be}}"),
    ("set-namespace", "{CM, data: {namespace: staging}}"),
    ("set-project-id", "{CM, data: {project-id: p}}"),
    (
        "starlark",
        "{apiVersion: fn.kpt.dev/v1alpha1, kind: StarlarkRun, metadata: {name: c}, source: 'def f(r): r[\"x\"] = \
         \"y\"\n\n[f(r) for r in ctx.resource_list[\"items\"]]'}",
    ),
    ("upsert-resource", "{apiVersion: v1, kind: ConfigMap, metadata: {name: new}, data: {a: b}}"),
];

/// A name, whether the items are hostile, and a function that makes items of about so many bytes.
type Items = (&'static str, bool, fn(usize) -> String);

/// What every function gets.
const ITEMS: [Items; 13] = [
    ("deployments", false, deployments),
    ("many tiny items", false, |bytes| {
        repeated(bytes, |at, out| {
            writeln!(out, "- {{apiVersion: v1, kind: ConfigMap, metadata: {{name: c{at}}}}}")
        })
    }),
    ("one mapping of many keys", false, |bytes| {
        format!(
            "- apiVersion: v1\n  kind: ConfigMap\n  metadata: {{name: m}}\n  data:\n{}",
            repeated(bytes, |at, out| { writeln!(out, "    key{at}: nginx") })
        )
    }),
    ("one list of many numbers", false, |bytes| {
        format!(
            "- apiVersion: v1\n  kind: ConfigMap\n  metadata: {{name: m}}\n  data:\n    l:\n{}",
            repeated(bytes, |at, out| { writeln!(out, "    - {at}") })
        )
    }),
    ("one long scalar", false, |bytes| {
        format!(
            "- apiVersion: v1\n  kind: ConfigMap\n  metadata: {{name: m}}\n  data:\n    k: {}\n",
            "nginx".repeat(bytes / 5)
        )
    }),
    ("one long text of lines", false, |bytes| {
        let lines = repeated(bytes, |at, out| writeln!(out, "      line {at} of nginx:1.7"));
        format!("- apiVersion: v1\n  kind: ConfigMap\n  metadata: {{name: m}}\n  data:\n    k: |\n{lines}")
    }),
    ("wrong types everywhere", true, |bytes| {
        format!(
            "- apiVersion: v1\n  kind: ConfigMap\n  metadata: {{name: m}}\n  data:\n{}",
            repeated(bytes, |at, out| { writeln!(out, "    k{at}: 1") })
        )
    }),
    ("deep lists", true, |bytes| {
        repeated(bytes, |at, out| {
            let (open, close) = ("[".repeat(900), "]".repeat(900));
            writeln!(
                out,
                "- {{apiVersion: v1, kind: ConfigMap, metadata: {{name: c{at}}}, data: {{k: {open}{close}}}}}"
            )
        })
    }),
    ("deep mappings", true, |bytes| {
        repeated(bytes, |at, out| {
            let (open, close) = ("{a: ".repeat(900), "}".repeat(900));
            writeln!(
                out,
                "- {{apiVersion: v1, kind: Deployment, metadata: {{name: c{at}}}, spec: {open}x{close}}}"
            )
        })
    }),
    ("comments everywhere", true, |bytes| {
        repeated(bytes, |at, out| {
            writeln!(
                out,
                "# above\n- apiVersion: v1 # kpt-set: ${{a}}\n  kind: ConfigMap # b\n  # c\n\n  # d\n  metadata: # e\n    name: c{at} # kpt-set: ${{name}}{at}\n  # f"
            )
        })
    }),
    ("one comment of many lines below something deep", true, |bytes| {
        let (open, comment) = ("- ".repeat(3000), "#\n #\n".repeat(bytes / 5));
        format!(
            "- apiVersion: v1\n  kind: ConfigMap\n  metadata: {{name: m}}\n  data:\n    k:\n    {open}x\n{comment}  z: 1\n"
        )
    }),
    ("anchors and aliases", true, |bytes| {
        repeated(bytes, |at, out| {
            writeln!(
                out,
                "- {{apiVersion: v1, kind: ConfigMap, metadata: &m{at} {{name: c{at}}}, data: {{a: &a{at} nginx, b: *a{at}, c: *m{at}}}}}"
            )
        })
    }),
    ("huge numbers and odd words", true, |bytes| {
        format!(
            "- apiVersion: v1\n  kind: ConfigMap\n  metadata: {{name: m}}\n  data:\n{}",
            repeated(bytes, |at, out| {
                writeln!(
                    out,
                    "    k{at}: {}\n    l{at}: 0x{}\n    m{at}: 12:30:{at}",
                    "9".repeat(400),
                    "f".repeat(400)
                )
            })
        )
    }),
];

/// All shapes.
#[must_use]
pub fn shapes() -> Vec<Shape> {
    let mut shapes = Vec::new();
    for (image, config) in CONFIGS {
        let config = config.replace("CM", CONFIG_MAP);
        for (name, hostile, items) in ITEMS {
            let config = config.clone();
            let make = move |bytes| list(&config, &format!("{}{}", beside(image), items(bytes)));
            shapes.push(Shape { image, name, hostile, is_general: true, make: Box::new(make) });
        }
        let results = |bytes| {
            let results = repeated(bytes, |at, out| {
                writeln!(out, "- {{message: m{at}, severity: info, z: {{y: [{at}], a: 1}}}}")
            });
            format!("{HEADER}items: []\nresults:\n{results}")
        };
        shapes.push(Shape {
            image,
            name: "many results",
            hostile: true,
            is_general: true,
            make: Box::new(results),
        });
        let nested = |bytes: usize| {
            let depth = (bytes / 2).min(9_000);
            let (open, close, pad) =
                ("[".repeat(depth), "]".repeat(depth), "# pad\n".repeat(bytes.saturating_sub(2 * depth) / 6));
            format!("{HEADER}items: []\nresults: [{open}{close}]\n{pad}")
        };
        shapes.push(Shape {
            image,
            name: "nested results",
            hostile: true,
            is_general: true,
            make: Box::new(nested),
        });
        let documents = |bytes| {
            repeated(bytes, |at, out| {
                writeln!(out, "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c{at}")
            })
        };
        shapes.push(Shape {
            image,
            name: "many documents",
            hostile: true,
            is_general: true,
            make: Box::new(documents),
        });
    }
    shapes.extend(special::special());
    shapes
}

/// Resources that a function needs beside the ones it works on.
fn beside(image: &str) -> &'static str {
    match image {
        "apply-replacements" => {
            "- {apiVersion: example.com/v1, kind: Source, metadata: {name: source}, spec: {image: i}}\n"
        }
        "fix" | "set-project-id" | "gen-pkg-context" | "list-setters" => {
            "- {apiVersion: kpt.dev/v1, kind: Kptfile, metadata: {name: p, annotations: {config.kubernetes.io/path: Kptfile}}}\n"
        }
        "gatekeeper" => {
            "- {apiVersion: templates.gatekeeper.sh/v1, kind: ConstraintTemplate, metadata: {name: named}, spec: {crd: {spec: \
             {names: {kind: Named}}}, targets: [{target: admission.k8s.gatekeeper.sh, rego: \"package named\\nviolation[{\\\"msg\\\": \
             msg}] {\\n  not input.review.object.metadata.labels.owner\\n  msg := \\\"no owner\\\"\\n}\\n\"}]}}\n- {apiVersion: \
             constraints.gatekeeper.sh/v1beta1, kind: Named, metadata: {name: named}}\n"
        }
        "enable-gcp-services" => {
            "- {apiVersion: blueprints.cloud.google.com/v1alpha1, kind: ProjectServiceSet, metadata: {name: s}, spec: {services: \
             [a.googleapis.com]}}\n"
        }
        _ => "",
    }
}

fn list(config: &str, items: &str) -> String {
    format!("{HEADER}functionConfig: {config}\nitems:\n{items}")
}

/// Writes pieces until there are so many bytes.
fn repeated(bytes: usize, piece: impl Fn(usize, &mut String) -> std::fmt::Result) -> String {
    let mut out = String::with_capacity(bytes + 256);
    let mut at = 0;
    while out.len() < bytes {
        piece(at, &mut out).expect("a string takes all");
        at += 1;
    }
    out
}

fn deployments(bytes: usize) -> String {
    repeated(bytes, |at, out| {
        writeln!(
            out,
            "- apiVersion: apps/v1
  kind: Deployment
  metadata:
    name: web-{at} # kpt-set: ${{name}}-{at}
    namespace: shop
    annotations:
      config.kubernetes.io/path: 'web-{at}.yaml'
    labels: {{app: web}}
  spec:
    replicas: 3
    selector:
      matchLabels: {{app: web}}
    template:
      metadata:
        labels: {{app: web}}
      spec:
        containers:
        - name: web
          image: nginx:1.7 # kpt-set: nginx:${{tag}}
          envFrom:
          - configMapRef: {{name: web-{at}}}"
        )
    })
}
