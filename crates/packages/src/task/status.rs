//! What a package server shows of a render, in Porch's form.

use loggia_krm::{FunctionResult, FunctionResultList};
use serde::Serialize;

/// What a render did: one entry for each function that ran, and why it failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RenderStatus {
    /// What the functions did.
    pub result: FunctionResultList,
    /// Why the render failed; empty if it did not.
    pub error: String,
}

#[derive(Serialize)]
struct Json<'a> {
    result: ResultList<'a>,
    error: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResultList<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: Name,
    exit_code: i32,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    items: &'a [FunctionResult],
}

#[derive(Serialize)]
struct Name {
    name: &'static str,
}

impl RenderStatus {
    /// The kind of its list of results.
    pub const KIND: &'static str = "FunctionResultList";
    /// The apiVersion of its list of results.
    pub const API_VERSION: &'static str = "kpt.dev/v1";
    /// The name of its list of results.
    pub const NAME: &'static str = "fnresults";

    /// Whether nothing ran and nothing failed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.result.items.is_empty() && self.error.is_empty()
    }

    /// The status as Porch's API has it.
    #[must_use]
    pub fn to_json(&self) -> String {
        let result = ResultList {
            kind: Self::KIND,
            api_version: Self::API_VERSION,
            metadata: Name { name: Self::NAME },
            exit_code: self.result.exit_code,
            items: &self.result.items,
        };
        let node = loggia_yaml::to_node(&Json { result, error: &self.error });
        let node = node.expect("strings, numbers and maps of strings always fit");
        loggia_yaml::to_json(&node).expect("there is nothing in it that JSON cannot say")
    }
}
