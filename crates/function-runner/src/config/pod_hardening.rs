//! What function pods run, may use and are kept from.

use std::collections::BTreeMap;

use loggia_pods::{PodResources, UserNamespaces};

use super::{UsageError, unknown};
use crate::flags::PodHardeningFlags;

/// The resources that a flag may name.
const RESOURCES: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// What the flags say.
#[derive(Debug)]
pub(super) struct PodHardening {
    pub(super) max_pods: Option<usize>,
    pub(super) resources: PodResources,
    pub(super) image_by_tag: bool,
    pub(super) keep_capabilities: bool,
    pub(super) user_namespaces: UserNamespaces,
}

// === impl PodHardening ===

impl PodHardening {
    pub(super) fn resolve(flags: &PodHardeningFlags) -> Result<Self, UsageError> {
        let PodHardeningFlags {
            max_pods,
            pod_requests,
            pod_limits,
            pod_image_by_tag,
            pod_keep_capabilities,
            pod_user_namespaces,
        } = flags;
        Ok(Self {
            max_pods: usize::try_from(*max_pods).ok().filter(|most| *most > 0),
            resources: resources(pod_requests, pod_limits)?,
            image_by_tag: *pod_image_by_tag,
            keep_capabilities: *pod_keep_capabilities,
            user_namespaces: match pod_user_namespaces.as_str() {
                "auto" => UserNamespaces::Auto,
                "on" => UserNamespaces::On,
                "off" => UserNamespaces::Off,
                other => return Err(unknown("pod-user-namespaces", other, "auto, on and off")),
            },
        })
    }
}

/// Every pod with a request above its limit would be refused, so that is a mistake at the start.
fn resources(requests: &str, limits: &str) -> Result<PodResources, UsageError> {
    let requests = amounts("pod-requests", requests)?;
    let limits = amounts("pod-limits", limits)?;
    for (name, request) in &requests {
        if let Some(limit) = limits.get(name).filter(|limit| number(limit) < number(request)) {
            let reason = format!("it is more than the {limit} of --pod-limits");
            let value = format!("{name}={request}");
            return Err(UsageError::PodResource { flag: "pod-requests", value, reason });
        }
    }
    Ok(PodResources { requests, limits })
}

/// `NAME=AMOUNT,NAME=AMOUNT`, as `kubectl set resources` takes it.
fn amounts(flag: &'static str, text: &str) -> Result<BTreeMap<String, String>, UsageError> {
    let mut amounts = BTreeMap::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let wrong = |reason: String| UsageError::PodResource { flag, value: part.to_owned(), reason };
        let (name, amount) = part.split_once('=').ok_or_else(|| wrong("it has no `=`".to_owned()))?;
        if !RESOURCES.contains(&name) {
            return Err(wrong(format!("expected {}", RESOURCES.join(", "))));
        }
        if number(amount).is_none() {
            return Err(wrong("it is not an amount".to_owned()));
        }
        if amounts.insert(name.to_owned(), amount.to_owned()).is_some() {
            return Err(wrong(format!("`{name}` is there twice")));
        }
    }
    Ok(amounts)
}

/// The value of a quantity of Kubernetes that is not negative: a decimal number and a suffix.
fn number(amount: &str) -> Option<f64> {
    const SUFFIXES: [(&str, f64); 13] = [
        ("Ki", 1024.0),
        ("Mi", 1024.0 * 1024.0),
        ("Gi", 1024.0 * 1024.0 * 1024.0),
        ("Ti", 1024.0 * 1024.0 * 1024.0 * 1024.0),
        ("Pi", 1024.0 * 1024.0 * 1024.0 * 1024.0 * 1024.0),
        ("n", 1e-9),
        ("u", 1e-6),
        ("m", 1e-3),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("P", 1e15),
    ];
    let found = SUFFIXES.iter().find_map(|(suffix, factor)| Some((amount.strip_suffix(suffix)?, *factor)));
    let (digits, factor) = found.unwrap_or((amount, 1.0));
    // Other forms of a number that Rust reads, such as `inf` and `1e3`, are refused here.
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    digits.parse::<f64>().ok().filter(|_| plain).map(|number| number * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(change: impl FnOnce(&mut PodHardeningFlags)) -> Result<PodHardening, String> {
        let mut flags = PodHardeningFlags::default();
        change(&mut flags);
        PodHardening::resolve(&flags).map_err(|error| error.to_string())
    }

    #[test]
    fn without_flags_pods_have_limits_and_run_digests() {
        let defaults = resolve(|_| {}).unwrap();
        assert_eq!(defaults.max_pods, Some(100));
        assert!(!defaults.image_by_tag && !defaults.keep_capabilities);
        assert_eq!(defaults.user_namespaces, UserNamespaces::Auto);
        assert_eq!(defaults.resources.limits["memory"], "2Gi");
        assert_eq!(defaults.resources.requests.len(), 3);
        let none = resolve(|flags| {
            (flags.max_pods, flags.pod_requests, flags.pod_limits) = (0, String::new(), " ".to_owned());
        });
        let none = none.unwrap();
        assert_eq!((none.max_pods, none.resources), (None, PodResources::default()));
    }

    #[test]
    fn amounts_that_kubernetes_would_refuse_end_the_start() {
        for (text, expected) in [
            ("memory", "`memory`: it has no `=`; "),
            ("memory=lots", "`memory=lots`: it is not an amount; "),
            ("memory=-1", "it is not an amount"),
            ("memory=inf", "it is not an amount"),
            ("memory=1GB", "it is not an amount"),
            ("memory=", "it is not an amount"),
            ("gpu=1", "expected cpu, memory, ephemeral-storage"),
            ("cpu=1,cpu=2", "`cpu` is there twice"),
        ] {
            let error = resolve(|flags| flags.pod_limits = text.to_owned()).unwrap_err();
            assert!(error.starts_with("--pod-limits: ") && error.contains(expected), "{error}");
        }
        let error = resolve(|flags| flags.pod_requests = "memory=3Gi".to_owned()).unwrap_err();
        assert!(
            error.starts_with("--pod-requests: `memory=3Gi`: it is more than the 2Gi of --pod-limits"),
            "{error}"
        );
        assert!(resolve(|flags| flags.pod_requests = "memory=2048Mi,cpu=0.5".to_owned()).is_ok());
        let error = resolve(|flags| flags.pod_user_namespaces = "maybe".to_owned()).unwrap_err();
        assert!(error.ends_with("auto, on and off"), "{error}");
    }
}
