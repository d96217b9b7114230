//! Resource lists of rows.

use crate::rows::{Attempt, Evaluate};
use crate::template::expand;

const HEAD: &str = "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\n";
const ITEM: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}";

/// The list that an attempt sends, as bytes.
pub(crate) fn bytes(attempt: &Attempt, evaluate: &Evaluate) -> Result<Vec<u8>, String> {
    let text = text(attempt, evaluate)?;
    Ok(match evaluate.encoding.as_deref() {
        None => text.into_bytes(),
        Some("bom") => [&[0xef, 0xbb, 0xbf], text.as_bytes()].concat(),
        Some("utf-16") => {
            [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
        }
        Some("latin-1") => {
            text.chars().map(|letter| u8::try_from(u32::from(letter)).unwrap_or(b'?')).collect()
        }
        Some(other) => return Err(format!("unknown encoding `{other}`")),
    })
}

fn text(attempt: &Attempt, evaluate: &Evaluate) -> Result<String, String> {
    let fill = |template: &str| expand(template, attempt.size);
    if let Some(payload) = &evaluate.payload {
        return placed(&fill(payload)?, &attempt.place);
    }
    if let Some(list) = &evaluate.list {
        return fill(list);
    }
    let items = evaluate.items.as_deref().map(fill).transpose()?;
    let items = items.unwrap_or_else(|| format!("[{ITEM}]"));
    if let Some(body) = &evaluate.rego {
        return Ok(rego(&fill(body)?));
    }
    if let Some(program) = &evaluate.starlark {
        return Ok(format!("{HEAD}{}items: {items}\n", config_map(&starlark(&fill(program)?))));
    }
    let config = match (&evaluate.config, &evaluate.data) {
        (Some(config), _) => format!("functionConfig: {}\n", fill(config)?),
        (None, Some(data)) => config_map(&fill(data)?),
        (None, None) => String::new(),
    };
    Ok(format!("{HEAD}{config}items: {items}\n"))
}

fn config_map(data: &str) -> String {
    format!("functionConfig:\n  apiVersion: v1\n  kind: ConfigMap\n  metadata: {{name: c}}\n  data: {data}\n")
}

/// A program as the value of `source` in the data of a ConfigMap.
pub(crate) fn starlark(program: &str) -> String {
    let lines: String = program.lines().map(|line| format!("      {line}\n")).collect();
    format!("\n    source: |\n{lines}")
}

fn rego(body: &str) -> String {
    let body: String = body.lines().map(|line| format!("          {line}\n")).collect();
    format!(
        "{HEAD}items:\n- apiVersion: templates.gatekeeper.sh/v1beta1\n  kind: ConstraintTemplate\n  metadata: {{name: hostile}}\n  \
         spec:\n    crd: {{spec: {{names: {{kind: Hostile}}}}}}\n    targets:\n    - target: admission.k8s.gatekeeper.sh\n      \
         rego: |\n        package hostile\n        violation[{{\"msg\": \"x\"}}] {{\n{body}        }}\n\
         - {{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: Hostile, metadata: {{name: c}}, spec: {{}}}}\n- {ITEM}\n"
    )
}

/// A value at a place of an otherwise harmless list.
fn placed(value: &str, place: &str) -> Result<String, String> {
    let item = |fields: &str| {
        format!(
            "{HEAD}{}items:\n- {{apiVersion: v1, kind: ConfigMap, {fields}}}\n",
            config_map("{a: b, namespace: n}")
        )
    };
    Ok(match place {
        "items" => item(&format!("metadata: {{name: a}}, data: {value}")),
        "spec" => item(&format!("metadata: {{name: a}}, spec: {value}")),
        "metadata" => item(&format!("metadata: {{name: a, labels: {value}}}")),
        "name" => item(&format!("metadata: {{name: {value}}}")),
        "path" => item(&format!(
            "metadata: {{name: a, annotations: {{internal.config.kubernetes.io/path: {value}}}}}"
        )),
        "annotations" => item(&format!("metadata: {{name: a, annotations: {value}}}")),
        "kind" => format!("{HEAD}items:\n- {{apiVersion: v1, kind: {value}, metadata: {{name: a}}}}\n"),
        "config" => format!("{HEAD}{}items: [{ITEM}]\n", config_map(value)),
        "whole-config" => format!("{HEAD}functionConfig: {value}\nitems: [{ITEM}]\n"),
        "results" => format!("{HEAD}{}items: [{ITEM}]\nresults: {value}\n", config_map("{a: b}")),
        "list" => format!("{HEAD}items: {value}\n"),
        "beside" => format!("{HEAD}items: [{ITEM}]\nother: {value}\n"),
        "crd" => format!(
            "{HEAD}items:\n- {{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {{name: xs.e.com}}, \
             spec: {{group: e.com, scope: Namespaced, names: {{kind: X, plural: xs}}, versions: [{{name: v1, served: true, \
             storage: true, schema: {{openAPIV3Schema: {value}}}}}]}}}}\n- {{apiVersion: e.com/v1, kind: X, metadata: {{name: a}}, \
             spec: {{a: b}}}}\n"
        ),
        other => return Err(format!("unknown place `{other}`")),
    })
}
