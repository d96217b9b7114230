//! The file with the settings of single functions, in both forms that Porch has had.
//!
//! A list has one entry a function; a mapping, as older releases read it, has a time to live for each
//! image. An entry that cannot be used is named with its line and left out; the others count.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use loggia_yaml::{Node, ParseOptions};

use crate::blueprint::Resources;

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CacheConfig {
    /// In the order of the file; of two for one image the last counts.
    pub(crate) functions: Vec<FunctionSettings>,
    /// What is wrong, each with its line.
    pub(crate) problems: Vec<String>,
}

/// What the file says of one function. What it does not say is as the flags have it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FunctionSettings {
    pub(crate) name: String,
    pub(crate) ttl: Option<Duration>,
    pub(crate) max_waitlist_length: Option<usize>,
    pub(crate) max_parallel_pods_per_function: Option<usize>,
    pub(crate) min_pods_per_function: Option<usize>,
    pub(crate) resources: Resources,
}

/// One entry as it is read.
struct Entry<'a> {
    file: &'a str,
    problems: &'a mut Vec<String>,
}

// === impl CacheConfig ===

impl CacheConfig {
    /// Reads the file. Only text that is not YAML, or neither a list nor a mapping, is an error.
    pub(crate) fn parse(file: &str, text: &[u8]) -> Result<Self, String> {
        let document = loggia_yaml::parse_first_with(text, ParseOptions::default()).map_err(|error| {
            match error.line() {
                Some(line) => format!("{file}:{line}: {}", error.message()),
                None => format!("{file}: {}", error.message()),
            }
        })?;
        let mut config = Self::default();
        let Some(document) = document else { return Ok(config) };
        let root = &document.root;
        let mut problems = Vec::new();
        let mut entry = Entry { file, problems: &mut problems };
        if root.is_sequence() {
            config.functions = root.items().iter().filter_map(|item| entry.listed(item)).collect();
        } else if root.is_mapping() {
            let pairs = root.pairs().iter();
            config.functions = pairs.filter_map(|pair| entry.mapped(&pair.key, &pair.value)).collect();
        } else if !root.is_null() {
            return Err(format!(
                "{file}:{}: a list of functions, or a mapping from image to time to live, belongs here",
                root.line()
            ));
        }
        config.problems = problems;
        Ok(config)
    }
}

// === impl Entry ===

impl Entry<'_> {
    fn problem(&mut self, node: &Node, text: &str) {
        self.problems.push(format!("{}:{}: {text}", self.file, node.line()));
    }

    /// `{name, timeToLive, maxWaitlistLength, maxParallelPodsPerFunction, resources}`, in any case.
    fn listed(&mut self, node: &Node) -> Option<FunctionSettings> {
        if !node.is_mapping() {
            self.problem(node, "an entry is a mapping with `name`");
            return None;
        }
        let mut settings = FunctionSettings::default();
        let mut usable = true;
        for pair in node.pairs() {
            let Some(key) = pair.key.scalar() else { continue };
            let value = &pair.value;
            match key.to_ascii_lowercase().as_str() {
                "name" => match value.scalar() {
                    Some(name) if !value.is_null() => settings.name = name.to_owned(),
                    _ => {
                        self.problem(value, "`name` is the image of a function");
                        usable = false;
                    }
                },
                "timetolive" => settings.ttl = self.duration(key, value),
                "maxwaitlistlength" => settings.max_waitlist_length = self.number(key, value, &mut usable),
                "maxparallelpodsperfunction" => {
                    settings.max_parallel_pods_per_function = self.number(key, value, &mut usable);
                }
                "minpodsperfunction" => settings.min_pods_per_function = self.number(key, value, &mut usable),
                "resources" => settings.resources = self.resources(value, &mut usable),
                _ => {}
            }
        }
        if settings.name.is_empty() && usable {
            self.problem(node, "an entry without `name`: the image of a function belongs there");
            usable = false;
        }
        usable.then_some(settings)
    }

    fn mapped(&mut self, key: &Node, value: &Node) -> Option<FunctionSettings> {
        let Some(name) = key.scalar().filter(|name| !name.is_empty()) else {
            self.problem(key, "the image of a function belongs here");
            return None;
        };
        let ttl = self.duration(name, value);
        Some(FunctionSettings { name: name.to_owned(), ttl, ..Default::default() })
    }

    /// The flag counts for what is not a duration above zero.
    fn duration(&mut self, key: &str, node: &Node) -> Option<Duration> {
        if node.is_null() {
            return None;
        }
        let text = node.scalar().unwrap_or_default();
        match text.parse::<loggia_go::Duration>() {
            Ok(duration) => duration.positive(),
            Err(_) => {
                let text = format!(
                    "`{key}`: `{text}` is not a duration; write for instance `30m`; --pod-ttl counts until then"
                );
                self.problem(node, &text);
                None
            }
        }
    }

    /// The flag counts for zero and below.
    fn number(&mut self, key: &str, node: &Node, usable: &mut bool) -> Option<usize> {
        match node.as_i64() {
            Some(number) => usize::try_from(number).ok().filter(|number| *number > 0),
            None if node.is_null() => None,
            None => {
                self.problem(node, &format!("`{key}` is a number; this function's entry is left out"));
                *usable = false;
                None
            }
        }
    }

    fn resources(&mut self, node: &Node, usable: &mut bool) -> Resources {
        let mut resources = Resources::default();
        for pair in node.pairs() {
            match pair.key.scalar().unwrap_or_default().to_ascii_lowercase().as_str() {
                "requests" => resources.requests = self.quantities(&pair.value, usable),
                "limits" => resources.limits = self.quantities(&pair.value, usable),
                _ => {}
            }
        }
        if !node.is_mapping() && !node.is_null() {
            self.problem(node, "`resources` has `requests` and `limits`; this function's entry is left out");
            *usable = false;
        }
        resources
    }

    fn quantities(&mut self, node: &Node, usable: &mut bool) -> Option<BTreeMap<String, Quantity>> {
        let mut quantities = BTreeMap::new();
        for pair in node.pairs() {
            let amount = pair.value.scalar().filter(|text| is_quantity(text));
            match (pair.key.scalar(), amount) {
                (Some(name), Some(amount)) => {
                    quantities.insert(name.to_owned(), Quantity(amount.to_owned()));
                }
                (name, _) => {
                    let name = name.unwrap_or_default();
                    let text = format!(
                        "`{name}` is an amount such as `100m` or `64Mi`; this function's entry is left out"
                    );
                    self.problem(&pair.value, &text);
                    *usable = false;
                }
            }
        }
        (!quantities.is_empty()).then_some(quantities)
    }
}

/// What Kubernetes takes as an amount: a number, and a unit or an exponent.
fn is_quantity(text: &str) -> bool {
    let digits = text.trim_start_matches(['+', '-']);
    let end = digits.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(digits.len());
    let (number, unit) = digits.split_at(end);
    let exponent = |rest: &str| rest.trim_start_matches(['+', '-']).parse::<u32>().is_ok();
    let known = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    number.parse::<f64>().is_ok()
        && (known.contains(&unit) || unit.strip_prefix(['e', 'E']).is_some_and(exponent))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> CacheConfig {
        CacheConfig::parse("f.yaml", text.as_bytes()).unwrap()
    }

    #[test]
    fn a_list_has_an_entry_a_function_in_keys_of_any_case() {
        let config = read(
            "- name: x.io/f:v1\n  timeToLive: 10m\n  maxWaitlistLength: 3\n  MAXPARALLELPODSPERFUNCTION: 4\n  \
             resources: {requests: {cpu: 100m}, limits: {memory: 64Mi}}\n- name: x.io/g\n  timeToLive: 0\n",
        );
        assert_eq!(config.problems, [""; 0]);
        let f = &config.functions[0];
        assert_eq!(
            (f.max_waitlist_length, f.max_parallel_pods_per_function, f.ttl),
            (Some(3), Some(4), Some(Duration::from_secs(600)))
        );
        assert_eq!(f.resources.requests.as_ref().unwrap()["cpu"], Quantity("100m".into()));
        assert_eq!(f.resources.limits.as_ref().unwrap()["memory"], Quantity("64Mi".into()));
        assert_eq!(config.functions[1], FunctionSettings { name: "x.io/g".into(), ..Default::default() });
    }

    #[test]
    fn a_mapping_has_times_to_live() {
        let config = read("x.io/f:v1: 10m\nx.io/g: 30 min\n");
        assert_eq!(config.functions[0].ttl, Some(Duration::from_secs(600)));
        assert_eq!(config.functions[1].ttl, None);
        assert_eq!(
            config.problems,
            [
                "f.yaml:2: `x.io/g`: `30 min` is not a duration; write for instance `30m`; --pod-ttl counts until then"
            ]
        );
    }

    #[test]
    fn a_bad_entry_is_named_by_its_line_and_the_others_stay() {
        let config = read(
            "- name: good\n- maxWaitlistLength: 2\n- name: f\n  maxWaitlistLength: two\n- 7\n- name: h\n  \
             resources: {limits: {cpu: much}}\n- name: also-good\n  timeToLive: 5\n",
        );
        let names: Vec<_> = config.functions.iter().map(|function| function.name.as_str()).collect();
        assert_eq!(names, ["good", "also-good"]);
        let lines: Vec<_> =
            config.problems.iter().map(|problem| problem.split(' ').next().unwrap()).collect();
        assert_eq!(lines, ["f.yaml:2:", "f.yaml:4:", "f.yaml:5:", "f.yaml:7:", "f.yaml:9:"]);
    }

    #[test]
    fn a_file_of_another_form_is_refused_as_a_whole() {
        assert_eq!(
            CacheConfig::parse("f.yaml", b"just text").unwrap_err(),
            "f.yaml:1: a list of functions, or a mapping from image to time to live, belongs here"
        );
        assert!(CacheConfig::parse("f.yaml", b"- [").unwrap_err().starts_with("f.yaml:"));
        assert_eq!(CacheConfig::parse("f.yaml", b""), Ok(CacheConfig::default()));
    }
}
