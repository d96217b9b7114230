use std::collections::BTreeMap;
use std::sync::Mutex;

use super::*;

/// Files in memory, and a note of each that was asked for.
#[derive(Debug, Default)]
struct Memory {
    files: BTreeMap<&'static str, String>,
    asked: Mutex<Vec<String>>,
}

impl Memory {
    fn new(files: &[(&'static str, &str)]) -> Self {
        let files = files.iter().map(|(path, content)| (*path, (*content).to_owned())).collect();
        Self { files, ..Self::default() }
    }

    /// What was asked for since the last time.
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().expect("nobody panics"))
    }

    fn note(&self, what: &str) {
        self.asked.lock().expect("nobody panics").push(what.to_owned());
    }
}

impl SchemaFiles for Memory {
    fn check(&self, folder: &str) -> Result<(), String> {
        if folder.starts_with("/s") { Ok(()) } else { Err("not allowed".to_owned()) }
    }

    fn read(&self, file: &str) -> Result<Option<Vec<u8>>, String> {
        self.note(file);
        self.check(file)?;
        Ok(self.files.get(file).map(|content| content.as_bytes().to_vec()))
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, String> {
        self.note(&format!("{folder}/*"));
        let is_in = |path: &&&str| path.rsplit_once('/').is_some_and(|(parent, _)| parent == folder);
        Ok(self.files.keys().filter(is_in).map(ToString::to_string).collect())
    }
}

fn search<'a>(locations: &[&str], files: &'a Memory) -> Result<Search<'a>, String> {
    let settings = Settings {
        locations: locations.iter().map(|text| Location::parse(text)).collect::<Result<_, _>>()?,
        items: &[],
        kubernetes_version: None,
        strictness: Strictness::Lax,
    };
    Search::new(settings, files)
}

/// What the schema of a kind says it is.
fn title(search: &Search<'_>, api_version: &str, kind: &str) -> Result<Option<String>, String> {
    let schema = search.schema(api_version, kind)?;
    Ok(schema.map(|schema| schema.root["title"].as_str().unwrap_or("built in").to_owned()))
}

fn definition(kind: &str, title: &str) -> String {
    format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: x}}\nspec:\n  \
         group: x.io\n  names: {{kind: {kind}}}\n  versions:\n  - name: v1\n    schema:\n      openAPIV3Schema: \
         {{title: {title}}}\n"
    )
}

#[test]
fn the_first_location_that_has_the_schema_wins() {
    let files = Memory::new(&[
        ("/s/a/x.io.json", r#"{"title":"a"}"#),
        ("/s/b/master-standalone/thing-x-v1.json", r#"{"title":"b"}"#),
        ("/s/b/master-standalone/pod-v1.json", r#"{"title":"pod"}"#),
    ]);
    let of = |locations: &[&str], api_version: &str, kind: &str| {
        title(&search(locations, &files)?, api_version, kind)
    };
    let template = "/s/a/{{.Group}}.json";
    assert_eq!(of(&[template, "/s/b"], "x.io/v1", "Thing"), Ok(Some("a".into())));
    assert_eq!(of(&["/s/b", template], "x.io/v1", "Thing"), Ok(Some("b".into())));
    assert_eq!(of(&["/s/b", template], "x.io/v1", "Other"), Ok(Some("a".into())));
    assert_eq!(of(&["/s/b", "default"], "v1", "Pod"), Ok(Some("pod".into())));
    assert_eq!(of(&["default", "/s/b"], "v1", "Pod"), Ok(Some("built in".into())));
    assert_eq!(of(&[template], "v1", "Pod"), Ok(None));
}

#[test]
fn a_folder_may_hold_definitions() {
    let both = format!("{}---\n{}", definition("Thing", "second"), definition("Other", "other"));
    let files = Memory::new(&[
        ("/s/1.yaml", "kind: ConfigMap\nmetadata: {name: x.io Thing}\n"),
        ("/s/2.yml", &both),
        ("/s/3.yaml", &definition("Thing", "third")),
        ("/s/below/0.yaml", &definition("Thing", "below")),
        ("/s/broken.yaml", "kind: CustomResourceDefinition\nspec: {names: {kind: Broken"),
        ("/s/notes.txt", &definition("Thing", "notes")),
        ("/s/master-standalone/json-x-v1.json", r#"{"title":"json"}"#),
    ]);
    let search = search(&["/s"], &files).expect("it is allowed");
    assert_eq!(title(&search, "x.io/v1", "Thing"), Ok(Some("second".into())));
    assert_eq!(title(&search, "x.io/v1", "Other"), Ok(Some("other".into())));
    assert_eq!(title(&search, "x.io/v1", "Json"), Ok(Some("json".into())));
    assert_eq!(title(&search, "x.io/v2", "Thing"), Ok(None));
    assert_eq!(title(&search, "y.io/v1", "Thing"), Ok(None));
    for _ in 0..2 {
        let error = title(&search, "x.io/v1", "Broken").expect_err("it is no YAML");
        assert!(error.starts_with("schema `/s/broken.yaml` of x.io/v1 Broken: "), "{error}");
    }
}

#[test]
fn a_definition_is_found_however_it_is_written() {
    for names in [
        "names: {plural: things, kind: Thing}",
        "names:\n    kind: 'Thing'",
        "\"names\": {\"kind\":\"Thing\"}",
        "names:\n    kind: &name !!str Thing",
        "names:\n    kind: # its name\n      Thing",
    ] {
        let text = definition("KIND", "thing").replace("names: {kind: KIND}", names);
        let files = Memory::new(&[("/s/a.yaml", &text)]);
        let search = search(&["/s"], &files).expect("it is allowed");
        assert_eq!(title(&search, "x.io/v1", "Thing"), Ok(Some("thing".into())), "{names}");
    }
}

#[test]
fn there_is_an_end_to_locations_and_to_definitions() {
    let files = Memory::new(&[("/s/a.yaml", &definition("Thing", "thing"))]);
    assert!(search(&["/s"; 32], &files).is_ok());
    let expected = "there are 33 schema locations; at most 32 are looked at";
    assert_eq!(search(&["/s"; 33], &files).err().as_deref(), Some(expected));

    let search = search(&["/s"], &files).expect("it is allowed");
    search.room.set(10);
    let expected = "schema location `/s`: there are too many definitions; name fewer folders";
    assert_eq!(title(&search, "x.io/v1", "Thing").err().as_deref(), Some(expected));
}

#[test]
fn files_are_read_when_they_are_needed_and_once() {
    let files = Memory::new(&[("/s/a.yaml", &definition("Thing", "thing"))]);
    let search = search(&["default", "/s"], &files).expect("it is allowed");
    assert_eq!(title(&search, "v1", "Pod"), Ok(Some("built in".into())));
    assert_eq!(files.asked(), [""; 0]);
    assert_eq!(title(&search, "x.io/v1", "Thing"), Ok(Some("thing".into())));
    assert_eq!(files.asked(), ["/s/master-standalone/thing-x-v1.json", "/s/*", "/s/a.yaml"]);
    assert_eq!(title(&search, "x.io/v1", "Thing"), Ok(Some("thing".into())));
    assert_eq!(title(&search, "x.io/v1", "Absent"), Ok(None));
    assert_eq!(title(&search, "x.io/v1", "Absent"), Ok(None));
    assert_eq!(files.asked(), ["/s/master-standalone/absent-x-v1.json"]);
}

#[test]
fn a_location_that_is_not_allowed_is_refused_before_anything_is_read() {
    let files = Memory::default();
    for (location, written) in
        [("/etc", "/etc"), ("file:///etc", "file:///etc"), ("/{{.Group}}/x.json", "/{{.Group}}/x.json")]
    {
        let error = search(&["default", location], &files).err();
        assert_eq!(error, Some(format!("schema location `{written}`: not allowed")));
    }
    assert_eq!(files.asked(), [""; 0]);
}

#[test]
fn a_resource_cannot_lead_a_template_out_of_its_folder() {
    let files = Memory::default();
    let search = search(&["/s/{{.Group}}/{{.ResourceKind}}.json"], &files).expect("it is allowed");
    // Memory takes paths as they are; that this one is refused is tested where folders are.
    assert_eq!(title(&search, "../v1", "../../etc/passwd"), Ok(None));
    assert_eq!(files.asked(), ["/s/../../../etc/passwd.json"]);
}

#[test]
fn a_file_that_is_no_schema_is_an_error() {
    let files = Memory::new(&[("/s/x.json", "[1]"), ("/s/y.json", "{")]);
    for (location, reason) in [
        ("/s/x.json", "it is no JSON schema: an object is"),
        ("/s/y.json", "it is no JSON: EOF while parsing an object at line 1 column 1"),
    ] {
        let search = search(&[location], &files).expect("it is allowed");
        let error = title(&search, "v1", "Pod").err();
        assert_eq!(error, Some(format!("schema `{location}` of v1 Pod: {reason}")));
    }
}

#[test]
fn folders_may_be_of_a_version_that_is_not_built_in() {
    let files = Memory::new(&[("/s/v1.2.3-standalone/pod-v1.json", r#"{"title":"old"}"#)]);
    let of = |locations: Vec<Location>| {
        let settings = Settings {
            locations,
            items: &[],
            kubernetes_version: Some("1.2.3"),
            strictness: Strictness::Lax,
        };
        Search::new(settings, &files)
    };
    let folder = Location::parse("/s").expect("a location");
    let search = of(vec![folder]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(title(&search, "v1", "Pod"), Ok(Some("old".into())));
    assert!(of(vec![Location::Kubernetes]).is_err());
}
