use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::{Budget, Code, Kind, Outcome};

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn allows(pattern: &str, image: &str) -> bool {
    let pattern: Pattern = pattern.parse().unwrap();
    pattern.allows(Image::new(image).reference().unwrap())
}

fn denies(pattern: &str, image: &str) -> bool {
    let pattern: Pattern = pattern.parse().unwrap();
    pattern.denies(Image::new(image).reference().unwrap())
}

#[test]
fn a_pattern_matches_every_spelling_of_a_name() {
    for image in [
        "fn",
        "fn:latest",
        "library/fn",
        "docker.io/fn",
        "docker.io/library/fn",
        "index.docker.io/fn",
        "DOCKER.io/fn",
        "docker.io:443/library/fn",
        "registry-1.docker.io/library/fn",
        "registry.hub.docker.com/library/fn",
    ] {
        for pattern in [
            "fn",
            "library/fn",
            "docker.io/fn",
            "docker.io/library/*",
            "docker.io",
            "docker.io/*",
            "*",
            "index.docker.io/library/f*",
            "fn:latest",
            "Docker.io/library/fn:latest",
            "*/library/fn",
        ] {
            assert!(allows(pattern, image), "{pattern} {image}");
            assert!(denies(pattern, image), "{pattern} {image}");
        }
    }
    assert!(allows("ghcr.io/org/*", "GHCR.io:443/org/a/b:v1"));
    assert!(allows("ghcr.io:443/org/*", "ghcr.io/org/a"));
    assert!(allows("localhost:5000", "localhost:5000/a/b"));
    assert!(allows("*.example.com/fns/*", "eu.registry.example.com/fns/a"));
    assert!(allows("[::1]:5000/*", "[::1]:5000/a"));
}

#[test]
fn a_pattern_matches_nothing_else() {
    for (pattern, image) in [
        ("ghcr.io/org/*", "ghcr.io/organisation/fn"),
        ("ghcr.io/org/*", "ghcr.io/org"),
        ("ghcr.io/org", "ghcr.io/org/fn"),
        ("ghcr.io/org/*", "evil.io/ghcr.io/org/fn"),
        ("ghcr.io/org/*", "ghcr.io.evil.io/org/fn"),
        ("*.example.com/*", "evil.io/a.example.com/fn"),
        ("*.example.com/*", "example.com/fn"),
        ("*.example.com/*", "evil-example.com/fn"),
        ("org/*", "ghcr.io/org/fn"),
        ("fn", "ghcr.io/library/fn"),
        ("localhost:5000", "localhost:5001/a"),
        ("[::1]:5000", "[::1]:5001/a"),
        ("[::1]:5000", "[::1]/a"),
    ] {
        assert!(!allows(pattern, image), "{pattern} {image}");
        assert!(!denies(pattern, image), "{pattern} {image}");
    }
}

#[test]
fn a_host_is_denied_on_every_port_and_allowed_on_its_own() {
    for (pattern, image) in [
        ("ghcr.io/org/*", "ghcr.io:8443/org/fn"),
        ("docker.io/*", "registry-1.docker.io:80/library/fn"),
        ("[::1]/*", "[::1]:5000/fn"),
        ("localhost/*", "localhost:5000/fn"),
    ] {
        assert!(denies(pattern, image) && !allows(pattern, image), "{pattern} {image}");
    }
}

#[test]
fn a_tag_says_nothing_where_a_digest_decides() {
    let pinned = format!("ghcr.io/a/fn:v1@{DIGEST}");
    assert!(allows("ghcr.io/a/fn:v1*", "ghcr.io/a/fn:v1.2") && !allows("ghcr.io/a/fn:v1", "ghcr.io/a/fn:v2"));
    assert!(!allows("ghcr.io/a/fn:v1", &pinned) && denies("ghcr.io/a/fn:v1", &pinned));
    assert!(allows(&format!("ghcr.io/a/fn@{DIGEST}"), &pinned) && allows("ghcr.io/a/fn@sha256:*", &pinned));
    assert!(!allows("ghcr.io/a/fn@sha256:*", "ghcr.io/a/fn:v1"));
}

#[test]
fn what_is_not_a_pattern_says_why() {
    for (text, reason) in [
        ("", "it is empty"),
        ("ghcr.io//x", "empty element"),
        ("ghcr.io/../x", "`..`"),
        ("/x", "empty element"),
        ("ghcr.io/Org", "capital"),
        ("ghcr.io/a b", "characters"),
        ("ghcr.io/a:", "empty"),
        ("ghcr.io/\u{1b}[31m", "characters"),
    ] {
        let error = text.parse::<Pattern>().unwrap_err().to_string();
        assert!(error.contains(reason) && !error.contains('\u{1b}'), "{text}: {error}");
    }
    assert!("a".repeat(2000).parse::<Pattern>().is_err());
    assert_eq!(patterns(["a.io/*, b.io ,", "", "c/d"]).unwrap().len(), 3);
}

#[test]
fn many_stars_do_not_take_long() {
    let pattern = format!("ghcr.io/{}b", "*a".repeat(400));
    let begin = std::time::Instant::now();
    assert!(!allows(&pattern, &format!("ghcr.io/{}", "a".repeat(255))));
    assert!(begin.elapsed().as_secs() < 2);
}

#[test]
fn the_rule_that_refuses_is_named() {
    let policy = |allowed: &str, denied: &str, require_digest| ImagePolicy {
        allowed: patterns([allowed]).unwrap(),
        denied: patterns([denied]).unwrap(),
        require_digest,
    };
    let text = |policy: &ImagePolicy, image: &str| match policy
        .check(&Image::with_prefix(image, Some("ghcr.io/fns")))
    {
        Ok(()) => "ok".to_owned(),
        Err(error) => {
            assert_eq!((error.kind(), error.code()), (Kind::Refused, Code::PermissionDenied));
            error.describe(image)
        }
    };
    let both = policy("ghcr.io/fns/*", "*/fns/evil*", false);
    assert_eq!(text(&both, "set-labels:v1"), "ok");
    assert_eq!(
        text(&both, "evil-twin:v1"),
        "function \"evil-twin:v1\" is refused by --denied-images: `ghcr.io/fns/evil-twin:v1` matches `*/fns/evil*`"
    );
    assert_eq!(
        text(&both, "nephio/fn"),
        "function \"nephio/fn\" is refused by --allowed-images: `index.docker.io/nephio/fn:latest` matches none of its \
         patterns"
    );
    let pinned = policy("", "", true);
    assert!(
        text(&pinned, "set-labels:v1")
            .contains("--require-digest: `ghcr.io/fns/set-labels:v1` has no digest")
    );
    assert_eq!(text(&pinned, &format!("set-labels@{DIGEST}")), "ok");
    assert!(matches!(both.check(&Image::new("a/../b")), Err(RunError::InvalidImage(_))));
    assert!(ImagePolicy::default().check(&Image::new("a/../b")).is_ok());
}

/// Counts its calls.
#[derive(Debug, Default)]
struct Counting(AtomicUsize);

impl Runtime for Counting {
    fn name(&self) -> &'static str {
        "counting"
    }

    fn knows(&self, _: &FunctionRef) -> Knows {
        self.0.fetch_add(1, Ordering::Relaxed);
        Knows::Yes
    }

    fn run<'a>(&'a self, _: &'a Call) -> Running<'a> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::ready(Ok(Outcome::default())))
    }
}

#[tokio::test]
async fn a_runtime_hears_nothing_of_what_is_refused() {
    let policy = ImagePolicy { denied: patterns(["*/evil/*"]).unwrap(), ..ImagePolicy::default() };
    let allowed = Allowed { runtime: Counting::default(), policy: Arc::new(policy) };
    let call = |image| Call::of_image(Image::new(image), "".into(), Budget::UNBOUNDED);
    let evil = call("r.io/evil/fn");
    assert!(matches!(allowed.run(&evil).await, Err(RunError::Refused { .. })));
    assert!(matches!(allowed.knows(&evil.function), Knows::Refused(_)));
    assert!(matches!(Runtime::check(&allowed, &evil.function), Err(RunError::Refused { .. })));
    assert_eq!(allowed.runtime.0.load(Ordering::Relaxed), 0);
    assert!(allowed.run(&call("r.io/good/fn")).await.is_ok());
    assert!(matches!(allowed.knows(&FunctionRef::Command("ls".into())), Knows::Yes));
    assert_eq!(allowed.runtime.0.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_caller_runs_what_its_grant_allows() {
    let allowed = Allowed { runtime: Counting::default(), policy: Arc::default() };
    let grant = Grant {
        rule: "ci".into(),
        allowed: Some(patterns(["ghcr.io/org/*"]).unwrap()),
        denied: patterns(["ghcr.io/org/evil"]).unwrap(),
    };
    let context = Context::read(|_| None).with_grant(Arc::new(grant));
    let call = |image| Call::of_image(Image::new(image), "".into(), Budget::UNBOUNDED);
    for (image, reason) in [
        ("ghcr.io/org/evil", "matches `ghcr.io/org/evil` of `deniedImages`"),
        ("ghcr.io/other/fn", "matches none of its `images`"),
    ] {
        let refused = context.clone().scope(async { allowed.run(&call(image)).await }).await.unwrap_err();
        let text = refused.describe(image);
        assert!(text.contains("rule \"ci\" of the access config") && text.contains(reason), "{text}");
    }
    assert!(context.scope(async { allowed.run(&call("ghcr.io/org/fn")).await }).await.is_ok());
    assert!(allowed.run(&call("ghcr.io/other/fn")).await.is_ok());
}
