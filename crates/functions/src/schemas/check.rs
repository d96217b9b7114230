//! Holding a resource against its schema.
//!
//! Problems come in the order in which the original's library finds them: a node's own before its children's, and
//! surplus fields after. Where the original walks a map in random order, this walks it in the order of the keys.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::rc::Rc;

use loggia_yaml::{Kind, Node, Resolved};
use serde_json::Value;

use super::format;
use super::{Catalog, Dialect, Schema, json};
use crate::limits;
use crate::regexp::Expression;

/// Definitions refer to each other, and resources nest; neither goes deeper than this.
const MAX_DEPTH: usize = 200;

/// Whether fields that the schema does not know are problems.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strictness {
    Lax,
    Strict,
}

/// Something wrong, and where.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Problem {
    pub(crate) path: Vec<String>,
    pub(crate) fault: Fault,
}

/// What can be wrong.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fault {
    Type {
        got: &'static str,
        want: Vec<String>,
    },
    Enum(Vec<Value>),
    Missing(Vec<String>),
    Additional(Vec<String>),
    /// The positions of the two alternatives that hold at once, if it is not that none does.
    OneOf(Option<(usize, usize)>),
    AnyOf,
    AllOf,
    Not,
    /// A size out of bounds: keyword, what is there, what is wanted.
    Size(&'static str, usize, u64),
    /// A number out of bounds: keyword, what is there, what is wanted.
    Bound(&'static str, f64, f64),
    Pattern {
        got: String,
        want: String,
    },
    Format {
        got: String,
        name: String,
        reason: String,
    },
    Equal(usize, usize),
    /// The schema allows nothing.
    Never,
    /// Several problems at or below one place.
    Group(Vec<Problem>),
    /// Problems with what a schema refers to.
    Reference(Vec<Problem>),
}

/// Checks resources against the schemas of a catalog. Once it meets a limit of the call it finds nothing more.
pub(crate) struct Checker<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) strictness: Strictness,
    /// Expressions of schemas; nothing for those that are wrong.
    pub(crate) patterns: &'a Patterns,
}

/// The expressions that schemas have, each compiled once.
#[derive(Default)]
pub(crate) struct Patterns(RefCell<HashMap<String, Option<Rc<Expression>>>>);

impl Patterns {
    /// Whether a text is not what an expression asks for; one that is wrong asks for nothing.
    fn refuse(&self, pattern: &str, text: &str) -> bool {
        let mut known = self.0.borrow_mut();
        let expression = match known.get(pattern) {
            Some(known) => known.clone(),
            None => {
                let compiled = Expression::new(pattern).ok().map(Rc::new);
                known.insert(pattern.to_owned(), compiled.clone());
                compiled
            }
        };
        expression.is_some_and(|expression| expression.is_match(text) == Ok(false))
    }
}

/// How a schema came to apply, which decides whether null may stand in its place.
#[derive(Clone, Copy)]
struct Place<'a> {
    nullable: bool,
    dialect: Dialect,
    root: bool,
    /// What references inside of a file are looked up in.
    document: &'a Value,
    /// How many schemas lead here, those that only refer to another included.
    depth: usize,
}

/// The place in the resource where the check is, and what it found so far.
#[derive(Default)]
struct Report {
    path: Vec<String>,
    problems: Vec<Problem>,
}

// === impl Place ===

impl Place<'_> {
    /// The place of something inside, which may be null if it is optional and the dialect allows that.
    fn inner(self, optional: bool) -> Self {
        Self { nullable: optional && self.dialect.lets_optional_be_null(), root: false, ..self }
    }
}

// === impl Report ===

impl Report {
    /// Something wrong with what is here.
    fn add(&mut self, fault: Fault) {
        let size = match &fault {
            Fault::Pattern { got, want } => got.len() + want.len(),
            Fault::Format { got, .. } => got.len(),
            Fault::Type { want, .. } => want.iter().map(String::len).sum(),
            _ => 0,
        };
        let path: usize = self.path.iter().map(String::len).sum();
        if limits::produce(path + size).is_ok() {
            self.problems.push(Problem { path: self.path.clone(), fault });
        }
    }

    /// What `look` finds, which then is not among the problems.
    fn apart(&mut self, look: impl FnOnce(&mut Self)) -> Vec<Problem> {
        let before = std::mem::take(&mut self.problems);
        look(self);
        std::mem::replace(&mut self.problems, before)
    }
}

// === impl Checker ===

impl Checker<'_> {
    /// The problems of a resource. Those at or below one field are one group, as in the original's library, unless all
    /// are.
    pub(crate) fn check(&self, schema: &Schema, node: &Node) -> Vec<Problem> {
        let mut report = Report::default();
        let place =
            Place { nullable: false, dialect: schema.dialect, root: true, document: &schema.root, depth: 0 };
        self.inside(&schema.root, node, place, &mut report);
        match report.problems.as_mut_slice() {
            [Problem { fault: Fault::Group(group), .. }] => std::mem::take(group),
            _ => report.problems,
        }
    }

    fn value(&self, schema: &Value, node: &Node, place: Place<'_>, report: &mut Report) {
        let mut own = report.apart(|report| self.inside(schema, node, place, report));
        if own.len() > 1 {
            report.add(Fault::Group(own));
        } else {
            report.problems.append(&mut own);
        }
    }

    fn inside(&self, schema: &Value, node: &Node, place: Place<'_>, report: &mut Report) {
        let place = Place { depth: place.depth + 1, ..place };
        if report.path.len() > MAX_DEPTH || place.depth > 2 * MAX_DEPTH || limits::work(4).is_err() {
            return;
        }
        let node = node.alias_target().unwrap_or(node);
        if let Dialect::Json { .. } = place.dialect {
            return self.json(schema, node, place, report);
        }
        if let Some(name) = schema["$ref"].as_str() {
            let name = name.rsplit('/').next().unwrap_or_default();
            if let Some(alternatives) = special(name) {
                self.one_of(&alternatives, node, place, report);
            } else if let Some(definition) = self.catalog.definition(name) {
                let place = Place { nullable: true, root: false, ..place };
                self.value(&definition, node, place, report);
            }
            return;
        }
        if schema["x-kubernetes-int-or-string"] == true || schema["format"] == "int-or-string" {
            return self.one_of(&string_or("integer"), node, place, report);
        }
        self.keywords(schema, node, place, report);
    }

    /// A part of a file of JSON schema. Problems behind a reference are one problem, as in the original's library.
    fn json(&self, schema: &Value, node: &Node, place: Place<'_>, report: &mut Report) {
        if *schema == false {
            return report.add(Fault::Never);
        }
        let Some(reference) = schema["$ref"].as_str() else {
            return self.keywords(schema, node, place, report);
        };
        let Some(target) = json::referred(place.document, reference) else { return };
        let own = report.apart(|report| self.inside(target, node, place, report));
        if !own.is_empty() {
            report.add(Fault::Reference(own));
        }
        if place.dialect.reads_beside_reference() {
            self.keywords(schema, node, place, report);
        }
    }

    fn keywords(&self, schema: &Value, node: &Node, place: Place<'_>, report: &mut Report) {
        if let Some(fault) = wrong_type(schema, node, place) {
            return report.add(fault);
        }
        if node.is_null() && place.dialect.is_nullable(schema) {
            return;
        }
        if let Some(wanted) = schema.get("const").filter(|wanted| !means(node, wanted)) {
            return report.add(Fault::Enum(vec![wanted.clone()]));
        }
        if let Some(allowed) = schema["enum"].as_array() {
            // Values are compared one by one, and a fault holds all of them.
            if limits::work(allowed.len()).is_err() {
                return;
            }
            if !allowed.iter().any(|value| means(node, value)) {
                let size = |value: &Value| value.as_str().map_or(16, str::len) + 4;
                if limits::produce(allowed.iter().map(size).sum()).is_ok() {
                    report.add(Fault::Enum(allowed.clone()));
                }
                return;
            }
        }
        if place.dialect.checks_formats()
            && let Some(fault) = wrong_format(schema, node)
        {
            return report.add(fault);
        }
        match node.kind() {
            Kind::Mapping => self.mapping(schema, node, place, report),
            Kind::Sequence => self.sequence(schema, node, place, report),
            _ => self.scalar(schema, node, report),
        }
        self.combined(schema, node, place, report);
    }

    fn mapping(&self, schema: &Value, node: &Node, place: Place<'_>, report: &mut Report) {
        size(schema, node.len(), ["minProperties", "maxProperties"], report);
        let fields: BTreeMap<&str, &Node> =
            node.pairs().iter().filter_map(|pair| Some((pair.key.scalar()?, &pair.value))).collect();
        let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
        let required: HashSet<&str> = required.iter().filter_map(Value::as_str).collect();
        if limits::work(required.len() + fields.len()).is_err() {
            return;
        }
        let mut missing = texts(&schema["required"]);
        missing.retain(|name| !fields.contains_key(name.as_str()));
        if !missing.is_empty() && limits::produce(missing.iter().map(String::len).sum()).is_ok() {
            report.add(Fault::Missing(missing));
        }
        let mut surplus = Vec::new();
        for (name, value) in fields {
            let implied = place.root && place.dialect.implies(name);
            report.path.push(name.to_owned());
            match schema["properties"].get(name) {
                Some(_) if implied => {}
                Some(_) => {
                    let optional = !required.contains(name);
                    self.property(schema, (name, optional), value, place, report);
                }
                None if schema["additionalProperties"].is_object() => {
                    self.value(&schema["additionalProperties"], value, place.inner(true), report);
                }
                None if implied || !self.is_closed(schema, place) => {}
                None => surplus.push(name.to_owned()),
            }
            report.path.pop();
        }
        if !surplus.is_empty() {
            report.add(Fault::Additional(surplus));
        }
    }

    /// A listed property. What identifies the root is held against the type that the schema is for instead.
    fn property(
        &self,
        schema: &Value,
        (name, optional): (&str, bool),
        value: &Node,
        place: Place<'_>,
        report: &mut Report,
    ) {
        let identity = if place.root { place.dialect.identity(schema, name) } else { None };
        match identity.filter(|_| value.as_str().is_some()) {
            Some(allowed) if allowed.iter().any(|allowed| means(value, allowed)) => {}
            Some(allowed) => report.add(Fault::Enum(allowed)),
            None => {
                self.value(&schema["properties"][name], value, place.inner(optional), report);
            }
        }
    }

    fn is_closed(&self, schema: &Value, place: Place<'_>) -> bool {
        schema["additionalProperties"] == false
            || (self.strictness == Strictness::Strict && place.dialect.lists_all_properties(schema))
    }

    fn sequence(&self, schema: &Value, node: &Node, place: Place<'_>, report: &mut Report) {
        size(schema, node.len(), ["minItems", "maxItems"], report);
        if schema["uniqueItems"] == true
            && let Some((first, second)) = equals(node.items())
        {
            report.add(Fault::Equal(first, second));
        }
        if schema["items"].is_object() {
            let place = place.inner(true);
            for (position, item) in node.items().iter().enumerate() {
                report.path.push(position.to_string());
                self.value(&schema["items"], item, place, report);
                report.path.pop();
            }
        }
    }

    fn scalar(&self, schema: &Value, node: &Node, report: &mut Report) {
        if let Some(text) = node.as_str() {
            size(schema, text.chars().count(), ["minLength", "maxLength"], report);
            if let Some(pattern) = schema["pattern"].as_str()
                && self.patterns.refuse(pattern, text)
            {
                report.add(Fault::Pattern { got: text.to_owned(), want: pattern.to_owned() });
            }
        } else if let Some(number) = node.as_f64() {
            bounds(schema, number, report);
        }
    }

    fn combined(&self, schema: &Value, node: &Node, place: Place<'_>, report: &mut Report) {
        let list = |key: &str| schema[key].as_array().map_or(&[][..], Vec::as_slice);
        if schema["not"].is_object() && self.holds(&schema["not"], node, place, report) {
            report.add(Fault::Not);
        }
        if list("allOf").iter().any(|part| !self.holds(part, node, place, report)) {
            report.add(Fault::AllOf);
        }
        let any = list("anyOf");
        if !any.is_empty() && !any.iter().any(|part| self.holds(part, node, place, report)) {
            report.add(Fault::AnyOf);
        }
        if !list("oneOf").is_empty() {
            self.one_of(list("oneOf"), node, place, report);
        }
    }

    fn one_of(&self, parts: &[Value], node: &Node, place: Place<'_>, report: &mut Report) {
        // Also an alternative is a schema of its own, and as such may be null.
        let place = place.inner(true);
        let holding: Vec<usize> =
            (0..parts.len()).filter(|&at| self.holds(&parts[at], node, place, report)).take(2).collect();
        match holding[..] {
            [] => report.add(Fault::OneOf(None)),
            [first, second] => report.add(Fault::OneOf(Some((first, second)))),
            _ => {}
        }
    }

    fn holds(&self, schema: &Value, node: &Node, place: Place<'_>, report: &mut Report) -> bool {
        let lax = Checker { strictness: Strictness::Lax, ..*self };
        report.apart(|report| lax.value(schema, node, place, report)).is_empty()
    }
}

/// All problems, without groups.
pub(crate) fn flat(problems: Vec<Problem>) -> Vec<Problem> {
    let mut out = Vec::new();
    let mut waiting: Vec<Problem> = problems.into_iter().rev().collect();
    while let Some(problem) = waiting.pop() {
        match problem.fault {
            Fault::Group(group) | Fault::Reference(group) => waiting.extend(group.into_iter().rev()),
            _ => out.push(problem),
        }
    }
    out
}

/// Types that accept more than their definition says.
fn special(name: &str) -> Option<[Value; 2]> {
    match name {
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString" => Some(string_or("integer")),
        "io.k8s.apimachinery.pkg.api.resource.Quantity" => Some(string_or("number")),
        _ => None,
    }
}

fn string_or(other: &str) -> [Value; 2] {
    ["string", other].map(|name| serde_json::json!({ "type": name }))
}

fn type_of(node: &Node) -> &'static str {
    match node.kind() {
        Kind::Mapping => "object",
        Kind::Sequence => "array",
        _ => match node.resolved() {
            Some(Resolved::Null) => "null",
            Some(Resolved::Bool(_)) => "boolean",
            Some(Resolved::Int(_) | Resolved::Uint(_) | Resolved::Float(_)) => "number",
            _ => "string",
        },
    }
}

fn wrong_type(schema: &Value, node: &Node, place: Place<'_>) -> Option<Fault> {
    let mut want = match &schema["type"] {
        Value::String(one) => vec![one.clone()],
        Value::Array(many) => many.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => return None,
    };
    if place.nullable || place.dialect.is_nullable(schema) {
        want.push("null".to_owned());
    }
    let got = type_of(node);
    let is_whole = || node.as_f64().is_some_and(|number| number.fract() == 0.0);
    let fits = |want: &String| want == got || (want == "integer" && got == "number" && is_whole());
    (!want.iter().any(fits)).then_some(Fault::Type { got, want })
}

fn wrong_format(schema: &Value, node: &Node) -> Option<Fault> {
    let name = schema["format"].as_str()?;
    let text = node.as_str()?;
    let reason = format::check(name, text).err()?;
    Some(Fault::Format { got: text.to_owned(), name: name.to_owned(), reason })
}

fn bounds(schema: &Value, number: f64, report: &mut Report) {
    for (keyword, exclusive, below) in
        [("minimum", "exclusiveMinimum", true), ("maximum", "exclusiveMaximum", false)]
    {
        // Since draft 6 the bound itself.
        if let Some(bound) = schema[exclusive].as_f64()
            && (number == bound || (number < bound) == below)
        {
            report.add(Fault::Bound(exclusive, number, bound));
        }
        let Some(bound) = schema[keyword].as_f64() else { continue };
        let outside = if below { number < bound } else { number > bound };
        if schema[exclusive] == true {
            if outside || number == bound {
                report.add(Fault::Bound(exclusive, number, bound));
            }
        } else if outside {
            report.add(Fault::Bound(keyword, number, bound));
        }
    }
    if let Some(factor) = schema["multipleOf"].as_f64()
        && (number / factor).fract() != 0.0
    {
        report.add(Fault::Bound("multipleOf", number, factor));
    }
}

fn size(schema: &Value, got: usize, [least, most]: [&'static str; 2], report: &mut Report) {
    let count = got as u64;
    if let Some(want) = schema[least].as_u64().filter(|&want| count < want) {
        report.add(Fault::Size(least, got, want));
    }
    if let Some(want) = schema[most].as_u64().filter(|&want| count > want) {
        report.add(Fault::Size(most, got, want));
    }
}

/// The first two items that are equal: the earliest of all that occur again, and where it does.
fn equals(items: &[Node]) -> Option<(usize, usize)> {
    let hashing = RandomState::new();
    let mut alike: HashMap<u64, Vec<usize>> = HashMap::new();
    let mut found: Option<(usize, usize)> = None;
    for (at, item) in items.iter().enumerate() {
        let mut hasher = hashing.build_hasher();
        item.hash_value(&mut hasher);
        let places = alike.entry(hasher.finish()).or_default();
        match places.iter().find(|&&place| items[place].same_value(item)) {
            Some(&first) if found.is_none_or(|(earliest, _)| first < earliest) => found = Some((first, at)),
            Some(_) => {}
            None => places.push(at),
        }
    }
    found
}

fn means(node: &Node, value: &Value) -> bool {
    match value {
        Value::Null => node.is_null(),
        Value::Bool(value) => node.as_bool() == Some(*value),
        Value::Number(value) => node.as_f64().is_some() && node.as_f64() == value.as_f64(),
        Value::String(value) => node.as_str() == Some(value),
        _ => true,
    }
}

fn texts(value: &Value) -> Vec<String> {
    value
        .as_array()
        .map_or(&[][..], Vec::as_slice)
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}
