//! Between the messages of the wire and our types.

use loggia_krm::kptfile::Condition;
use loggia_krm::{FieldRef, FileRef, FunctionResult, ResourceRef, ResultItem};

use super::flow::Flow;
use super::wire::{self, render_outcome};
use crate::task::{
    Creation, Disposition, Handled, KptfilePatch, PackageConfig, RenderStatus, Replacement, Update,
};

// === requests ===

impl From<wire::RenderRequest> for Flow {
    fn from(request: wire::RenderRequest) -> Self {
        let wire::RenderRequest { resources, push_on_render_failure } = request;
        Self::Render { files: resources, push_on_failure: push_on_render_failure }
    }
}

impl From<wire::ApplyTaskRequest> for Flow {
    fn from(request: wire::ApplyTaskRequest) -> Self {
        let wire::ApplyTaskRequest { resources, tasks, package, metadata, push_on_render_failure } = request;
        let creation = Creation {
            tasks: tasks.into_iter().map(|task| task.r#type).collect(),
            package: package.unwrap_or_default().into(),
            patch: metadata.unwrap_or_default().into(),
            push_on_failure: push_on_render_failure,
        };
        Self::Apply { files: resources, creation }
    }
}

impl From<wire::PatchKptfileRequest> for Flow {
    fn from(request: wire::PatchKptfileRequest) -> Self {
        let wire::PatchKptfileRequest { resources, patch, lifecycle, push_on_render_failure } = request;
        let patch = patch.unwrap_or_default().into();
        let update = Update { patch, lifecycle, push_on_failure: push_on_render_failure };
        Self::Update { files: resources, update }
    }
}

impl From<wire::ReplaceResourcesRequest> for Flow {
    fn from(request: wire::ReplaceResourcesRequest) -> Self {
        let wire::ReplaceResourcesRequest { old_resources, resources, lifecycle, push_on_render_failure } =
            request;
        Self::Replace(Replacement {
            old: old_resources,
            new: resources,
            lifecycle,
            push_on_failure: push_on_render_failure,
        })
    }
}

impl From<wire::PackageConfig> for PackageConfig {
    fn from(config: wire::PackageConfig) -> Self {
        let wire::PackageConfig { package_path, repository, namespace, deployment } = config;
        Self { package_path, repository, namespace, deployment }
    }
}

impl From<wire::KptfilePatch> for KptfilePatch {
    fn from(patch: wire::KptfilePatch) -> Self {
        let wire::KptfilePatch { labels, annotations, readiness_gates, conditions } = patch;
        Self {
            labels: labels.map(|labels| labels.entries),
            annotations: annotations.map(|annotations| annotations.entries),
            readiness_gates: readiness_gates.map(|gates| gates.condition_types),
            conditions: conditions.map(|conditions| conditions.items.into_iter().map(Into::into).collect()),
        }
    }
}

impl From<wire::Condition> for Condition {
    fn from(condition: wire::Condition) -> Self {
        let wire::Condition { r#type: condition_type, status, reason, message } = condition;
        Self { condition_type, status, reason, message }
    }
}

// === answers ===

impl From<Handled> for wire::RenderOutcome {
    fn from(handled: Handled) -> Self {
        let Handled { disposition, files, status, failure, warnings, task } = handled;
        let disposition = match disposition {
            Disposition::Push => render_outcome::Disposition::Push,
            Disposition::Keep => render_outcome::Disposition::Keep,
            Disposition::Discard => render_outcome::Disposition::Discard,
            Disposition::Unchanged => render_outcome::Disposition::Unchanged,
        };
        Self {
            disposition: disposition.into(),
            resources: files,
            render_status: status.as_ref().map(Into::into),
            error: failure.unwrap_or_default(),
            warnings,
            task: (!task.is_empty()).then_some(wire::Task { r#type: task }),
        }
    }
}

impl From<&RenderStatus> for wire::RenderStatus {
    fn from(status: &RenderStatus) -> Self {
        let result = wire::ResultList {
            kind: RenderStatus::KIND.to_owned(),
            api_version: RenderStatus::API_VERSION.to_owned(),
            metadata: Some(wire::ObjectName { name: RenderStatus::NAME.to_owned() }),
            exit_code: Some(status.result.exit_code),
            items: status.result.items.iter().map(Into::into).collect(),
        };
        Self { result: Some(result), error: Some(status.error.clone()) }
    }
}

impl From<&FunctionResult> for wire::FunctionRun {
    fn from(result: &FunctionResult) -> Self {
        let FunctionResult { image, exec, stderr, exit_code, results } = result;
        Self {
            image: image.clone(),
            exec: exec.clone(),
            stderr: stderr.clone(),
            exit_code: Some(*exit_code),
            results: results.0.iter().map(Into::into).collect(),
        }
    }
}

impl From<&ResultItem> for wire::ResultItem {
    fn from(item: &ResultItem) -> Self {
        let ResultItem { message, severity, resource_ref, field, file, tags } = item.clone();
        Self {
            message,
            severity: severity.map(|severity| severity.to_string()).unwrap_or_default(),
            resource_ref: resource_ref.map(|reference| {
                let ResourceRef { api_version, kind, name, namespace } = reference;
                wire::ResourceIdentifier { api_version, kind, name, namespace }
            }),
            field: field.map(|field| {
                let FieldRef { path, current_value, proposed_value } = field;
                let (current_value, proposed_value) =
                    (current_value.unwrap_or_default(), proposed_value.unwrap_or_default());
                wire::Field { path, current_value, proposed_value }
            }),
            file: file.map(|file| {
                let FileRef { path, index } = file;
                wire::File { path, index: i32::try_from(index).unwrap_or(i32::MAX) }
            }),
            tags,
        }
    }
}
