//! The variables of OpenTelemetry that Porch's manifests set, read as its libraries read them.
//!
//! One thing differs: without any of them nothing is exported, where the original would send to `localhost`
//! for ever.

/// What the variables ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// Where metrics are served, as `HOST:PORT`.
    pub metrics: Option<String>,
    /// What was asked for and is not done, for the log.
    pub warnings: Vec<String>,
}

/// A variable that cannot be meant.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable}: {reason}")]
pub struct Refusal {
    variable: &'static str,
    reason: String,
}

const METRICS_EXPORTER: &str = "OTEL_METRICS_EXPORTER";
const PROMETHEUS_HOST: &str = "OTEL_EXPORTER_PROMETHEUS_HOST";
const PROMETHEUS_PORT: &str = "OTEL_EXPORTER_PROMETHEUS_PORT";

// === impl Environment ===

impl Environment {
    /// Those of this process.
    pub fn here() -> Result<Self, Refusal> {
        Self::read(|name| std::env::var(name).ok())
    }

    fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, Refusal> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let mut environment = Self::default();
        if set("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(environment);
        }
        match set(METRICS_EXPORTER).as_deref() {
            None | Some("none") => {}
            Some("prometheus") => {
                let host = set(PROMETHEUS_HOST).unwrap_or_else(|| "localhost".to_owned());
                let port = set(PROMETHEUS_PORT).unwrap_or_else(|| "9464".to_owned());
                let port: u16 = port.parse().map_err(|_| Refusal {
                    variable: PROMETHEUS_PORT,
                    reason: format!("`{port}` is no port"),
                })?;
                let host = if host.contains(':') { format!("[{host}]") } else { host };
                environment.metrics = Some(format!("{host}:{port}"));
            }
            Some(other @ ("otlp" | "console")) => environment.warnings.push(format!(
                "{METRICS_EXPORTER}={other}: metrics are only served, not sent; set it to `prometheus`"
            )),
            Some(other) => {
                let reason = format!("there is no exporter `{other}`; there are prometheus and none");
                return Err(Refusal { variable: METRICS_EXPORTER, reason });
            }
        }
        Ok(environment)
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
        assert_eq!(error.to_string(), "OTEL_EXPORTER_PROMETHEUS_PORT: `x` is no port");
    }

    #[test]
    fn exporters_that_do_not_exist_are_refused_and_those_that_we_lack_are_told() {
        let error = read(&[("OTEL_METRICS_EXPORTER", "statsd")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "OTEL_METRICS_EXPORTER: there is no exporter `statsd`; there are prometheus and none"
        );
        let otlp = read(&[("OTEL_METRICS_EXPORTER", "otlp")]).unwrap();
        assert_eq!((otlp.metrics, otlp.warnings.len()), (None, 1));
    }
}
