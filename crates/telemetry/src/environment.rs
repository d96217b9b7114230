//! The variables of OpenTelemetry that Porch's manifests set, read as its libraries read them.
//!
//! One thing differs: without any of them nothing is exported, where the original would send to `localhost`.

use crate::runner::push::{self, Settings};

/// The value of a variable that is set and not empty.
pub(crate) type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// What the variables ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// Where metrics are served, as `HOST:PORT`.
    pub metrics: Option<String>,
    /// Where metrics are sent, if they are.
    pub push: Option<Settings>,
    /// Where traces are sent, if they are.
    pub traces: Option<Traces>,
    /// What was asked for and is not done, for the log.
    pub warnings: Vec<String>,
}

/// How traces are sent. Where to, with which headers and as whose, the exporter reads from the variables itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traces {
    Http,
    Grpc,
    /// Only written to standard output.
    Console,
}

/// A variable whose value cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable}: {reason}")]
pub struct Refusal {
    variable: &'static str,
    reason: String,
}

const METRICS_EXPORTER: &str = "OTEL_METRICS_EXPORTER";
const TRACES_EXPORTER: &str = "OTEL_TRACES_EXPORTER";
const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
const TRACES_PROTOCOL: &str = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL";
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];
const PROMETHEUS_HOST: &str = "OTEL_EXPORTER_PROMETHEUS_HOST";
const PROMETHEUS_PORT: &str = "OTEL_EXPORTER_PROMETHEUS_PORT";

// === impl Environment ===

impl Environment {
    /// Those of this process.
    pub fn here() -> Result<Self, Refusal> {
        Self::read(|name| std::env::var(name).ok())
    }

    pub(crate) fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, Refusal> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let mut environment = Self::default();
        if set("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(environment);
        }
        match set(METRICS_EXPORTER).as_deref() {
            Some("none") => {}
            Some("prometheus") => {
                let host = set(PROMETHEUS_HOST).unwrap_or_else(|| "localhost".to_owned());
                let port = set(PROMETHEUS_PORT).unwrap_or_else(|| "9464".to_owned());
                let port: u16 = port.parse().map_err(|_| Refusal {
                    variable: PROMETHEUS_PORT,
                    reason: format!("invalid port `{port}`"),
                })?;
                let host = if host.contains(':') { format!("[{host}]") } else { host };
                environment.metrics = Some(format!("{host}:{port}"));
            }
            exporter @ (None | Some("otlp" | "console")) => {
                environment.push = push::settings(exporter, &set, &mut environment.warnings)?;
            }
            Some(other) => {
                return Err(Refusal::unknown(
                    METRICS_EXPORTER,
                    "exporter",
                    other,
                    "`prometheus`, `otlp`, `console` or `none`",
                ));
            }
        }
        let otlp =
            || is_grpc(&set, TRACES_PROTOCOL).map(|grpc| if grpc { Traces::Grpc } else { Traces::Http });
        environment.traces = match set(TRACES_EXPORTER).as_deref() {
            Some("otlp") => Some(otlp()?),
            // As with metrics.
            None if ENDPOINTS.into_iter().any(|name| set(name).is_some()) => Some(otlp()?),
            None | Some("none") => None,
            Some("console") => Some(Traces::Console),
            Some(other) => {
                return Err(Refusal::unknown(
                    TRACES_EXPORTER,
                    "exporter",
                    other,
                    "`otlp`, `console` or `none`",
                ));
            }
        };
        Ok(environment)
    }
}

// === impl Refusal ===

impl Refusal {
    fn unknown(variable: &'static str, what: &str, value: &str, expected: &str) -> Self {
        Self { variable, reason: format!("unknown {what} `{value}`; expected {expected}") }
    }
}

/// Whether a signal goes over gRPC: its own variable says so, or else that of all.
pub(crate) fn is_grpc(set: Variables<'_>, own: &'static str) -> Result<bool, Refusal> {
    let variable = if set(own).is_some() { own } else { PROTOCOL };
    match set(variable).as_deref() {
        None | Some("http/protobuf") => Ok(false),
        Some("grpc") => Ok(true),
        Some(other) => Err(Refusal::unknown(variable, "protocol", other, "`http/protobuf` or `grpc`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Environment, Refusal> {
        let find =
            |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        Environment::read(find)
    }

    #[test]
    fn without_variables_nothing_is_exported() {
        assert_eq!(read(&[]), Ok(Environment::default()));
        assert_eq!(read(&[("OTEL_METRICS_EXPORTER", "none")]), Ok(Environment::default()));
        let disabled = [("OTEL_SDK_DISABLED", "TRUE"), ("OTEL_METRICS_EXPORTER", "prometheus")];
        assert_eq!(read(&disabled), Ok(Environment::default()));
    }

    #[test]
    fn metrics_are_served_where_the_variables_say() {
        let at = |pairs: &[(&str, &str)]| {
            let mut all = vec![("OTEL_METRICS_EXPORTER", "prometheus")];
            all.extend(pairs);
            read(&all).map(|environment| environment.metrics.unwrap())
        };
        assert_eq!(at(&[]).unwrap(), "localhost:9464");
        let pairs = [("OTEL_EXPORTER_PROMETHEUS_HOST", "0.0.0.0"), ("OTEL_EXPORTER_PROMETHEUS_PORT", "99")];
        assert_eq!(at(&pairs).unwrap(), "0.0.0.0:99");
        assert_eq!(at(&[("OTEL_EXPORTER_PROMETHEUS_HOST", "::")]).unwrap(), "[::]:9464");
        let error = at(&[("OTEL_EXPORTER_PROMETHEUS_PORT", "x")]).unwrap_err();
        assert_eq!(error.to_string(), "OTEL_EXPORTER_PROMETHEUS_PORT: invalid port `x`");
    }

    #[test]
    fn traces_are_sent_only_with_an_exporter_or_an_endpoint() {
        let traces = |pairs: &[(&str, &str)]| read(pairs).map(|environment| environment.traces);
        assert_eq!(traces(&[("OTEL_SERVICE_NAME", "x")]), Ok(None));
        assert_eq!(
            traces(&[("OTEL_TRACES_EXPORTER", "none"), ("OTEL_EXPORTER_OTLP_ENDPOINT", "x")]),
            Ok(None)
        );
        assert_eq!(traces(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "x")]), Ok(Some(Traces::Http)));
        assert_eq!(traces(&[("OTEL_TRACES_EXPORTER", "console")]), Ok(Some(Traces::Console)));
        let all = [
            ("OTEL_TRACES_EXPORTER", "otlp"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc"),
        ];
        assert_eq!(traces(&all), Ok(Some(Traces::Grpc)));
        for pair in [
            ("OTEL_TRACES_EXPORTER", "zipkin"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"),
        ] {
            let error = traces(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "x"), pair]).unwrap_err();
            assert!(error.to_string().starts_with(&format!("{}: unknown ", pair.0)), "{error}");
        }
    }

    #[test]
    fn exporters_that_do_not_exist_are_refused() {
        let error = read(&[("OTEL_METRICS_EXPORTER", "statsd")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "OTEL_METRICS_EXPORTER: unknown exporter `statsd`; expected `prometheus`, `otlp`, `console` or `none`"
        );
    }
}
