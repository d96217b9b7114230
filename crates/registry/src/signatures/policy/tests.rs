use super::*;

fn parsed(text: &str) -> Result<(Vec<Rule>, Otherwise), String> {
    let recorded: serde_json::Value =
        serde_json::from_str(include_str!("../../../tests/fixtures/signatures/cosign.json")).unwrap();
    parse(text, &mut |name| {
        let pem = recorded[name]["key"].as_str().ok_or_else(|| format!("open {name}: no such file"))?;
        PublicKey::parse(name, pem.as_bytes()).map_err(str::to_owned)
    })
}

fn decide(policy: &str, image: &str) -> &'static str {
    let (rules, default) = parsed(policy).unwrap();
    let policy = Policy { version: 1, rules, default, files: vec![] };
    match policy.decide(&image.parse().unwrap()) {
        Decision::Allow => "allow",
        Decision::Deny => "deny",
        Decision::Verify(rule) => ["", "1", "2", "3"][rule.number],
    }
}

const POLICY: &str = "default: deny\nrules:\n- images: [\"ghcr.io/org/*\"]\n  keys: [p256, rsa]\n  require: all\n\
    - images: [ghcr.io/free/tagged:v1]\n  allow: true\n- images: [\"ghcr.io/*\"]\n  keys: [ed25519]\n";

#[test]
fn the_first_rule_for_an_image_decides() {
    assert_eq!(decide(POLICY, "ghcr.io/org/fn:v1"), "1");
    assert_eq!(decide(POLICY, "GHCR.io:443/org/fn:v1"), "1");
    assert_eq!(decide(POLICY, "ghcr.io/other/fn:v1"), "3");
    assert_eq!(decide(POLICY, "fn"), "deny");
    assert_eq!(decide(&POLICY.replace("default: deny", "default: allow"), "fn"), "allow");
    // A tag that needs no signature does not cover a digest that says it has that tag.
    assert_eq!(decide(POLICY, "ghcr.io/free/tagged:v1"), "allow");
    assert_eq!(decide(POLICY, &format!("ghcr.io/free/tagged:v1@sha256:{}", "0".repeat(64))), "3");
}

#[test]
fn what_is_not_a_policy_is_refused_with_its_place() {
    for (text, reason) in [
        ("", "missing field"),
        ("rules: []\n", "default"),
        ("default: maybe\nrules: []\n", "maybe"),
        ("default: deny\nrules: []\nrule: []\n", "rule"),
        ("default: deny\nrules:\n- images: [x.io]\n  key: [p256]\n", "key"),
        ("default: deny\ndefault: allow\nrules: []\n", "default"),
        ("default: deny\nrules:\n- images: []\n  keys: [p256]\n", "rule 1: `images` is empty"),
        ("default: deny\nrules:\n- images: [x.io]\n", "rule 1: `keys` is empty"),
        ("default: deny\nrules:\n- images: [x.io]\n  keys: [nowhere]\n", "rule 1: open nowhere"),
        (
            "default: deny\nrules:\n- images: [x.io//y]\n  keys: [p256]\n",
            "rule 1: `x.io//y` is not a pattern",
        ),
        ("default: deny\nrules:\n- images: [x.io]\n  keys: [p256, p256]\n", "is listed twice"),
        ("default: deny\nrules:\n- images: [x.io]\n  keys: [p256]\n  allow: true\n", "`allow: true`"),
        ("default: deny\nrules:\n- images: [x.io]\n  keys: [p256]\n  require: some\n", "some"),
        ("rules: [", ""),
    ] {
        let error = parsed(text).map(|_| ()).unwrap_err();
        assert!(error.contains(reason), "{text:?}: {error}");
    }
    let many = format!("default: deny\nrules:\n{}", "- {images: [x.io], allow: true}\n".repeat(1001));
    assert!(parsed(&many).map(|_| ()).unwrap_err().contains("1001 rules, and there may be 1000"));
    let bomb = format!("default: deny\nrules: {}", "[".repeat(200_000));
    assert!(parsed(&bomb).is_err());
}

#[test]
fn files_are_bounded() {
    assert!(
        SignaturePolicy::read(Path::new("/dev/zero")).unwrap_err().to_string().contains("not a regular file")
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.yaml");
    fs::write(&file, "#".repeat((1 << 20) + 1)).unwrap();
    assert!(SignaturePolicy::read(&file).unwrap_err().to_string().contains("has more than 1048576 bytes"));
}
