//! Kubernetes manifests with their writers' habits.

use std::fmt::Write;

use super::Writer;

impl Writer {
    pub(super) fn manifests(&mut self) {
        self.gap(0);
        let documents = 1 + self.random.below(10) / 7 * (1 + self.random.below(3));
        for document in 0..documents {
            if document > 0 || self.random.chance(15) {
                self.out.push_str("---");
                if self.random.chance(self.comments / 4) {
                    self.out.push_str(" # next");
                }
                self.out.push('\n');
            }
            if self.random.chance(20) {
                self.license();
            }
            self.manifest();
        }
    }

    pub(super) fn license(&mut self) {
        for line in 0..1 + self.random.below(4) {
            writeln!(self.out, "# Copyright line {line}").expect("text");
        }
        if self.random.chance(70) {
            self.out.push('\n');
        }
    }

    /// `key: value`, a line of its own at `indent`.
    pub(super) fn line(&mut self, indent: usize, key: &str, value: &str) {
        self.gap(indent);
        self.spaces(indent);
        self.out.push_str(key);
        self.out.push(':');
        if !value.is_empty() {
            self.out.push(' ');
            self.out.push_str(value);
        }
        self.end_line();
    }

    pub(super) fn manifest(&mut self) {
        let wide = self.random.chance(50);
        let step = if self.random.chance(self.oddity) { 4 } else { 2 };
        let kind = self.random.pick(&["Deployment", "Service", "ConfigMap", "Custom"]);
        self.line(0, "apiVersion", if kind == "Deployment" { "apps/v1" } else { "v1" });
        self.line(0, "kind", kind);
        self.line(0, "metadata", "");
        let name = self.value_text();
        self.line(step, "name", &name);
        for field in ["labels", "annotations"] {
            if self.random.chance(50) {
                self.line(step, field, "");
                for number in 0..1 + self.random.below(3) {
                    let (word, value) = (self.word(), self.value_text());
                    self.line(2 * step, &format!("{word}.example.com/{number}"), &value);
                }
            }
        }
        match kind {
            "Deployment" => self.deployment(step, wide),
            "Service" => self.service(step, wide),
            "ConfigMap" => self.config_map(step),
            _ => {
                self.line(0, "spec", "");
                self.mapping(step, 1);
            }
        }
        if self.random.chance(10) {
            self.gap(0);
        }
    }

    /// A scalar as a person writes one into a manifest.
    pub(super) fn value_text(&mut self) -> String {
        let word = self.word();
        match self.random.below(12) {
            0 => format!("\"{word}\""),
            1 => format!("'{word}'"),
            2 => self.random.below(65_536).to_string(),
            3 => "\"true\"".into(),
            4 => "true".into(),
            5 => format!("\"{}\"", self.random.below(100)),
            6 => format!("gcr.io/{word}/image:v1.{}", self.random.below(10)),
            7 => format!("{word} with spaces, and more"),
            8 if self.random.chance(20) => String::new(),
            _ => format!("{word}-{}", self.random.below(1000)),
        }
    }

    pub(super) fn deployment(&mut self, step: usize, wide: bool) {
        let shift = if wide { 2 } else { 0 };
        let replicas = self.random.below(9).to_string();
        self.line(0, "spec", "");
        self.line(step, "replicas", &replicas);
        self.line(step, "selector", "{matchLabels: {app: x}}");
        self.line(step, "template", "");
        self.line(2 * step, "spec", "");
        self.line(3 * step, "containers", "");
        let dash = 3 * step + shift;
        for number in 0..1 + self.random.below(2) {
            self.gap(dash);
            self.spaces(dash);
            write!(self.out, "- name: c{number}").expect("text");
            self.end_line();
            let image = self.value_text();
            self.line(dash + 2, "image", &image);
            self.command(dash + 2, shift);
            self.line(dash + 2, "ports", "");
            self.gap(dash + 2 + shift);
            self.spaces(dash + 2 + shift);
            write!(self.out, "- containerPort: {}", self.random.below(9000)).expect("text");
            self.end_line();
            self.line(dash + 4 + shift, "protocol", "TCP");
            if self.random.chance(40) {
                self.line(dash + 2, "resources", "{limits: {cpu: 100m, memory: \"128Mi\"}, requests: {}}");
            }
        }
    }

    pub(super) fn command(&mut self, indent: usize, shift: usize) {
        match self.random.below(3) {
            0 => self.line(indent, "args", "[\"--flag=1\", '-v', plain,   \"a b\"]"),
            1 => {
                self.line(indent, "args", "");
                for _ in 0..1 + self.random.below(3) {
                    self.gap(indent + shift);
                    self.spaces(indent + shift);
                    let value = self.value_text();
                    write!(self.out, "- {value}").expect("text");
                    self.end_line();
                }
            }
            _ => {}
        }
    }

    pub(super) fn service(&mut self, step: usize, wide: bool) {
        let shift = if wide { 2 } else { 0 };
        self.line(0, "spec", "");
        self.line(step, "ports", "");
        for _ in 0..1 + self.random.below(2) {
            self.gap(step + shift);
            self.spaces(step + shift);
            write!(self.out, "- port: {}", self.random.below(9000)).expect("text");
            self.end_line();
            self.line(step + shift + 2, "targetPort", "http");
        }
        self.line(step, "selector", "");
        self.line(2 * step, "app", "x");
    }

    pub(super) fn config_map(&mut self, step: usize) {
        self.line(0, "data", "");
        for number in 0..1 + self.random.below(3) {
            if self.random.chance(60) {
                self.gap(step);
                self.spaces(step);
                write!(self.out, "file{number}.conf: ").expect("text");
                self.block_scalar(step);
            } else {
                let value = self.value_text();
                self.line(step, &format!("key{number}"), &value);
            }
        }
    }
}
