//! Where schemas are: the locations of a config, and the files that they stand for.

/// Behind a location that is not a template: how kubeconform and kubeval lay out a folder.
const LAYOUT: &str =
    "/{{.NormalizedKubernetesVersion}}-standalone{{.StrictSuffix}}/{{.ResourceKind}}{{.KindSuffix}}.json";

/// The location that stands for the custom resource definitions of the package itself.
pub(crate) const PACKAGE: &str = "package://";

/// The location that stands for Kubernetes itself.
pub(crate) const DEFAULT: &str = "default";

/// A place to look for schemas.
#[derive(Debug, PartialEq)]
pub(crate) enum Location {
    /// What is built in.
    Kubernetes,
    /// The definitions of the list itself.
    Package,
    /// Files.
    Files(Files),
}

/// Files with one schema each, by kind and version.
#[derive(Debug, PartialEq)]
pub(crate) struct Files {
    /// The location as it was written.
    pub(crate) written: String,
    /// The part of the path that is the same for all: a folder.
    pub(crate) base: String,
    /// That folder, if it is the whole location: it may have files with custom resource definitions.
    pub(crate) definitions: Option<String>,
    template: Vec<Part>,
}

/// A part of a template.
#[derive(Debug, PartialEq)]
enum Part {
    Text(String),
    /// A position among [`VARIABLES`].
    Variable(usize),
}

/// What the variables of a template stand for.
struct Names {
    kubernetes_version: String,
    strict_suffix: &'static str,
    kind: String,
    version: String,
    group: String,
    kind_suffix: String,
}

/// What is being looked for.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) api_version: &'a str,
    pub(crate) kind: &'a str,
    /// Such as `1.33.0`; the newest if there is none.
    pub(crate) kubernetes_version: Option<&'a str>,
    pub(crate) strict: bool,
}

/// How a variable gets its value.
type Value = fn(&Names) -> &str;

/// The variables of kubeconform's templates.
const VARIABLES: [(&str, Value); 6] = [
    ("NormalizedKubernetesVersion", |names| &names.kubernetes_version),
    ("StrictSuffix", |names| names.strict_suffix),
    ("ResourceKind", |names| &names.kind),
    ("ResourceAPIVersion", |names| &names.version),
    ("Group", |names| &names.group),
    ("KindSuffix", |names| &names.kind_suffix),
];

// === impl Location ===

impl Location {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text {
            DEFAULT => Ok(Self::Kubernetes),
            PACKAGE => Ok(Self::Package),
            _ => Files::parse(text).map(Self::Files).map_err(|error| describe(text, &error)),
        }
    }
}

/// An error about a location.
pub(crate) fn describe(location: &str, error: &str) -> String {
    format!("schema location `{location}`: {error}")
}

// === impl Files ===

impl Files {
    fn parse(written: &str) -> Result<Self, String> {
        let path = match written.split_once("://") {
            Some(("file", path)) if path.starts_with('/') => decoded(path)?,
            Some(("file", _)) => return Err("write a file's location as `file:///folder`".to_owned()),
            Some(_) => {
                return Err(format!(
                    "nothing is fetched; put the schemas into a folder and name that, or use those of Kubernetes \
                     (`{DEFAULT}`) and of the package (`{PACKAGE}`)"
                ));
            }
            None => written.to_owned(),
        };
        // The original goes by these letters, too, but takes a folder called `json` for a file.
        let layout = if path.ends_with(".json") { "" } else { LAYOUT };
        let definitions = (!layout.is_empty() && !path.contains("{{")).then(|| path.clone());
        let mut template = parts(&path)?;
        template.extend(parts(layout)?);
        let base = match (&definitions, template.first()) {
            (Some(folder), _) => folder.clone(),
            (None, Some(Part::Text(text))) => folder_of(text),
            (None, _) => folder_of(""),
        };
        Ok(Self { written: written.to_owned(), base, definitions, template })
    }

    /// The file that would have the schema.
    pub(crate) fn path(&self, wanted: Wanted<'_>) -> String {
        let names = Names::of(wanted);
        let part = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Variable(at) => VARIABLES.get(*at).map_or("", |(_, value)| value(&names)).to_owned(),
        };
        self.template.iter().map(part).collect()
    }
}

fn folder_of(path: &str) -> String {
    match path.rsplit_once('/') {
        Some(("", _)) => "/".to_owned(),
        Some((folder, _)) => folder.to_owned(),
        None => ".".to_owned(),
    }
}

fn parts(template: &str) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let mut rest = template;
    while let Some((text, after)) = rest.split_once("{{") {
        let (action, after) = after.split_once("}}").ok_or("a `{{` has no `}}`")?;
        let name = action.trim().strip_prefix('.').unwrap_or_default();
        let at = VARIABLES.iter().position(|(variable, _)| *variable == name).ok_or_else(|| {
            let known: Vec<_> =
                VARIABLES.iter().map(|(variable, _)| format!("`{{{{.{variable}}}}}`")).collect();
            format!("`{{{{{action}}}}}` is no variable; there are {}", known.join(", "))
        })?;
        parts.extend([Part::Text(text.to_owned()), Part::Variable(at)]);
        rest = after;
    }
    parts.push(Part::Text(rest.to_owned()));
    Ok(parts)
}

/// The path of a URL.
fn decoded(path: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next(), rest.next()]
                    .map(|digit| digit.and_then(|digit| char::from(digit).to_digit(16)));
                match digits {
                    [Some(high), Some(low)] => u8::try_from(high * 16 + low).unwrap_or(byte),
                    _ => return Err("a `%` in it is not followed by two digits".to_owned()),
                }
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())
}

// === impl Names ===

impl Names {
    fn of(wanted: Wanted<'_>) -> Self {
        let Wanted { api_version, kind, kubernetes_version, strict } = wanted;
        let parts: Vec<&str> = api_version.split('/').collect();
        let (first, last) = (parts.first().unwrap_or(&""), parts.last().unwrap_or(&""));
        let label = first.split('.').next().unwrap_or_default();
        let mut kind_suffix = format!("-{}", label.to_lowercase());
        if let Some(version) = parts.get(1) {
            kind_suffix.push('-');
            kind_suffix.push_str(&version.to_lowercase());
        }
        let kubernetes_version = match kubernetes_version {
            None | Some("master") => "master".to_owned(),
            Some(version) => format!("v{}", version.trim_start_matches('v')),
        };
        Self {
            kubernetes_version,
            strict_suffix: if strict { "-strict" } else { "" },
            kind: kind.to_lowercase(),
            version: (*last).to_owned(),
            group: (*first).to_owned(),
            kind_suffix,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: Wanted<'static> =
        Wanted { api_version: "apps.x.io/V1", kind: "Thing", kubernetes_version: None, strict: false };

    fn files(text: &str) -> Files {
        match Location::parse(text) {
            Ok(Location::Files(files)) => files,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn a_folder_has_the_layout_of_kubeconform() {
        let folder = files("/schemas");
        assert_eq!(folder.path(WANTED), "/schemas/master-standalone/thing-apps-v1.json");
        let strict = Wanted { strict: true, kubernetes_version: Some("1.33.0"), ..WANTED };
        assert_eq!(folder.path(strict), "/schemas/v1.33.0-standalone-strict/thing-apps-v1.json");
        let core = Wanted { api_version: "v1", kind: "ConfigMap", ..WANTED };
        assert_eq!(folder.path(core), "/schemas/master-standalone/configmap-v1.json");
    }

    #[test]
    fn a_template_has_the_variables_of_kubeconform() {
        let all = files(
            "/s/{{.Group}}/{{ .ResourceKind }}_{{.ResourceAPIVersion}}{{.KindSuffix}}{{ .StrictSuffix}}-\
             {{.NormalizedKubernetesVersion}}.json",
        );
        assert_eq!(all.path(WANTED), "/s/apps.x.io/thing_V1-apps-v1-master.json");
        let core = Wanted { api_version: "v1", strict: true, kubernetes_version: Some("v1.30.0"), ..WANTED };
        assert_eq!(all.path(core), "/s/v1/thing_v1-v1-strict-v1.30.0.json");
    }

    #[test]
    fn a_location_that_does_not_end_in_json_gets_the_layout_behind_its_variables() {
        assert_eq!(files("/s/{{.Group}}").path(WANTED), "/s/apps.x.io/master-standalone/thing-apps-v1.json");
        assert_eq!(files("/s/all.json").path(WANTED), "/s/all.json");
    }

    #[test]
    fn the_base_is_the_folder_that_all_files_are_below() {
        for (location, base, definitions) in [
            ("/schemas", "/schemas", true),
            ("file:///with%20space/", "/with space/", true),
            ("schemas", "schemas", true),
            ("/schemas/{{.Group}}/x.json", "/schemas", false),
            ("/schemas/v{{.Group}}", "/schemas", false),
            ("/{{.Group}}.json", "/", false),
            ("{{.Group}}.json", ".", false),
            ("x.json", ".", false),
            ("/schemas/all.json", "/schemas", false),
        ] {
            let files = files(location);
            assert_eq!((files.base.as_str(), files.definitions.is_some()), (base, definitions), "{location}");
        }
    }

    #[test]
    fn what_cannot_be_a_location_is_told() {
        for (location, reason) in [
            (
                "https://example.com",
                "nothing is fetched; put the schemas into a folder and name that, or use those of Kubernetes (`default`) \
                 and of the package (`package://`)",
            ),
            ("file://schemas", "write a file's location as `file:///folder`"),
            ("file:///%zz", "a `%` in it is not followed by two digits"),
            ("/s/{{.Group", "a `{{` has no `}}`"),
            (
                "/s/{{ .Kind }}.json",
                "`{{ .Kind }}` is no variable; there are `{{.NormalizedKubernetesVersion}}`, `{{.StrictSuffix}}`, \
                 `{{.ResourceKind}}`, `{{.ResourceAPIVersion}}`, `{{.Group}}`, `{{.KindSuffix}}`",
            ),
        ] {
            assert_eq!(Location::parse(location), Err(format!("schema location `{location}`: {reason}")));
        }
    }
}
