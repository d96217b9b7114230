//! The families of `/metrics` as messages of OTLP; whose they are, and who carries them over HTTP.
//!
//! They are read from the text that Prometheus gets, so both always show the same. Names stay as they are
//! documented: a collector that passes them on to Prometheus finds their suffixes there and adds none.

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

pub(crate) const USER_AGENT: &str = concat!("loggia/", env!("CARGO_PKG_VERSION"));

const CUMULATIVE: i32 = AggregationTemporality::Cumulative as i32;

/// When counting began, and when it was looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    start: u64,
    now: u64,
}

/// A line of the text form.
struct Sample<'a> {
    name: &'a str,
    labels: Vec<(&'a str, String)>,
    value: &'a str,
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
    match name.is_none_or(|name| name.as_str().starts_with("unknown_service")) {
        true => Resource::builder().with_service_name("function-runner").build(),
        false => resource,
    }
}

/// What carries messages over HTTP, and nowhere but to the collector: headers may be secrets. Where the system
/// has no authorities it still reaches collectors that need none.
pub(crate) fn http_client() -> Result<reqwest::Client, reqwest::Error> {
    let client =
        || reqwest::Client::builder().user_agent(USER_AGENT).redirect(reqwest::redirect::Policy::none());
    client().build().or_else(|_| client().tls_certs_only([]).build())
}

/// The families of a text in the form of OpenMetrics that have figures.
pub(crate) fn metrics(text: &str, times: Times) -> Vec<Metric> {
    let mut metrics: Vec<Metric> = Vec::new();
    let mut help = "";
    for line in text.lines() {
        if let Some(line) = line.strip_prefix("# HELP ") {
            help = line.split_once(' ').map_or("", |(_, help)| help);
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' '))
        {
            metrics.push(family(name, kind, help));
        } else if let (Some(sample), Some(metric)) = (Sample::read(line), metrics.last_mut()) {
            add(metric, sample, times);
        }
    }
    metrics.retain(|metric| match &metric.data {
        Some(Data::Sum(sum)) => !sum.data_points.is_empty(),
        Some(Data::Gauge(gauge)) => !gauge.data_points.is_empty(),
        Some(Data::Histogram(histogram)) => !histogram.data_points.is_empty(),
        _ => false,
    });
    metrics
}

fn family(name: &str, kind: &str, help: &str) -> Metric {
    let data = match kind {
        "counter" => {
            Data::Sum(Sum { data_points: vec![], aggregation_temporality: CUMULATIVE, is_monotonic: true })
        }
        "histogram" => {
            Data::Histogram(Histogram { data_points: vec![], aggregation_temporality: CUMULATIVE })
        }
        _ => Data::Gauge(Gauge { data_points: vec![] }),
    };
    let unit = match name.rsplit('_').next() {
        Some("seconds") => "s",
        Some("milliseconds") => "ms",
        Some("bytes") => "By",
        _ => "",
    };
    let suffix = if kind == "counter" { "_total" } else { "" };
    Metric {
        name: format!("{name}{suffix}"),
        description: help.to_owned(),
        unit: unit.to_owned(),
        metadata: vec![],
        data: Some(data),
    }
}

fn add(metric: &mut Metric, sample: Sample<'_>, times: Times) {
    match &mut metric.data {
        Some(Data::Sum(sum)) => sum.data_points.extend(sample.number(times)),
        Some(Data::Gauge(gauge)) => gauge.data_points.extend(sample.number(times)),
        Some(Data::Histogram(histogram)) => {
            let part = sample.name.strip_prefix(&*metric.name).unwrap_or_default();
            add_part(&mut histogram.data_points, part, sample, times);
        }
        _ => {}
    }
}

/// One line of a histogram. All lines with the same labels stand together.
fn add_part(points: &mut Vec<HistogramDataPoint>, part: &str, mut sample: Sample<'_>, times: Times) {
    let bound = sample.labels.iter().position(|(key, _)| *key == "le");
    let bound = bound.map(|at| sample.labels.remove(at).1);
    let attributes = sample.attributes();
    if points.last().is_none_or(|point| point.attributes != attributes) {
        points.push(HistogramDataPoint {
            attributes,
            start_time_unix_nano: times.start,
            time_unix_nano: times.now,
            ..HistogramDataPoint::default()
        });
    }
    let Some(point) = points.last_mut() else { return };
    match (part, bound) {
        ("_sum", None) => point.sum = sample.value.parse().ok(),
        ("_count", None) => point.count = sample.value.parse().unwrap_or_default(),
        ("_bucket", Some(bound)) => {
            // Here a bucket holds what is in no smaller one, there all that is below its bound.
            let smaller: u64 = point.bucket_counts.iter().sum();
            let below: u64 = sample.value.parse().unwrap_or_default();
            point.bucket_counts.push(below.saturating_sub(smaller));
            point.explicit_bounds.extend(bound.parse().ok().filter(|bound: &f64| bound.is_finite()));
        }
        _ => {}
    }
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

// === impl Sample ===

impl<'a> Sample<'a> {
    /// Nothing if the line is none of a figure.
    fn read(line: &'a str) -> Option<Self> {
        let (name, mut rest) = line.split_at(line.find(['{', ' '])?);
        if name.starts_with('#') {
            return None;
        }
        let mut labels = Vec::new();
        if let Some(inside) = rest.strip_prefix('{') {
            rest = inside;
            while !rest.starts_with('}') {
                let (key, quoted) = rest.split_once("=\"")?;
                let (value, after) = unquoted(quoted)?;
                labels.push((key, value));
                rest = after.strip_prefix(',').unwrap_or(after);
            }
            rest = rest.strip_prefix('}')?;
        }
        Some(Self { name, labels, value: rest.split_whitespace().next()? })
    }

    fn number(&self, times: Times) -> Option<NumberDataPoint> {
        let value = match self.value.parse() {
            Ok(whole) => Value::AsInt(whole),
            Err(_) => Value::AsDouble(self.value.parse().ok()?),
        };
        Some(NumberDataPoint {
            attributes: self.attributes(),
            start_time_unix_nano: times.start,
            time_unix_nano: times.now,
            value: Some(value),
            ..NumberDataPoint::default()
        })
    }

    fn attributes(&self) -> Vec<KeyValue> {
        let attribute = |(key, value): &(&str, String)| KeyValue {
            key: (*key).to_owned(),
            value: Some(AnyValue { value: Some(AttributeValue::StringValue(value.clone())) }),
            ..KeyValue::default()
        };
        self.labels.iter().map(attribute).collect()
    }
}

/// A value up to its closing quote, and what follows.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.chars();
    loop {
        match chars.next()? {
            '"' => return Some((value, chars.as_str())),
            '\\' => value.push(match chars.next()? {
                'n' => '\n',
                other => other,
            }),
            other => value.push(other),
        }
    }
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
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
        metrics(&text, TIMES).iter().map(shown).collect()
    }

    fn shown(metric: &Metric) -> String {
        let Metric { name, description, unit, metadata, data } = metric;
        assert!(metadata.is_empty());
        let (kind, mut points) = match data.as_ref().unwrap() {
            Data::Gauge(gauge) => {
                ("gauge".to_owned(), gauge.data_points.iter().map(number).collect::<Vec<_>>())
            }
            Data::Sum(sum) => {
                let kind = format!("sum {:?} monotonic={}", sum.aggregation_temporality(), sum.is_monotonic);
                (kind, sum.data_points.iter().map(number).collect())
            }
            Data::Histogram(histogram) => {
                let kind = format!("histogram {:?}", histogram.aggregation_temporality());
                (kind, histogram.data_points.iter().map(distribution).collect())
            }
            other => panic!("{other:?}"),
        };
        points.sort();
        let mut text = format!("{name} [{unit}] {kind}: {description}\n");
        points.iter().for_each(|point| writeln!(text, "  {point}").unwrap());
        text
    }

    fn number(point: &NumberDataPoint) -> String {
        let NumberDataPoint { attributes, start_time_unix_nano, time_unix_nano, exemplars, flags, value } =
            point;
        assert!(exemplars.is_empty() && *flags == 0);
        format!("{{{}}} {start_time_unix_nano}..{time_unix_nano} {:?}", labels(attributes), value.unwrap())
    }

    fn distribution(point: &HistogramDataPoint) -> String {
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
        calls.get_or_create(&Labels { x: "ä", code: 16 });
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
        took.get_or_create(&Labels { x: "b", code: 0 });
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
