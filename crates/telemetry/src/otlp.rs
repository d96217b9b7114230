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
    use super::*;

    const TIMES: Times = Times { start: 1, now: 2 };

    fn values(metric: &Metric) -> Vec<(String, Value)> {
        let points = match metric.data.as_ref().unwrap() {
            Data::Sum(sum) => &sum.data_points,
            Data::Gauge(gauge) => &gauge.data_points,
            other => panic!("{other:?}"),
        };
        points.iter().map(|point| (labels(&point.attributes), point.value.unwrap())).collect()
    }

    fn labels(attributes: &[KeyValue]) -> String {
        let shown = |pair: &KeyValue| match pair.value.as_ref().unwrap().value.as_ref().unwrap() {
            AttributeValue::StringValue(value) => format!("{}={value};", pair.key),
            other => panic!("{other:?}"),
        };
        attributes.iter().map(shown).collect()
    }

    #[test]
    fn counters_are_sums_and_gauges_are_gauges_with_their_labels_as_they_were() {
        let text = concat!(
            "# HELP a What happened.\n# TYPE a counter\n",
            "a_total{x=\"1\",y=\"} \\\"q\\\" \\\\ \\n,z=\"} 3\na_total{x=\"\",y=\"ä\"} 4\n",
            "# HELP used_bytes Memory.\n# TYPE used_bytes gauge\nused_bytes -5\n",
            "# HELP cpu_seconds Time.\n# TYPE cpu_seconds counter\ncpu_seconds_total 2.0\n",
            "# HELP none Nothing.\n# TYPE none gauge\n# EOF\n",
        );
        let found = metrics(text, TIMES);
        let shown: Vec<_> =
            found.iter().map(|m| (m.name.as_str(), m.unit.as_str(), m.description.as_str())).collect();
        let expected = [
            ("a_total", "", "What happened."),
            ("used_bytes", "By", "Memory."),
            ("cpu_seconds_total", "s", "Time."),
        ];
        assert_eq!(shown, expected);
        let a = [
            ("x=1;y=} \"q\" \\ \n,z=;".to_owned(), Value::AsInt(3)),
            ("x=;y=ä;".to_owned(), Value::AsInt(4)),
        ];
        assert_eq!(values(&found[0]), a);
        assert_eq!(values(&found[1]), [(String::new(), Value::AsInt(-5))]);
        // A figure that may have a fraction is one also when it has none.
        assert_eq!(values(&found[2]), [(String::new(), Value::AsDouble(2.0))]);
        let Some(Data::Sum(sum)) = &found[0].data else { panic!("{found:?}") };
        assert!(sum.is_monotonic && sum.aggregation_temporality == CUMULATIVE);
        assert_eq!((sum.data_points[0].start_time_unix_nano, sum.data_points[0].time_unix_nano), (1, 2));
    }

    #[test]
    fn a_bucket_holds_what_is_in_no_smaller_one() {
        let lines = |label: &str, comma: &str, counts: [u64; 3]| {
            let [one, two, all] = counts;
            format!(
                "t_seconds_sum{{{label}}} 7.5\nt_seconds_count{{{label}}} {all}\n\
                 t_seconds_bucket{{le=\"0.5\"{comma}{label}}} {one}\n\
                 t_seconds_bucket{{le=\"1.0\"{comma}{label}}} {two}\n\
                 t_seconds_bucket{{le=\"+Inf\"{comma}{label}}} {all}\n"
            )
        };
        let text = format!(
            "# HELP t_seconds Time.\n# TYPE t_seconds histogram\n{}{}# EOF\n",
            lines("image=\"a\"", ",", [1, 3, 6]),
            lines("image=\"b\"", ",", [0, 0, 2]),
        );
        let found = metrics(&text, TIMES);
        let [Metric { data: Some(Data::Histogram(histogram)), .. }] = &*found else { panic!("{found:?}") };
        let points: Vec<_> = histogram
            .data_points
            .iter()
            .map(|point| {
                assert_eq!(point.explicit_bounds, [0.5, 1.0]);
                (labels(&point.attributes), point.count, point.sum, point.bucket_counts.clone())
            })
            .collect();
        let expected = [
            ("image=a;".to_owned(), 6, Some(7.5), vec![1, 2, 3]),
            ("image=b;".to_owned(), 2, Some(7.5), vec![0, 0, 2]),
        ];
        assert_eq!(points, expected);
        assert_eq!(histogram.aggregation_temporality, CUMULATIVE);
    }
}
