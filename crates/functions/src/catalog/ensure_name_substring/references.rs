//! What refers to a resource by its name, after kustomize's table, and how it follows a new name.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use loggia_krm::Resource;
use loggia_yaml::{Kind, Node, Tag};

use crate::kustomize::field_spec::{FieldSpec, Leaf};
use crate::kustomize::resource_map::Id;
use crate::limits::{self, OverLimit};

/// Group, version and kind; what is empty matches all.
type Gvk = (&'static str, &'static str, &'static str);

/// A kind of resource, and the fields of others that name one.
struct Target {
    gvk: Gvk,
    fields: Vec<FieldSpec>,
}

const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

/// Where the pod of a kind is.
const PODS: [(Gvk, &str); 7] = [
    (("", "v1", "Pod"), "spec"),
    (("", "", "Deployment"), "spec/template/spec"),
    (("", "", "ReplicaSet"), "spec/template/spec"),
    (("", "", "DaemonSet"), "spec/template/spec"),
    (("", "", "StatefulSet"), "spec/template/spec"),
    (("", "", "Job"), "spec/template/spec"),
    (("", "", "CronJob"), "spec/jobTemplate/spec/template/spec"),
];

/// The same for what pods say about themselves: other kinds, as in kustomize's table.
const HOLDERS: [(Gvk, &str); 7] = [
    (("", "", "Pod"), "spec"),
    (("", "", "StatefulSet"), "spec/template/spec"),
    (("", "", "Deployment"), "spec/template/spec"),
    (("", "", "ReplicationController"), "spec/template/spec"),
    (("", "", "CronJob"), "spec/jobTemplate/spec/template/spec"),
    (("", "", "Job"), "spec/template/spec"),
    (("", "", "DaemonSet"), "spec/template/spec"),
];

static TABLE: LazyLock<Vec<Target>> = LazyLock::new(|| {
    let scaled = || specs(&[(("", "", "HorizontalPodAutoscaler"), "spec/scaleTargetRef/name")]);
    let mut table: Vec<Target> = [
        ("", "", "Deployment"),
        ("", "", "ReplicationController"),
        ("", "", "ReplicaSet"),
        ("", "", "StatefulSet"),
    ]
    .into_iter()
    .map(|gvk| Target { gvk, fields: scaled() })
    .collect();
    table.extend([config_map(), secret(), service()]);
    let target = |gvk, fields| Target { gvk, fields };
    table.extend([
        target((RBAC, "", "Role"), specs(&[((RBAC, "", "RoleBinding"), "roleRef/name")])),
        target(
            (RBAC, "", "ClusterRole"),
            specs(&[
                ((RBAC, "", "RoleBinding"), "roleRef/name"),
                ((RBAC, "", "ClusterRoleBinding"), "roleRef/name"),
            ]),
        ),
        target(("", "v1", "ServiceAccount"), {
            let bindings =
                [((RBAC, "", "RoleBinding"), "subjects"), ((RBAC, "", "ClusterRoleBinding"), "subjects")];
            [specs(&bindings), below(&HOLDERS, &["serviceAccountName"])].concat()
        }),
        target(
            ("", "v1", "PersistentVolumeClaim"),
            below(&HOLDERS, &["volumes/persistentVolumeClaim/claimName"]),
        ),
        target(
            ("", "v1", "PersistentVolume"),
            specs(&[
                (("", "", "PersistentVolumeClaim"), "spec/volumeName"),
                (("", "", "ClusterRole"), "rules/resourceNames"),
            ]),
        ),
        target(
            ("storage.k8s.io", "v1", "StorageClass"),
            specs(&[
                (("", "", "PersistentVolume"), "spec/storageClassName"),
                (("", "", "PersistentVolumeClaim"), "spec/storageClassName"),
                (("", "", "StatefulSet"), "spec/volumeClaimTemplates/spec/storageClassName"),
            ]),
        ),
        target(("scheduling.k8s.io", "v1", "PriorityClass"), below(&HOLDERS, &["priorityClassName"])),
        // The table has a version in the group, so nothing is ever of this kind.
        target(
            ("networking.k8s.io/v1", "v1", "IngressClass"),
            specs(&[(("", "", "Ingress"), "spec/ingressClassName")]),
        ),
        target(
            (ADMISSION, "", "ValidatingAdmissionPolicy"),
            specs(&[((ADMISSION, "", "ValidatingAdmissionPolicyBinding"), "spec/policyName")]),
        ),
    ]);
    table
});

fn specs(table: &[(Gvk, &str)]) -> Vec<FieldSpec> {
    table.iter().map(|(gvk, path)| FieldSpec::new(*gvk, path, false)).collect()
}

fn below(holders: &[(Gvk, &str)], paths: &[&str]) -> Vec<FieldSpec> {
    holders
        .iter()
        .flat_map(|(gvk, pod)| {
            paths.iter().map(move |path| FieldSpec::new(*gvk, &format!("{pod}/{path}"), false))
        })
        .collect()
}

fn config_map() -> Target {
    let mut fields = below(
        &PODS,
        &[
            "volumes/configMap/name",
            "containers/env/valueFrom/configMapKeyRef/name",
            "initContainers/env/valueFrom/configMapKeyRef/name",
            "containers/envFrom/configMapRef/name",
            "initContainers/envFrom/configMapRef/name",
            "volumes/projected/sources/configMap/name",
        ],
    );
    fields.extend(specs(&[
        (("", "", "PodTemplate"), "template/spec/volumes/configMap/name"),
        (("", "", "PodTemplate"), "template/spec/containers/env/valueFrom/configMapKeyRef/name"),
        (("", "", "PodTemplate"), "template/spec/initContainers/env/valueFrom/configMapKeyRef/name"),
        (("", "", "PodTemplate"), "template/spec/containers/envFrom/configMapRef/name"),
        (("", "", "PodTemplate"), "template/spec/initContainers/envFrom/configMapRef/name"),
        (("", "", "PodTemplate"), "template/spec/volumes/projected/sources/configMap/name"),
        (("", "", "Node"), "spec/configSource/configMap"),
        (("", "", "Role"), "rules/resourceNames"),
        (("", "", "ClusterRole"), "rules/resourceNames"),
        (("", "", "Ingress"), r"metadata/annotations/nginx.ingress.kubernetes.io\/fastcgi-params-configmap"),
    ]));
    Target { gvk: ("", "v1", "ConfigMap"), fields }
}

fn secret() -> Target {
    let places = [
        "volumes/secret/secretName",
        "containers/env/valueFrom/secretKeyRef/name",
        "initContainers/env/valueFrom/secretKeyRef/name",
        "containers/envFrom/secretRef/name",
        "initContainers/envFrom/secretRef/name",
        "imagePullSecrets/name",
        "volumes/projected/sources/secret/name",
    ];
    let mut fields = below(&PODS, &places);
    fields.extend(below(&[(("", "", "PodTemplate"), "template/spec")], &places));
    fields.extend(specs(&[
        (("", "", "Ingress"), "spec/tls/secretName"),
        (("", "", "Ingress"), r"metadata/annotations/ingress.kubernetes.io\/auth-secret"),
        (("", "", "Ingress"), r"metadata/annotations/nginx.ingress.kubernetes.io\/auth-secret"),
        (("", "", "Ingress"), r"metadata/annotations/nginx.ingress.kubernetes.io\/auth-tls-secret"),
        (("", "", "ServiceAccount"), "imagePullSecrets/name"),
        (("", "", "StorageClass"), "parameters/secretName"),
        (("", "", "StorageClass"), "parameters/adminSecretName"),
        (("", "", "StorageClass"), "parameters/userSecretName"),
        (("", "", "StorageClass"), "parameters/secretRef"),
        (("", "", "Role"), "rules/resourceNames"),
        (("", "", "ClusterRole"), "rules/resourceNames"),
        (
            ("serving.knative.dev", "v1", "Service"),
            "spec/template/spec/containers/env/valueFrom/secretKeyRef/name",
        ),
        (("", "", "PersistentVolume"), "spec/azureFile/secretName"),
    ]));
    Target { gvk: ("", "v1", "Secret"), fields }
}

fn service() -> Target {
    let fields = specs(&[
        (("apps", "", "StatefulSet"), "spec/serviceName"),
        (("", "", "Ingress"), "spec/rules/http/paths/backend/serviceName"),
        (("", "", "Ingress"), "spec/backend/serviceName"),
        (("", "", "Ingress"), "spec/rules/http/paths/backend/service/name"),
        (("", "", "Ingress"), "spec/defaultBackend/service/name"),
        (("apiregistration.k8s.io", "", "APIService"), "spec/service/name"),
        ((ADMISSION, "", "ValidatingWebhookConfiguration"), "webhooks/clientConfig/service"),
        ((ADMISSION, "", "MutatingWebhookConfiguration"), "webhooks/clientConfig/service"),
    ]);
    Target { gvk: ("", "v1", "Service"), fields }
}

/// A resource that has a new name.
struct Renamed {
    before: Id,
    after: Id,
    is_cluster_scoped: bool,
}

/// What has a new name.
#[derive(Default)]
struct Index {
    /// In the order of the items.
    all: Vec<Renamed>,
    /// Positions by old name and kind.
    by_name: HashMap<(String, String), Vec<usize>>,
    /// The same in each namespace; what has none is under the empty one.
    by_place: HashMap<(String, String, String), Vec<usize>>,
}

impl Index {
    fn add(&mut self, entry: Renamed) {
        let at = self.all.len();
        let (name, kind) = (entry.before.name.clone(), entry.before.kind.clone());
        let namespace = if entry.is_cluster_scoped { "" } else { entry.after.effective_namespace() };
        self.by_place.entry((name.clone(), kind.clone(), namespace.to_owned())).or_default().push(at);
        self.by_name.entry((name, kind)).or_default().push(at);
        self.all.push(entry);
    }

    /// All of a name and kind that a referrer may mean, and perhaps others.
    fn near(&self, referrer: &Referrer, name: &str, kind: &str) -> Result<Vec<&Renamed>, OverLimit> {
        let key = (name.to_owned(), kind.to_owned());
        let anywhere = referrer.is_cluster_scoped || kind == "ServiceAccount" || kind.is_empty();
        let mut places: Vec<usize> = Vec::new();
        if anywhere {
            places.extend(self.by_name.get(&key).into_iter().flatten());
        } else {
            let (name, kind) = key;
            let own = referrer.id.effective_namespace().to_owned();
            for namespace in [String::new(), own] {
                let key = (name.clone(), kind.clone(), namespace);
                places.extend(self.by_place.get(&key).into_iter().flatten());
            }
            places.sort_unstable();
            places.dedup();
        }
        limits::work(places.len())?;
        Ok(places.into_iter().filter_map(|at| self.all.get(at)).collect())
    }
}

/// Lets all references follow the new names. `before` is what the items were called.
///
/// # Errors
/// With kustomize's text if a reference may mean several resources, or a field is not what it should be.
pub(super) fn fix(items: &mut [Resource], before: &[Id]) -> Result<(), String> {
    let mut renamed = Index::default();
    for (item, before) in items.iter().zip(before) {
        let after = Id::of(item);
        if before.name != after.name {
            let is_cluster_scoped = after.is_cluster_scoped();
            renamed.add(Renamed { before: before.clone(), after, is_cluster_scoped });
        }
    }
    for (item, before) in items.iter_mut().zip(before) {
        let id = Id::of(item);
        let referrer = Referrer {
            is_renamed: id.name != before.name,
            is_cluster_scoped: id.is_cluster_scoped(),
            namespaces: subject_namespaces(item),
            id,
        };
        for target in TABLE.iter() {
            for spec in target.fields.iter().filter(|spec| spec.kind == referrer.id.kind) {
                let role = role_of(item, spec);
                let reach = Reach { referrer: &referrer, target: target.gvk, role, renamed: &renamed };
                spec.apply(item, Leaf::Never, &mut |node, _| reach.set(node)).map_err(|cause| {
                    format!("updating name reference in '{}' field of '{}': {cause}", spec.path, referrer.id)
                })?;
            }
        }
    }
    Ok(())
}

fn is_of(id: &Id, (group, version, kind): Gvk) -> bool {
    let matches = |selector: &str, own: &str| selector.is_empty() || selector == own;
    matches(group, &id.group) && matches(version, &id.version) && matches(kind, &id.kind)
}

/// Namespaces that the subjects of a role binding reach into.
fn subject_namespaces(item: &Resource) -> HashSet<String> {
    if item.kind() != "RoleBinding" {
        return HashSet::new();
    }
    let subjects = item.node().get("subjects").map_or(&[][..], Node::items);
    let account = |subject: &&Node| subject.get("kind").and_then(Node::scalar) == Some("ServiceAccount");
    subjects
        .iter()
        .filter(account)
        .filter_map(|subject| subject.get("namespace")?.scalar().map(str::to_owned))
        .collect()
}

/// Group and kind of the role that a binding names, where that is the field in question.
fn role_of(item: &Resource, spec: &FieldSpec) -> Option<(String, String)> {
    if !spec.path.ends_with("roleRef/name") {
        return None;
    }
    let text = |key| item.node().at(&["roleRef", key])?.scalar().map(str::to_owned);
    Some((text("apiGroup")?, text("kind")?))
}

/// The resource whose fields are looked at.
struct Referrer {
    id: Id,
    is_renamed: bool,
    is_cluster_scoped: bool,
    namespaces: HashSet<String>,
}

/// One field of a referrer, and what it may mean.
struct Reach<'a> {
    referrer: &'a Referrer,
    target: Gvk,
    role: Option<(String, String)>,
    renamed: &'a Index,
}

impl Reach<'_> {
    fn set(&self, node: &mut Node) -> Result<(), String> {
        if node.tag() == Tag::Null {
            return Ok(());
        }
        match node.kind() {
            Kind::Scalar => self.set_scalar(node),
            Kind::Mapping => self.set_mapping(node),
            Kind::Sequence => {
                let mut items = node.items_mut().into_iter().flatten().filter(|item| item.tag() != Tag::Null);
                items.try_for_each(|item| match item.kind() {
                    Kind::Mapping => self.set_mapping(item),
                    Kind::Scalar => self.set_scalar(item),
                    _ => Err("expected to be either a string or a map of string".to_owned()),
                })
            }
            Kind::Alias => Err("node must be a scalar, sequence or map".to_owned()),
        }
    }

    fn set_scalar(&self, node: &mut Node) -> Result<(), String> {
        let old = node.scalar().unwrap_or_default();
        if let Some(referral) = self.referral(old, None, |a, b| a.name == b.name)? {
            limits::produce_instead(referral.name.len(), node.scalar().map_or(0, str::len))?;
            let mut new = Node::verbatim(referral.name.as_str());
            new.set_style_of(node);
            new.fill_comments_from(node);
            *node = new;
        }
        Ok(())
    }

    fn set_mapping(&self, node: &mut Node) -> Result<(), String> {
        let Some(old) = node.get("name").and_then(Node::scalar).map(str::to_owned) else {
            return Err("path config error; no 'name' field in node".to_owned());
        };
        let namespace = node.get("namespace").and_then(Node::scalar).map(str::to_owned);
        let same = |a: &Id, b: &Id| a.name == b.name && a.namespace == b.namespace;
        if let Some(referral) = self.referral(&old, namespace.as_deref(), same)? {
            limits::produce_instead(referral.name.len() + referral.namespace.len(), old.len())?;
            node.set("name", Node::string_for_field(referral.name.as_str()));
            if !referral.namespace.is_empty() {
                node.set("namespace", Node::string_for_field(referral.namespace.as_str()));
            }
        }
        Ok(())
    }

    /// What a name means now; nothing if it means nothing that was renamed.
    fn referral(
        &self,
        old: &str,
        namespace: Option<&str>,
        same: fn(&Id, &Id) -> bool,
    ) -> Result<Option<&Id>, String> {
        let (_, _, kind) = self.target;
        let named = self.renamed.near(self.referrer, old, kind)?;
        let matching: Vec<&Id> = named
            .into_iter()
            .filter(|candidate| is_of(&candidate.before, self.target) && self.is_near(candidate))
            .filter(|candidate| {
                namespace.is_none_or(|namespace| candidate.before.effective_namespace() == namespace)
            })
            .filter(|candidate| {
                self.role.as_ref().is_none_or(|(group, kind)| {
                    (group.is_empty() || *group == candidate.before.group)
                        && (kind.is_empty() || *kind == candidate.before.kind)
                })
            })
            .map(|candidate| &candidate.after)
            .collect();
        match matching[..] {
            [] => Ok(None),
            [one] => Ok(Some(one)),
            // Several are told apart by what was added to their names, which a referrer without has not.
            _ if !self.referrer.is_renamed => Ok(None),
            [first, ref others @ ..] if others.iter().all(|other| same(first, other)) => Ok(Some(first)),
            _ => {
                limits::produce(matching.iter().map(|id| id.name.len() + id.namespace.len() + 64).sum())?;
                let ids: Vec<String> = matching.iter().map(ToString::to_string).collect();
                Err(format!("found multiple possible referrals: {}", ids.join(", ")))
            }
        }
    }

    /// Whether the referrer can mean the target, as far as namespaces go.
    fn is_near(&self, target: &Renamed) -> bool {
        let referrer = self.referrer;
        referrer.is_cluster_scoped
            || target.is_cluster_scoped
            || referrer.id.effective_namespace() == target.after.effective_namespace()
            || (target.after.kind == "ServiceAccount"
                && referrer.namespaces.contains(&target.after.namespace))
    }
}
