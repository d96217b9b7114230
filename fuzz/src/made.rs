//! Resource lists and packages made of bytes: most of them get past the parser, and say what functions look for.

use std::fmt::Write as _;

use arbitrary::{Result, Unstructured};
use loggia_functions::{CATALOG, Function, Version};

/// Deeper values add nothing that shallow ones do not have.
const DEPTH: u32 = 6;

/// Kinds that functions treat in a way of their own.
const KINDS: &[(&str, &str)] = &[
    ("v1", "ConfigMap"),
    ("v1", "Namespace"),
    ("v1", "Service"),
    ("v1", "Pod"),
    ("v1", "List"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("batch/v1", "CronJob"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("apiregistration.k8s.io/v1", "APIService"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("templates.gatekeeper.sh/v1beta1", "ConstraintTemplate"),
    ("constraints.gatekeeper.sh/v1beta1", "Fuzzed"),
    ("kpt.dev/v1", "Kptfile"),
    ("kpt.dev/v1alpha2", "Kptfile"),
    ("blueprints.cloud.google.com/v1alpha1", "ProjectServiceSet"),
    ("example.com/v1", "Fuzzed"),
];

/// Kinds of function configs.
const CONFIGS: &[(&str, &str)] = &[
    ("v1", "ConfigMap"),
    ("fn.kpt.dev/v1alpha1", "ApplyReplacements"),
    ("fn.kpt.dev/v1alpha1", "ApplySetters"),
    ("fn.kpt.dev/v1alpha1", "CreateSetters"),
    ("fn.kpt.dev/v1alpha1", "EnsureNameSubstring"),
    ("fn.kpt.dev/v1alpha1", "SearchReplace"),
    ("fn.kpt.dev/v1alpha1", "SetAnnotations"),
    ("fn.kpt.dev/v1alpha1", "SetImage"),
    ("fn.kpt.dev/v1alpha1", "SetLabels"),
    ("fn.kpt.dev/v1alpha1", "SetNamespace"),
    ("fn.kpt.dev/v1alpha1", "StarlarkRun"),
    ("fn.kpt.dev/v1alpha1", "UpsertResource"),
];

/// Keys that some function reads, in lists and in configs.
#[rustfmt::skip]
const KEYS: &[&str] = &[
    "a", "b", "spec", "data", "metadata", "name", "namespace", "labels", "annotations", "items", "results", "template",
    "containers", "image", "selector", "matchLabels", "replicas", "ports", "env", "value", "subjects", "roleRef",
    "by-value", "by-value-regex", "by-path", "by-file-path", "put-value", "put-comment", "put-pattern", "count-matches",
    "replacements", "source", "targets", "select", "reject", "fieldPath", "fieldPaths", "fieldSpecs", "options",
    "delimiter", "index", "create", "encoding", "kind", "group", "version", "path", "newName", "newTag", "digest",
    "additionalImageFields", "additionalLabelFields", "prepend", "append", "substring", "editMode", "projectID",
    "enforcementAction", "schema_location", "ignore_missing_schemas", "skip_kinds", "reject_kinds", "strict",
    "pipeline", "mutators", "validators", "configMap", "configPath", "packageMetadata", "upstream", "inventory",
    "openAPI", "definitions", "properties", "type", "pattern", "required", "$ref", "additionalProperties", "uniqueItems",
    "allOf", "oneOf", "enum", "minimum", "multipleOf", "maxLength", "versions", "schema", "openAPIV3Schema", "names",
    "plural", "scope", "crd", "rego", "target", "match", "parameters", "libs", "services", "kinds", "params",
    "internal.config.kubernetes.io/path", "config.kubernetes.io/index", "config.kubernetes.io/depends-on",
    "config.kubernetes.io/local-config", "internal.kpt.dev/upstream-identifier", "<<", "*", "", "0", "a.b", "a/b",
];

/// Values that some function treats in a way of its own.
#[rustfmt::skip]
const VALUES: &[&str] = &[
    "a", "nginx", "nginx:1.2", "ghcr.io/x/y@sha256:00", "default", "prod", "true", "yes", "null", "~", "1", "-0", "0x1f",
    "1e400", ".inf", "2001-01-01", "9223372036854775808", "${a}", "${1}", "${1}${1}", "$$", "^(a+)$", "a|b", "(", "[a-z]{3}",
    "spec.replicas", "spec.template.spec.containers.[name=a].image", "metadata.name", "**.a", "*.b", "a.[b=c].*",
    "apps/namespaces/default/Deployment/a", "v1|ConfigMap|default|a", "/ConfigMap/default/a", "dryrun", "object", "array",
    "string", "integer", "#/definitions/a", "#/properties/a", "ConfigMap", "Deployment", "admission.k8s.gatekeeper.sh",
    "package x\nviolation[{\"msg\": m}] { m := input.review.object.metadata.name }", "../x.yaml", "/x.yaml", "a.yaml",
    "Kptfile", "setters.yaml", "def f(r):\n  return r\nfor i in ctx.resource_list[\"items\"]:\n  i[\"a\"] = f(1)",
    "\u{feff}", "\u{1b}[2J", "\u{202e}", "é", "\u{10ffff}", " ", "- a", "a: b", "a # b", "\"", "'", "|", "&x", "*x", "!!int",
];

const COMMENTS: &[&str] = &[
    "kpt-set: ${a}",
    "kpt-set: ${a}-${b}",
    "kpt-merge: a/b",
    "{\"$openapi\":\"a\"}",
    "a",
    "kpt-set: ${",
    "{\"$kpt-set\":\"a\"}",
];

/// A function of the catalog, a version of it, and a list for it.
#[derive(Debug)]
pub struct Case {
    pub function: &'static Function,
    pub version: &'static Version,
    pub list: String,
}

/// Text of YAML in the making.
struct Maker<'a, 'b> {
    from: &'a mut Unstructured<'b>,
    text: String,
}

/// A list with a config for some function.
pub fn case(bytes: &[u8]) -> Result<Case> {
    let mut from = Unstructured::new(bytes);
    let function = CATALOG[from.choose_index(CATALOG.len())?];
    let version = from.choose(function.versions)?;
    let mut maker = Maker { from: &mut from, text: String::new() };
    maker.text.push_str("apiVersion: config.kubernetes.io/v1\nkind: ResourceList\n");
    if maker.from.ratio(7, 8)? {
        maker.text.push_str("functionConfig:\n");
        maker.config(function)?;
    }
    maker.text.push_str("items:\n");
    for _ in 0..maker.from.int_in_range(0..=6)? {
        maker.item()?;
    }
    if maker.from.ratio(1, 8)? {
        maker.text.push_str("results:");
        maker.value(2, 0)?;
    }
    Ok(Case { function, version, list: maker.text })
}

/// Files of a package: a Kptfile with a pipeline, resources, perhaps packages in it.
pub fn files(bytes: &[u8]) -> Result<Vec<(String, Vec<u8>)>> {
    let mut from = Unstructured::new(bytes);
    let mut files = Vec::new();
    let mut folder = String::new();
    for _ in 0..from.int_in_range(1..=4)? {
        let mut maker = Maker { from: &mut from, text: String::new() };
        maker.kptfile()?;
        files.push((format!("{folder}Kptfile"), maker.text.into_bytes()));
        for _ in 0..from.int_in_range(0..=3)? {
            let name = *from.choose(&[
                "a.yaml",
                "setters.yaml",
                "b.yml",
                "c.json",
                ".krmignore",
                "d/e.yaml",
                "README.md",
            ])?;
            let mut maker = Maker { from: &mut from, text: String::new() };
            maker.document()?;
            files.push((format!("{folder}{name}"), maker.text.into_bytes()));
        }
        folder.push_str(from.choose(&["sub/", "a/b/", "x/", "sub/sub/", ".hidden/"])?);
    }
    Ok(files)
}

impl Maker<'_, '_> {
    fn config(&mut self, function: &Function) -> Result<()> {
        let own = CONFIGS.iter().position(|(_, kind)| same_name(kind, function.name));
        let (api, kind) = match own {
            Some(index) if self.from.ratio(1, 2)? => CONFIGS[index],
            _ => *self.from.choose(CONFIGS)?,
        };
        let _ = writeln!(self.text, "  apiVersion: {api}\n  kind: {kind}\n  metadata:\n    name: config");
        if kind == "ConfigMap" {
            self.text.push_str("  data:");
            return self.mapping(4, 2);
        }
        self.pairs(2, 1)
    }

    fn item(&mut self) -> Result<()> {
        let (api, kind) = *self.from.choose(KINDS)?;
        let name = *self.from.choose(VALUES)?;
        let _ =
            writeln!(self.text, "- apiVersion: {api}\n  kind: {kind}\n  metadata:\n    name: {}", json(name));
        if self.from.ratio(1, 2)? {
            self.text.push_str("    annotations:");
            self.mapping(6, 3)?;
        }
        self.pairs(2, 1)
    }

    fn document(&mut self) -> Result<()> {
        for _ in 0..self.from.int_in_range(0..=2)? {
            let (api, kind) = *self.from.choose(KINDS)?;
            let _ = writeln!(self.text, "---\napiVersion: {api}\nkind: {kind}\nmetadata:\n  name: a");
            self.pairs(0, 1)?;
        }
        Ok(())
    }

    fn kptfile(&mut self) -> Result<()> {
        self.text.push_str("apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: fuzzed\n");
        if self.from.ratio(1, 4)? {
            self.text.push_str("  annotations:\n    kpt.dev/bfs-rendering: \"true\"\n");
        }
        if self.from.ratio(1, 8)? {
            return self.pairs(0, 1);
        }
        self.text.push_str("pipeline:\n");
        for steps in ["mutators", "validators"] {
            let count = self.from.int_in_range(0..=3)?;
            if count > 0 {
                let _ = writeln!(self.text, "  {steps}:");
            }
            for _ in 0..count {
                let function = CATALOG[self.from.choose_index(CATALOG.len())?].name;
                let _ = writeln!(self.text, "  - image: {function}");
                match self.from.int_in_range(0..=3)? {
                    0 => self.text.push_str("    configPath: setters.yaml\n"),
                    1 => {
                        self.text.push_str("    configMap:");
                        self.mapping(6, DEPTH - 1)?;
                    }
                    2 => {
                        self.text
                            .push_str("    selectors:\n    - kind: ConfigMap\n    exclude:\n    - name: a\n");
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Pairs of a block mapping.
    fn pairs(&mut self, indent: usize, depth: u32) -> Result<()> {
        for _ in 0..self.from.int_in_range(0..=5)? {
            self.pair(indent, depth)?;
        }
        Ok(())
    }

    fn pair(&mut self, indent: usize, depth: u32) -> Result<()> {
        let key = *self.from.choose(KEYS)?;
        let _ = write!(self.text, "{:indent$}{}:", "", json(key));
        self.value(indent + 2, depth + 1)
    }

    fn mapping(&mut self, indent: usize, depth: u32) -> Result<()> {
        let count = self.from.int_in_range(0..=5)?;
        self.text.push_str(if count == 0 { " {}\n" } else { "\n" });
        (0..count).try_for_each(|_| self.pair(indent, depth))
    }

    /// A value behind its key, with the line's end.
    fn value(&mut self, indent: usize, depth: u32) -> Result<()> {
        match self.from.int_in_range(0..=9)? {
            0 | 1 if depth < DEPTH => return self.mapping(indent, depth),
            2 if depth < DEPTH => return self.sequence(indent, depth),
            3 => self.text.push_str(" null"),
            4 => {
                let _ = write!(self.text, " {}", self.from.arbitrary::<i16>()?);
            }
            5 => {
                let text: String = self.from.arbitrary()?;
                let _ = write!(self.text, " {}", json(&text));
            }
            6 => {
                let count = usize::from(self.from.arbitrary::<u8>()?);
                let _ = write!(self.text, " {}", json(&self.from.choose(VALUES)?.repeat(count)));
            }
            7 => self.plain()?,
            _ => {
                let _ = write!(self.text, " {}", json(self.from.choose(VALUES)?));
            }
        }
        if self.from.ratio(1, 4)? {
            let _ = write!(self.text, " # {}", self.from.choose(COMMENTS)?);
        }
        self.text.push('\n');
        Ok(())
    }

    /// A value without quotes, which may mean anything: a number, an anchor, an alias, a mistake.
    fn plain(&mut self) -> Result<()> {
        let value = self.from.choose(VALUES)?;
        if !value.contains('\n') {
            let _ = write!(self.text, " {value}");
        }
        Ok(())
    }

    fn sequence(&mut self, indent: usize, depth: u32) -> Result<()> {
        let count = self.from.int_in_range(0..=4)?;
        self.text.push_str(if count == 0 { " []\n" } else { "\n" });
        for _ in 0..count {
            let _ = write!(self.text, "{:indent$}-", "");
            self.value(indent + 2, depth + 1)?;
        }
        Ok(())
    }
}

/// Whether `SetLabels` is the kind of `set-labels`.
fn same_name(kind: &str, function: &str) -> bool {
    let letters = function.chars().filter(|letter| *letter != '-');
    kind.chars().map(|letter| letter.to_ascii_lowercase()).eq(letters)
}

/// A string in double quotes as JSON and YAML both read it.
fn json(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            _ if letter.is_control() || letter == '\u{feff}' => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(letter));
            }
            _ => quoted.push(letter),
        }
    }
    quoted + "\""
}
