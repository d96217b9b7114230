//! ConstraintTemplates: Rego that says what a violation is.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::time::Duration;

use loggia_krm::Resource;
use loggia_yaml::Node;
use regorus::utils::limits::ExecutionTimerConfig;
use regorus::{Engine, Value};

use crate::limits::{self, OverLimit};

/// What one review of one resource may take.
const MAX_REVIEW: Duration = Duration::from_secs(10);
/// How deep brackets may nest: the engine takes ever longer for each.
const MAX_NESTING: usize = 100;
const TARGET: &str = "admission.k8s.gatekeeper.sh";

/// A template's compiled program.
pub(super) struct Template {
    /// The kind of its constraints.
    pub(super) kind: String,
    /// The schema of its parameters, if one holds. Templates before v1 need none.
    schema: Option<Node>,
    engine: Engine,
    rule: String,
}

/// What a template's author wrote.
struct Source<'a> {
    rego: &'a str,
    libraries: Vec<&'a str>,
    v1: bool,
}

impl Template {
    pub(super) fn new(item: &Resource) -> Result<Self, String> {
        let spec = item.node();
        let kind =
            spec.at(&["spec", "crd", "spec", "names", "kind"]).and_then(Node::as_str).unwrap_or_default();
        if kind.is_empty() {
            let name = item.name();
            return Err(format!(
                "invalid ConstraintTemplate: ConstraintTemplate \"{name}\" does not specify CRD Kind"
            ));
        }
        if item.name() != kind.to_lowercase() {
            return Err(format!(
                "invalid ConstraintTemplate: the ConstraintTemplate's name \"{}\" is not equal to the lowercase of CRD's Kind: \"{}\"",
                item.name(),
                kind.to_lowercase()
            ));
        }
        let targets = spec.at(&["spec", "targets"]).map_or(&[][..], Node::items);
        let [target] = targets else {
            return Err("invalid ConstraintTemplate: must declare exactly one target".to_owned());
        };
        match target.get_str("target") {
            Some(TARGET) => {}
            other => {
                return Err(format!(
                    "invalid ConstraintTemplate: target \"{}\" not recognized, known targets [{TARGET}]",
                    other.unwrap_or_default()
                ));
            }
        }
        let source = Source::of(target)?;
        source.check()?;
        let mut engine = Engine::new();
        engine.set_rego_v0(!source.v1);
        engine.set_strict_builtin_errors(false);
        if let Some(check_interval) = NonZeroU32::new(1_000) {
            engine.set_execution_timer_config(ExecutionTimerConfig { limit: MAX_REVIEW, check_interval });
        }
        add_old_builtins(&mut engine).map_err(|error| said(&error))?;
        for (at, library) in source.libraries.iter().enumerate() {
            engine
                .add_policy(format!("libs[{at}]"), (*library).to_owned())
                .map_err(|error| invalid(&error))?;
        }
        let package = engine
            .add_policy("template".to_owned(), source.rego.to_owned())
            .map_err(|error| invalid(&error))?;
        let validation = spec.at(&["spec", "crd", "spec", "validation"]);
        let legacy = validation.and_then(|validation| validation.get("legacySchema")).and_then(Node::as_bool);
        let legacy = legacy.unwrap_or(!item.api_version().ends_with("/v1"));
        let schema = validation.and_then(|validation| validation.get("openAPIV3Schema")).cloned();
        let schema = if legacy { None } else { Some(schema.unwrap_or_default()) };
        Ok(Self { kind: kind.to_owned(), schema, engine, rule: format!("{package}.violation") })
    }

    /// The parameters that the template does not know, by place.
    pub(super) fn unknown_parameters(&self, parameters: &Node) -> Vec<String> {
        let mut unknown = Vec::new();
        match &self.schema {
            Some(schema) if schema.is_null() => unknown.push("spec.parameters".to_owned()),
            Some(schema) => find_unknown(schema, parameters, "spec.parameters", 0, &mut unknown),
            None => {}
        }
        unknown.sort();
        unknown
    }

    pub(super) fn set_inventory(&mut self, inventory: &Value) -> Result<(), String> {
        self.engine.clear_data();
        self.engine.add_data(inventory.clone()).map_err(|error| said(&error))
    }

    /// The messages of all violations.
    pub(super) fn violations(&mut self, input: Value) -> Result<Vec<String>, String> {
        self.engine.set_input(input);
        let found = self.engine.eval_rule(self.rule.clone()).map_err(|error| said(&error))?;
        let Ok(found) = found.as_set() else { return Ok(Vec::new()) };
        // Two violations are one if they agree in message and details.
        let violations: BTreeSet<(&Value, Value)> =
            found.iter().map(|one| (&one["msg"], details(one))).collect();
        violations
            .into_iter()
            .map(|(message, _)| match message {
                Value::String(message) => Ok(message.to_string()),
                other => {
                    Err(format!("extracting message binding: .msg accessor error: {other} is no string"))
                }
            })
            .collect()
    }
}

impl<'a> Source<'a> {
    fn of(target: &'a Node) -> Result<Self, String> {
        let code = target.get("code").map_or(&[][..], Node::items);
        let rego = code
            .iter()
            .find(|code| code.get_str("engine") == Some("Rego"))
            .and_then(|code| code.get("source"));
        let node = rego.unwrap_or(target);
        let libraries =
            node.get("libs").map_or(&[][..], Node::items).iter().filter_map(Node::as_str).collect();
        match node.get_str("rego") {
            Some(rego) if !rego.trim().is_empty() => {
                Ok(Self { rego, libraries, v1: node.get_str("version") == Some("v1") })
            }
            _ => {
                let wanted = code.first().and_then(|code| code.get_str("engine")).unwrap_or_default();
                Err(format!(
                    "no language driver is installed that handles this constraint template: available drivers: \
                     map[Rego:1], wanted \"{wanted}\""
                ))
            }
        }
    }

    /// What the original refuses before it compiles anything.
    fn check(&self) -> Result<(), String> {
        for line in self.rego.lines() {
            let Some(import) = line.trim().strip_prefix("import ") else { continue };
            let path = import.split_whitespace().next().unwrap_or_default();
            let allowed = ["data.lib", "data.inventory", "future.keywords", "input"];
            if !allowed.iter().any(|root| path == *root || path.starts_with(&format!("{root}."))) {
                return Err(format!("invalid ConstraintTemplate: invalid import: bad import: \"{path}\""));
            }
        }
        let has_rule =
            |line: &str| line.strip_prefix("violation").is_some_and(|rest| !rest.starts_with(is_word));
        if !self.rego.lines().any(|line| has_rule(line.trim_start())) {
            let text = "invalid ConstraintTemplate: invalid rego: invalid module: missing required rules: [violation]";
            return Err(text.to_owned());
        }
        for program in self.libraries.iter().chain([&self.rego]) {
            if nesting(program) > MAX_NESTING {
                return Err(format!(
                    "invalid ConstraintTemplate: brackets are nested more than {MAX_NESTING} deep"
                ));
            }
            if let Some(function) = recursive(program)? {
                return Err(format!(
                    "unable to compile modules: 1 error occurred: rego_recursion_error: function {function} is recursive"
                ));
            }
        }
        for library in &self.libraries {
            let package =
                library.lines().find_map(|line| line.trim().strip_prefix("package ")).unwrap_or_default();
            let package = package.trim();
            if package != "lib" && !package.starts_with("lib.") {
                return Err(format!(
                    "invalid ConstraintTemplate: invalid lib prefix: path data.{package} not found in lib prefixes"
                ));
            }
        }
        Ok(())
    }
}

/// What Rego had before version 1 and policies still use; the engine lacks it.
fn add_old_builtins(engine: &mut Engine) -> anyhow::Result<()> {
    let are = |value: &Value| -> anyhow::Result<Vec<bool>> {
        let flags = |value: &Value| *value == Value::Bool(true);
        match value {
            Value::Array(items) => Ok(items.iter().map(flags).collect()),
            Value::Set(items) => Ok(items.iter().map(flags).collect()),
            other => anyhow::bail!("operand must be one of {{array, set}} but got {other}"),
        }
    };
    engine.add_extension(
        "all".to_owned(),
        1,
        Box::new(move |arguments: Vec<Value>| {
            Ok(Value::Bool(are(&arguments[0])?.into_iter().all(|flag| flag)))
        }),
    )?;
    engine.add_extension(
        "any".to_owned(),
        1,
        Box::new(move |arguments: Vec<Value>| {
            Ok(Value::Bool(are(&arguments[0])?.into_iter().any(|flag| flag)))
        }),
    )?;
    engine.add_extension(
        "re_match".to_owned(),
        2,
        Box::new(|arguments: Vec<Value>| {
            let (Value::String(pattern), Value::String(text)) = (&arguments[0], &arguments[1]) else {
                return Ok(Value::Undefined);
            };
            Ok(regex::Regex::new(pattern)
                .map_or(Value::Undefined, |pattern| Value::Bool(pattern.is_match(text))))
        }),
    )
}

/// A function that calls itself, perhaps by way of others. The engine would follow it until the stack ends.
fn recursive(rego: &str) -> Result<Option<String>, OverLimit> {
    let rego = without_texts(rego);
    let mut calls: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let (mut current, mut depth) = (None, 0_usize);
    for line in rego.lines() {
        let code = line.trim_start();
        let head = code
            .split('(')
            .next()
            .filter(|head| depth == 0 && *head != code && !head.is_empty() && head.chars().all(is_word));
        if depth == 0 && !code.is_empty() {
            current = head;
        }
        depth = (depth + code.matches('{').count()).saturating_sub(code.matches('}').count());
        let Some(function) = current else { continue };
        let body = if head.is_some() { code.split_once('(').map_or("", |(_, rest)| rest) } else { code };
        calls.entry(function).or_default().extend(called(body));
    }
    for function in calls.keys() {
        if reaches(&calls, function)? {
            return Ok(Some((*function).to_owned()));
        }
    }
    Ok(None)
}

/// How deep the brackets of a program are nested.
fn nesting(rego: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for character in without_texts(rego).chars() {
        match character {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// A program without its comments and what is in its strings.
fn without_texts(rego: &str) -> String {
    let mut out = String::with_capacity(rego.len());
    let mut characters = rego.chars();
    while let Some(character) = characters.next() {
        match character {
            '#' => {
                characters.by_ref().find(|character| *character == '\n');
                out.push('\n');
            }
            '`' => drop(characters.by_ref().find(|character| *character == '`')),
            '"' => {
                let mut escaped = false;
                characters.by_ref().find(|character| {
                    let ends = *character == '"' && !escaped;
                    escaped = *character == '\\' && !escaped;
                    ends
                });
            }
            _ => out.push(character),
        }
    }
    out
}

/// Names in front of an opening bracket.
fn called(code: &str) -> impl Iterator<Item = &str> {
    code.match_indices('(').filter_map(|(at, _)| {
        let before = &code[..at];
        let start = before.rfind(|character| !is_word(character)).map_or(0, |at| at + 1);
        let qualified = before[..start].ends_with('.');
        (!qualified && start < at).then(|| &before[start..])
    })
}

fn reaches(calls: &BTreeMap<&str, BTreeSet<&str>>, function: &str) -> Result<bool, OverLimit> {
    let mut seen = BTreeSet::new();
    let mut waiting: Vec<&str> = calls.get(function).into_iter().flatten().copied().collect();
    while let Some(next) = waiting.pop() {
        limits::work(8)?;
        if next == function {
            return Ok(true);
        }
        if seen.insert(next) {
            waiting.extend(calls.get(next).into_iter().flatten());
        }
    }
    Ok(false)
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

fn find_unknown(schema: &Node, node: &Node, place: &str, depth: usize, unknown: &mut Vec<String>) {
    const MAX_DEPTH: usize = 100;
    let keeps = schema.get("x-kubernetes-preserve-unknown-fields").and_then(Node::as_bool) == Some(true);
    if keeps || depth > MAX_DEPTH || limits::work(1 + place.len() / 16 * (1 + node.len())).is_err() {
        return;
    }
    for (at, item) in node.items().iter().enumerate() {
        if let Some(schema) = schema.get("items") {
            find_unknown(schema, item, &format!("{place}[{at}]"), depth + 1, unknown);
        }
    }
    for pair in node.pairs() {
        let name = pair.key.scalar().unwrap_or_default();
        let place = format!("{place}.{name}");
        match schema.at(&["properties", name]).or_else(|| schema.get("additionalProperties")) {
            Some(schema) => find_unknown(schema, &pair.value, &place, depth + 1, unknown),
            None if limits::produce(place.len()).is_ok() => unknown.push(place),
            None => return,
        }
    }
}

fn details(violation: &Value) -> Value {
    match &violation["details"] {
        Value::Undefined => Value::new_object(),
        details => details.clone(),
    }
}

fn invalid(error: &impl std::fmt::Display) -> String {
    format!("invalid ConstraintTemplate: {}", said(error))
}

/// The engine's message without its drawing of the source.
fn said(error: &impl std::fmt::Display) -> String {
    let text = error.to_string();
    let text = text.trim();
    match text.rsplit_once("error: ") {
        Some((before, message)) => {
            let place = before.lines().find_map(|line| line.trim().strip_prefix("--> ")).map(str::trim);
            place.map_or_else(|| message.to_owned(), |place| format!("{place}: {message}"))
        }
        None => text.to_owned(),
    }
}
