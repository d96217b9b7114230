//! The targets.

mod docker_config;
mod frames;
mod functions;
mod image;
mod kptfile;
mod package;
mod printable;
mod registry;
mod request;
mod yaml;

use crate::Target;

/// Every target.
pub static TARGETS: &[Target] = &[
    Target { name: "docker-config", run: docker_config::run, longest: 16 << 10 },
    Target { name: "frames", run: frames::run, longest: 4 << 10 },
    Target { name: "functions", run: functions::run, longest: 8 << 10 },
    Target { name: "image", run: image::run, longest: 1 << 10 },
    Target { name: "kptfile", run: kptfile::run, longest: 16 << 10 },
    Target { name: "package", run: package::run, longest: 8 << 10 },
    Target { name: "printable", run: printable::run, longest: 4 << 10 },
    Target { name: "registry", run: registry::run, longest: 16 << 10 },
    Target { name: "request", run: request::run, longest: 16 << 10 },
    Target { name: "resource-list", run: functions::run_text, longest: 16 << 10 },
    Target { name: "yaml", run: yaml::run, longest: 16 << 10 },
];
