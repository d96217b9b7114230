//! The schema held against a tree, with go-yaml's messages for everything that does not fit.
//!
//! serde stops at the first problem and has words of its own; users of kpt see all of them, in go-yaml's words.

use std::collections::HashMap;
use std::fmt;

use loggia_go::quote;
use loggia_yaml::{Kind, Node, Pair, Tag};

use crate::resource::{follow, text};
use crate::unmarshal::{self, misfit};

/// What a value must be.
#[derive(Clone, Copy)]
enum Shape {
    /// Any scalar, called by the name of its type.
    Text(&'static str),
    Number,
    /// Strings by string.
    Map,
    List(&'static Shape),
    Record(&'static Record),
}

/// A structure by its name in kpt and its fields.
struct Record {
    name: &'static str,
    fields: &'static [(&'static str, Shape)],
}

const STRING: Shape = Shape::Text("string");
const STRINGS: Shape = Shape::List(&STRING);

static KPTFILE: Record = Record {
    name: "v1.KptFile",
    fields: &[
        ("apiVersion", STRING),
        ("kind", STRING),
        ("metadata", Shape::Record(&METADATA)),
        ("upstream", Shape::Record(&UPSTREAM)),
        ("upstreamLock", Shape::Record(&LOCK)),
        ("info", Shape::Record(&INFO)),
        ("pipeline", Shape::Record(&PIPELINE)),
        ("inventory", Shape::Record(&INVENTORY)),
        ("status", Shape::Record(&STATUS)),
    ],
};

static METADATA: Record = Record {
    name: "yaml.ObjectMeta",
    fields: &[("name", STRING), ("namespace", STRING), ("labels", Shape::Map), ("annotations", Shape::Map)],
};

static UPSTREAM: Record = Record {
    name: "v1.Upstream",
    fields: &[
        ("type", Shape::Text("v1.OriginType")),
        ("git", Shape::Record(&GIT)),
        ("updateStrategy", Shape::Text("v1.UpdateStrategyType")),
    ],
};

static GIT: Record =
    Record { name: "v1.Git", fields: &[("repo", STRING), ("directory", STRING), ("ref", STRING)] };

static LOCK: Record = Record {
    name: "v1.Locator",
    fields: &[
        ("type", Shape::Text("v1.OriginType")),
        ("git", Shape::Record(&GIT_LOCK)),
        ("generic", Shape::Record(&GENERIC_LOCK)),
    ],
};

static GIT_LOCK: Record = Record {
    name: "v1.GitLock",
    fields: &[("repo", STRING), ("directory", STRING), ("ref", STRING), ("commit", STRING)],
};

static GENERIC_LOCK: Record = Record {
    name: "v1.GenericLock",
    fields: &[("storeID", STRING), ("resourceID", STRING), ("resourceVersion", STRING)],
};

static INFO: Record = Record {
    name: "v1.PackageInfo",
    fields: &[
        ("site", STRING),
        ("emails", STRINGS),
        ("license", STRING),
        ("licenseFile", STRING),
        ("description", STRING),
        ("keywords", STRINGS),
        ("man", STRING),
        ("readinessGates", Shape::List(&Shape::Record(&GATE))),
    ],
};

static GATE: Record = Record { name: "v1.ReadinessGate", fields: &[("conditionType", STRING)] };

static PIPELINE: Record = Record {
    name: "v1.Pipeline",
    fields: &[
        ("mutators", Shape::List(&Shape::Record(&FUNCTION))),
        ("validators", Shape::List(&Shape::Record(&FUNCTION))),
    ],
};

static FUNCTION: Record = Record {
    name: "v1.Function",
    fields: &[
        ("image", STRING),
        ("exec", STRING),
        ("configPath", STRING),
        ("configMap", Shape::Map),
        ("name", STRING),
        ("tag", STRING),
        ("selectors", Shape::List(&Shape::Record(&SELECTOR))),
        ("exclude", Shape::List(&Shape::Record(&SELECTOR))),
    ],
};

static SELECTOR: Record = Record {
    name: "v1.Selector",
    fields: &[
        ("apiVersion", STRING),
        ("kind", STRING),
        ("name", STRING),
        ("namespace", STRING),
        ("labels", Shape::Map),
        ("annotations", Shape::Map),
    ],
};

static INVENTORY: Record = Record {
    name: "v1.Inventory",
    fields: &[
        ("namespace", STRING),
        ("name", STRING),
        ("inventoryID", STRING),
        ("labels", Shape::Map),
        ("annotations", Shape::Map),
    ],
};

static STATUS: Record = Record {
    name: "v1.Status",
    fields: &[
        ("conditions", Shape::List(&Shape::Record(&CONDITION))),
        ("renderStatus", Shape::Record(&RENDER_STATUS)),
    ],
};

static CONDITION: Record = Record {
    name: "v1.Condition",
    fields: &[
        ("type", STRING),
        ("status", Shape::Text("v1.ConditionStatus")),
        ("reason", STRING),
        ("message", STRING),
    ],
};

static RENDER_STATUS: Record = Record {
    name: "v1.RenderStatus",
    fields: &[
        ("mutationSteps", Shape::List(&Shape::Record(&STEP))),
        ("validationSteps", Shape::List(&Shape::Record(&STEP))),
        ("errorSummary", STRING),
    ],
};

static STEP: Record = Record {
    name: "v1.PipelineStepResult",
    fields: &[
        ("name", STRING),
        ("image", STRING),
        ("exec", STRING),
        ("executionError", STRING),
        ("stderr", STRING),
        ("exitCode", Shape::Number),
        ("results", Shape::List(&Shape::Record(&RESULT))),
        ("errorResults", Shape::List(&Shape::Record(&RESULT))),
    ],
};

static RESULT: Record = Record {
    name: "v1.ResultItem",
    fields: &[
        ("message", STRING),
        ("severity", STRING),
        ("resourceRef", Shape::Record(&RESOURCE_REF)),
        ("field", Shape::Record(&FIELD_REF)),
        ("file", Shape::Record(&FILE_REF)),
        ("tags", Shape::Map),
    ],
};

static RESOURCE_REF: Record = Record {
    name: "v1.ResourceRef",
    fields: &[("apiVersion", STRING), ("kind", STRING), ("name", STRING), ("namespace", STRING)],
};

static FIELD_REF: Record = Record {
    name: "v1.FieldRef",
    fields: &[("path", STRING), ("currentValue", STRING), ("proposedValue", STRING)],
};

static FILE_REF: Record =
    Record { name: "v1.FileRef", fields: &[("path", STRING), ("index", Shape::Number)] };

/// Holds a Kptfile's root against the schema; the error is the text of all that does not fit.
pub(super) fn check(root: &Node) -> Result<(), String> {
    let mut problems = Vec::new();
    check_value(root, Shape::Record(&KPTFILE), &mut problems);
    if problems.is_empty() { Ok(()) } else { Err(unmarshal::errors(&problems)) }
}

/// The schema nests only so deep, so this does not recurse further than it.
fn check_value(node: &Node, shape: Shape, problems: &mut Vec<String>) {
    let node = follow(node);
    if node.tag() == Tag::Null {
        return;
    }
    match (node.kind(), shape) {
        (Kind::Scalar, Shape::Text(_)) | (Kind::Alias, _) => {}
        (Kind::Scalar, Shape::Number) if node.as_f64().is_some() => {}
        (Kind::Sequence, Shape::List(item)) => {
            node.items().iter().for_each(|value| check_value(value, *item, problems));
        }
        (Kind::Mapping, shape) => check_mapping(node, shape, problems),
        (_, shape) => add(problems, || misfit(node, shape)),
    }
}

/// Remembers what does not fit. A text of megabytes can have a misfit in every line, and the first hundred do.
fn add(problems: &mut Vec<String>, problem: impl FnOnce() -> String) {
    const MOST: usize = 100;
    match problems.len() {
        ..MOST => problems.push(problem()),
        MOST => problems.push("there are more errors".to_owned()),
        _ => {}
    }
}

/// Reports each two equal keys, in the order of the first and then of the second.
fn check_unique(pairs: &[Pair], problems: &mut Vec<String>) {
    let mut places: HashMap<_, Vec<usize>> = HashMap::with_capacity(pairs.len());
    let ranks: Vec<usize> = pairs
        .iter()
        .enumerate()
        .map(|(at, pair)| {
            let equal = places.entry(identity(&pair.key)).or_default();
            equal.push(at);
            equal.len()
        })
        .collect();
    if places.len() == pairs.len() {
        return;
    }
    let twice = pairs.iter().zip(&ranks).flat_map(|(pair, rank)| {
        let later = places.get(&identity(&pair.key)).and_then(|equal| equal.get(*rank..));
        later.into_iter().flatten().map(move |later| (pair, *later))
    });
    // Each key a thousand times are a million twos, of which few are reported.
    const ENOUGH: usize = 200;
    for (pair, later) in twice.take(ENOUGH) {
        let Some(later) = pairs.get(later) else { continue };
        add(problems, || {
            let (line, name) = (later.key.line(), quote(later.key.scalar().unwrap_or_default()));
            let earlier = pair.key.line();
            format!("line {line}: mapping key {name} already defined at line {earlier}")
        });
    }
}

/// What makes two keys equal.
fn identity(key: &Node) -> (std::mem::Discriminant<Kind>, Option<&str>) {
    (std::mem::discriminant(&key.kind()), key.scalar())
}

fn check_mapping(node: &Node, shape: Shape, problems: &mut Vec<String>) {
    let before = problems.len();
    let pairs = node.pairs();
    check_unique(pairs, problems);
    if problems.len() > before {
        return;
    }
    for pair in pairs {
        let key = &pair.key;
        if key.tag() == Tag::Merge {
            check_merged(&pair.value, shape, problems);
            continue;
        }
        match shape {
            Shape::Map => {
                check_value(key, STRING, problems);
                check_value(&pair.value, STRING, problems);
            }
            Shape::Record(record) => match record.fields.iter().find(|(name, _)| *name == text(key)) {
                Some((_, shape)) => check_value(&pair.value, *shape, problems),
                None if follow(key).is_scalar() => {
                    let (line, name, record) = (key.line(), text(key), record.name);
                    add(problems, || format!("line {line}: field {name} not found in type {record}"));
                }
                None => add(problems, || misfit(follow(key), STRING)),
            },
            shape => {
                add(problems, || misfit(node, shape));
                return;
            }
        }
    }
    if pairs.is_empty() && !matches!(shape, Shape::Map | Shape::Record(_)) {
        add(problems, || misfit(node, shape));
    }
}

fn check_merged(value: &Node, shape: Shape, problems: &mut Vec<String>) {
    let value = follow(value);
    for mapping in value.items().iter().map(follow).chain(value.is_mapping().then_some(value)) {
        // What a merge brings in is not merged any further here: real Kptfiles do not even go this far.
        let plain = mapping.pairs().iter().filter(|pair| pair.key.tag() != Tag::Merge).cloned().collect();
        check_mapping(&plain, shape, problems);
    }
}

/// The type as Go writes it.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(name) => f.write_str(name),
            Self::Number => f.write_str("int"),
            Self::Map => f.write_str("map[string]string"),
            Self::List(item) => write!(f, "[]{item}"),
            Self::Record(record) => f.write_str(record.name),
        }
    }
}
