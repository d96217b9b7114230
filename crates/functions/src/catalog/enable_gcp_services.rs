//! `enable-gcp-services`: one Config Connector `Service` for each service of a `ProjectServiceSet`.

use std::collections::{BTreeMap, HashMap, HashSet};

use loggia_krm::annotation::{INDEX, LEGACY_INDEX, LEGACY_PATH, LOCAL_CONFIG, PATH};
use loggia_krm::{FileRef, Resource, ResourceId, ResourceList, ResultItem, Results, Severity, path};
use loggia_yaml::{Node, Pair};

use crate::kyaml::fields::{file_of, raw_text};
use crate::kyaml::outcome::{Shape, conclude};
use crate::limits;
use crate::{Failure, Framework, Function, Role, Run, Version};

pub(crate) static FUNCTION: Function = Function {
    name: "enable-gcp-services",
    purpose: "Generate a resource for each Google Cloud service of a project",
    role: Role::Generator,
    manual: include_str!("enable_gcp_services.md"),
    guarded: false,
    versions: &[Version {
        tags: &["latest", "unstable", "v0.1", "v0.1.0"],
        framework: Framework::KyamlTwice,
        run: Run::List(run),
    }],
};

const GROUP: &str = "blueprints.cloud.google.com";
const OWNER: &str = "blueprints.cloud.google.com/ownerReference";
/// What belongs to the set and not to the services it stands for.
const NOT_INHERITED: [&str; 5] = [PATH, INDEX, LEGACY_PATH, LEGACY_INDEX, LOCAL_CONFIG];

/// A `ProjectServiceSet`.
struct Set {
    name: String,
    namespace: String,
    folder: String,
    services: Vec<String>,
    project: String,
    annotations: BTreeMap<String, String>,
}

fn run(list: &mut ResourceList) -> Result<(), Failure> {
    let outcome = enable(list);
    conclude(list, Shape::List, outcome, |error| format!("failed to add services: {error}"))
}

fn enable(list: &mut ResourceList) -> Result<Vec<ResultItem>, String> {
    let is_set = |item: &Resource| {
        item.kind() == "ProjectServiceSet" && item.api_version() == "blueprints.cloud.google.com/v1alpha1"
    };
    let mut sets = Vec::new();
    for item in list.items.iter_mut().filter(|item| is_set(item)) {
        item.set_annotation(LOCAL_CONFIG, "true").map_err(|error| error.to_string())?;
        sets.push(Set::read(item));
    }
    let mut owned: HashMap<String, Vec<usize>> = HashMap::new();
    for (at, item) in list.items.iter().enumerate() {
        if let Some(owner) = item.annotation(OWNER) {
            owned.entry(owner.to_owned()).or_default().push(at);
        }
    }
    let mut made = Made { owned, ..Made::default() };
    let outcome = sets.iter().try_for_each(|set| made.add(set, &list.items));
    let mut at = 0..;
    list.items.retain(|_| at.next().is_none_or(|at| !made.pruned.contains(&at)));
    outcome?;
    list.items.extend(made.items);
    let mut results = Results(made.results);
    results.sort();
    Ok(results.0)
}

/// What becomes of the sets.
#[derive(Default)]
struct Made {
    /// The items that a set made in an earlier run, by owner.
    owned: HashMap<String, Vec<usize>>,
    /// Those that go.
    pruned: HashSet<usize>,
    items: Vec<Resource>,
    results: Vec<ResultItem>,
}

impl Made {
    fn add(&mut self, set: &Set, items: &[Resource]) -> Result<(), String> {
        if set.services.is_empty() {
            return Err("at least one service must be specified under `spec.services[]`".to_owned());
        }
        let mut pruned = BTreeMap::new();
        for at in self.owned.remove(&set.owner()).unwrap_or_default() {
            if let Some(item) = items.get(at) {
                pruned.insert(key(item), about(item, "pruned service"));
                self.pruned.insert(at);
            }
        }
        let inherited: usize = set.annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
        let size =
            inherited + 3 * set.name.len() + set.namespace.len() + set.project.len() + 2 * set.folder.len();
        for service in &set.services {
            limits::produce(size + service.len())?;
            let item = set.service(service)?;
            let message =
                if pruned.remove(&key(&item)).is_some() { "recreated service" } else { "generated service" };
            limits::push(&mut self.results, about(&item, message))?;
            self.items.push(item);
        }
        self.results.extend(pruned.into_values());
        Ok(())
    }
}

fn key(item: &Resource) -> (String, ResourceId) {
    (item.api_version().to_owned(), item.id())
}

fn about(item: &Resource, message: &str) -> ResultItem {
    ResultItem {
        resource_ref: Some(item.into()),
        file: Some(FileRef { path: file_of(item).to_owned(), index: 0 }),
        ..ResultItem::new(Severity::Info, message)
    }
}

impl Set {
    fn read(item: &Resource) -> Self {
        let services = item.node().at(&["spec", "services"]).map(Node::items).unwrap_or_default();
        let inherited = item.annotations().filter(|(key, _)| !NOT_INHERITED.contains(key));
        Self {
            name: item.name().to_owned(),
            namespace: item.namespace().to_owned(),
            folder: path::folder(file_of(item)).to_owned(),
            services: services.iter().map(|service| raw_text(service).to_owned()).collect(),
            project: item.node().at(&["spec", "projectID"]).map_or("", raw_text).to_owned(),
            annotations: inherited.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        }
    }

    fn owner(&self) -> String {
        format!("{GROUP}/ProjectServiceSet/{}", self.name)
    }

    fn service(&self, service: &str) -> Result<Resource, String> {
        let mut parts = service.split('.');
        let short = parts.next().unwrap_or_default();
        if parts.count() < 2 {
            return Err(format!("invalid service specified: {service}"));
        }
        let pair = |key: &str, value| Pair { key: Node::verbatim(key), value };
        let mut metadata =
            Node::from_pairs(vec![pair("name", Node::string(format!("{}-{short}", self.name)))]);
        let mut annotations = Node::mapping();
        let own = self.annotations.iter().map(|(key, value)| (key.as_str(), value.clone()));
        for (key, value) in own.chain([(OWNER, self.owner())]) {
            annotations.replace(key, Node::single_quoted(value));
        }
        metadata.push_pair(pair("annotations", annotations));
        if !self.namespace.is_empty() {
            metadata.push_pair(pair("namespace", Node::single_quoted(self.namespace.as_str())));
        }
        let mut spec = Node::from_pairs(vec![pair("resourceID", Node::string(service))]);
        if !self.project.is_empty() {
            let project = Node::from_pairs(vec![pair("external", Node::string(self.project.as_str()))]);
            spec.push_pair(pair("projectRef", project));
        }
        let mut item = Resource::new(Node::from_pairs(vec![
            pair("apiVersion", Node::string("serviceusage.cnrm.cloud.google.com/v1beta1")),
            pair("kind", Node::string("Service")),
            pair("metadata", metadata),
            pair("spec", spec),
        ]));
        let path = item.default_path(&self.folder);
        item.set_reader_annotation(PATH, path).map_err(|error| error.to_string())?;
        Ok(item)
    }
}
