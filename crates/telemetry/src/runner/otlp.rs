//! Prometheus' metric families as metrics of OTLP, the resource that they belong to, and the HTTP client.
//!
//! Names are those of `/metrics`: a collector that passes them on to Prometheus finds the suffixes there and
//! adds none.

use std::time::{SystemTime, UNIX_EPOCH};

use opentelemetry::Key;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AttributeValue;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, Sum,
};
use opentelemetry_sdk::Resource;
use prometheus_client::encoding::prometheus_protobuf::prometheus_data_model as prometheus;

pub(crate) const USER_AGENT: &str = concat!("loggia/", env!("CARGO_PKG_VERSION"));

const CUMULATIVE: i32 = AggregationTemporality::Cumulative as i32;

/// When counting began, and when the metrics were read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    start: u64,
    now: u64,
}

/// What the variables say that this program is; if they give it no name, `function-runner`.
pub(crate) fn resource() -> Resource {
    // The library lets a name among the attributes win over the variable for it; the specification does not.
    let name = std::env::var("OTEL_SERVICE_NAME").ok().filter(|name| !name.is_empty());
    let resource = Resource::builder();
    if let Some(name) = name {
        return resource.with_service_name(name).build();
    }
    let resource = resource.build();
    let name = resource.get(&Key::from_static_str("service.name"));
    if name.is_none_or(|name| name.as_str().starts_with("unknown_service")) {
        return Resource::builder().with_service_name("function-runner").build();
    }
    resource
}

/// A client that follows no redirects: headers may be secrets of the collector. Where the system has no CA
/// certificates it still reaches collectors without TLS.
pub(crate) fn http_client() -> Result<reqwest::Client, reqwest::Error> {
    let client =
        || reqwest::Client::builder().user_agent(USER_AGENT).redirect(reqwest::redirect::Policy::none());
    client().build().or_else(|_| client().tls_certs_only([]).build())
}

/// A family as a metric of OTLP, unless it is empty.
pub(crate) fn metric(family: prometheus::MetricFamily, times: Times) -> Option<Metric> {
    let (kind, unit) = (family.r#type(), unit(&family.name));
    let numbers = |value: fn(&prometheus::Metric) -> Option<f64>| -> Vec<_> {
        let point = |metric: &prometheus::Metric| Some(number(&metric.label, value(metric)?, unit, times));
        family.metric.iter().filter_map(point).collect()
    };
    let data = match kind {
        prometheus::MetricType::Counter => Data::Sum(Sum {
            data_points: numbers(|metric| Some(metric.counter.as_ref()?.value)),
            aggregation_temporality: CUMULATIVE,
            is_monotonic: true,
        }),
        prometheus::MetricType::Gauge => {
            Data::Gauge(Gauge { data_points: numbers(|metric| Some(metric.gauge.as_ref()?.value)) })
        }
        prometheus::MetricType::Histogram => {
            let point = |metric: &prometheus::Metric| {
                Some(distribution(&metric.label, metric.histogram.as_ref()?, times))
            };
            let data_points = family.metric.iter().filter_map(point).collect();
            Data::Histogram(Histogram { data_points, aggregation_temporality: CUMULATIVE })
        }
        _ => return None,
    };
    (!family.metric.is_empty()).then(|| Metric {
        name: family.name,
        description: family.help,
        unit: unit.to_owned(),
        metadata: vec![],
        data: Some(data),
    })
}

/// The unit that a metric's name ends with, as UCUM writes it.
fn unit(name: &str) -> &'static str {
    match name.trim_end_matches("_total").rsplit('_').next() {
        Some("seconds") => "s",
        Some("milliseconds") => "ms",
        Some("bytes") => "By",
        _ => "",
    }
}

/// Prometheus has floating-point numbers only. Seconds stay such even if they are whole; all else is a count.
fn number(labels: &[prometheus::LabelPair], value: f64, unit: &str, times: Times) -> NumberDataPoint {
    let whole = value as i64;
    let is_count = unit != "s" && whole as f64 == value;
    NumberDataPoint {
        attributes: attributes(labels),
        start_time_unix_nano: times.start,
        time_unix_nano: times.now,
        value: Some(if is_count { Value::AsInt(whole) } else { Value::AsDouble(value) }),
        ..NumberDataPoint::default()
    }
}

fn distribution(
    labels: &[prometheus::LabelPair],
    histogram: &prometheus::Histogram,
    times: Times,
) -> HistogramDataPoint {
    // A bucket of OTLP counts what is in no smaller one, one of Prometheus all that is below its bound.
    let mut smaller = 0;
    let own = |bucket: &prometheus::Bucket| {
        bucket.cumulative_count.saturating_sub(std::mem::replace(&mut smaller, bucket.cumulative_count))
    };
    let bounds = histogram.bucket.iter().map(|bucket| bucket.upper_bound);
    HistogramDataPoint {
        attributes: attributes(labels),
        start_time_unix_nano: times.start,
        time_unix_nano: times.now,
        count: histogram.sample_count,
        sum: Some(histogram.sample_sum),
        bucket_counts: histogram.bucket.iter().map(own).collect(),
        explicit_bounds: bounds.filter(|bound| bound.is_finite()).collect(),
        ..HistogramDataPoint::default()
    }
}

fn attributes(labels: &[prometheus::LabelPair]) -> Vec<KeyValue> {
    let attribute = |label: &prometheus::LabelPair| KeyValue {
        key: label.name.clone(),
        value: Some(AnyValue { value: Some(AttributeValue::StringValue(label.value.clone())) }),
        ..KeyValue::default()
    };
    labels.iter().map(attribute).collect()
}

// === impl Times ===

impl Times {
    pub(crate) fn since(start: SystemTime) -> Self {
        Self { start: nanoseconds(start), now: nanoseconds(SystemTime::now()) }
    }
}

fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use prometheus_client::encoding::EncodeLabelSet;
    use prometheus_client::metrics::counter::{ConstCounter, Counter};
    use prometheus_client::metrics::family::Family;
    use prometheus_client::metrics::gauge::{ConstGauge, Gauge as GaugeMetric};
    use prometheus_client::metrics::histogram::Histogram as HistogramMetric;
    use prometheus_client::registry::Registry;

    use super::*;

    const TIMES: Times = Times { start: 1, now: 2 };

    #[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
    struct Labels {
        x: &'static str,
        code: i32,
    }

    /// What is sent of a registry: a line for each metric, then one for each of its points, sorted by labels.
    fn sent(registry: &Registry) -> String {
        let families = prometheus_client::encoding::prometheus_protobuf::encode(registry).unwrap();
        families.into_iter().filter_map(|family| metric(family, TIMES)).map(|metric| shown(&metric)).collect()
    }

    fn shown(metric: &Metric) -> String {
        let Metric { name, description, unit, metadata, data } = metric;
        assert!(metadata.is_empty());
        let (kind, mut points) = match data.as_ref().unwrap() {
            Data::Gauge(gauge) => {
                ("gauge".to_owned(), gauge.data_points.iter().map(shown_number).collect::<Vec<_>>())
            }
            Data::Sum(sum) => {
                let kind = format!("sum {:?} monotonic={}", sum.aggregation_temporality(), sum.is_monotonic);
                (kind, sum.data_points.iter().map(shown_number).collect())
            }
            Data::Histogram(histogram) => {
                let kind = format!("histogram {:?}", histogram.aggregation_temporality());
                (kind, histogram.data_points.iter().map(shown_histogram).collect())
            }
            other => panic!("{other:?}"),
        };
        points.sort();
        let mut text = format!("{name} [{unit}] {kind}: {description}\n");
        points.iter().for_each(|point| writeln!(text, "  {point}").unwrap());
        text
    }

    fn shown_number(point: &NumberDataPoint) -> String {
        let NumberDataPoint { attributes, start_time_unix_nano, time_unix_nano, exemplars, flags, value } =
            point;
        assert!(exemplars.is_empty() && *flags == 0);
        format!("{{{}}} {start_time_unix_nano}..{time_unix_nano} {:?}", labels(attributes), value.unwrap())
    }

    fn shown_histogram(point: &HistogramDataPoint) -> String {
        let HistogramDataPoint { attributes, start_time_unix_nano, time_unix_nano, count, sum, .. } = point;
        let HistogramDataPoint { bucket_counts, explicit_bounds, exemplars, flags, min, max, .. } = point;
        assert!(exemplars.is_empty() && *flags == 0 && min.is_none() && max.is_none());
        let (labels, sum) = (labels(attributes), sum.unwrap());
        format!(
            "{{{labels}}} {start_time_unix_nano}..{time_unix_nano} {count} {sum} {bucket_counts:?} {explicit_bounds:?}"
        )
    }

    fn labels(attributes: &[KeyValue]) -> String {
        let shown = |pair: &KeyValue| match pair.value.as_ref().unwrap().value.as_ref().unwrap() {
            AttributeValue::StringValue(value) => format!("{}={value:?}", pair.key),
            other => panic!("{other:?}"),
        };
        attributes.iter().map(shown).collect::<Vec<_>>().join(",")
    }

    #[test]
    fn a_registry_is_sent_with_its_names_units_labels_and_buckets() {
        let mut registry = Registry::default();
        let calls: Family<Labels, Counter> = Family::default();
        calls.get_or_create(&Labels { x: "} \"q\" \\ \n,z=", code: -1 }).inc_by(3);
        calls.get_or_create(&Labels { x: "", code: 0 }).inc_by(4);
        drop(calls.get_or_create(&Labels { x: "ä", code: 16 }));
        registry.register("calls", "What happened", calls);
        // Seconds may have a fraction, so they are sent as if they had one also when they have none.
        registry.register("cpu_seconds", "Time", ConstCounter::new(2.0));
        let used = GaugeMetric::<i64>::default();
        used.set(-5);
        registry.register("used_bytes", "Memory", used);
        registry.register("start_time_seconds", "When", ConstGauge::new(1.75e9));
        registry.register("share", "A part", ConstGauge::new(0.25));
        let build: Family<Labels, GaugeMetric> = Family::default();
        build.get_or_create(&Labels { x: "1.2.3", code: 0 }).set(1);
        registry.register("build_info", "Which version", build);
        registry.register("never", "Nothing yet", Family::<Labels, Counter>::default());
        let bounds = || HistogramMetric::new([0.5, 1.0, 2.5]);
        let took = Family::<Labels, HistogramMetric>::new_with_constructor(bounds);
        for value in [0.5, 0.75, 1.0, 7.0, 8.25] {
            took.get_or_create(&Labels { x: "a", code: 0 }).observe(value);
        }
        drop(took.get_or_create(&Labels { x: "b", code: 0 }));
        registry.register("took_seconds", "How long", took);
        let pause = HistogramMetric::new([10.0]);
        pause.observe(1.5);
        registry.register("pause_milliseconds", "How long alone", pause);
        let expected = r#"
calls_total [] sum Cumulative monotonic=true: What happened.
  {x="",code="0"} 1..2 AsInt(4)
  {x="} \"q\" \\ \n,z=",code="-1"} 1..2 AsInt(3)
  {x="ä",code="16"} 1..2 AsInt(0)
cpu_seconds_total [s] sum Cumulative monotonic=true: Time.
  {} 1..2 AsDouble(2.0)
used_bytes [By] gauge: Memory.
  {} 1..2 AsInt(-5)
start_time_seconds [s] gauge: When.
  {} 1..2 AsDouble(1750000000.0)
share [] gauge: A part.
  {} 1..2 AsDouble(0.25)
build_info [] gauge: Which version.
  {x="1.2.3",code="0"} 1..2 AsInt(1)
took_seconds [s] histogram Cumulative: How long.
  {x="a",code="0"} 1..2 5 17.5 [1, 2, 0, 2] [0.5, 1.0, 2.5]
  {x="b",code="0"} 1..2 0 0 [0, 0, 0, 0] [0.5, 1.0, 2.5]
pause_milliseconds [ms] histogram Cumulative: How long alone.
  {} 1..2 1 1.5 [1, 0] [10.0]
"#;
        assert_eq!(sent(&registry), expected.trim_start());
    }
}
