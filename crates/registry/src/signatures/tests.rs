//! Signatures that cosign made, as they were recorded (`make deep-record`), and what becomes of them when they are changed.

use serde_json::Value;

use super::*;

const KEYS: [&str; 4] = ["p256", "p384", "ed25519", "rsa"];

fn recorded() -> Value {
    serde_json::from_str(include_str!("../../tests/fixtures/signatures/cosign.json")).unwrap()
}

fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    path.iter().fold(value, |value, name| &value[*name]).as_str().unwrap()
}

fn rule(keys: &[&str]) -> Rule {
    let all = recorded();
    let keys = keys.iter().map(|key| PublicKey::parse(key, text(&all, &[*key, "key"]).as_bytes()).unwrap());
    Rule::for_tests(keys.collect())
}

/// What is said of something signed, by the key of `key`, as that of an image with this digest in this repository.
fn judged(signed: Result<Signed, Flaw>, key: &str, repository: &str, digest: &str) -> Result<(), String> {
    let (rule, reference) = (rule(&[key]), repository.parse().unwrap());
    let mut findings = Findings::new(&rule, &reference, digest);
    findings.add(signed);
    findings.verdict().map_err(|error| error.to_string())
}

#[test]
fn what_cosign_signed_is_verified_in_both_forms_and_with_every_type_of_key() {
    let all = recorded();
    let (base, digest) = (text(&all, &["repository"]).replace("team/fn", "team"), text(&all, &["digest"]));
    for key in KEYS {
        let repository = format!("{base}/{key}");
        let simple =
            || simple::parse(text(&all, &[key, "payload"]).as_bytes(), text(&all, &[key, "signature"]));
        let bundle = || bundle::parse(text(&all, &[key, "bundle"]).as_bytes());
        assert_eq!(judged(simple(), key, &repository, digest), Ok(()), "{key}");
        assert_eq!(judged(bundle(), key, &repository, digest), Ok(()), "{key}");
        assert_eq!(simple().unwrap().claim.annotations["team"], "x");
        assert_eq!(bundle().unwrap().claim.annotations["team"], "x");

        let other = KEYS.iter().find(|other| **other != key).unwrap();
        let wrong = format!("sha256:{}", "0".repeat(64));
        assert!(judged(simple(), other, &repository, digest).unwrap_err().contains("that another key made"));
        assert!(judged(simple(), key, &repository, &wrong).unwrap_err().contains("for another digest"));
        let text = judged(simple(), key, "ghcr.io/other/fn", digest).unwrap_err();
        assert!(text.ends_with(&format!("for another repository, `{repository}`")), "{text}");
        assert!(judged(bundle(), other, &repository, digest).unwrap_err().contains("that another key made"));
        assert!(judged(bundle(), key, &repository, &wrong).unwrap_err().contains("for another digest"));
    }
}

#[test]
fn a_changed_byte_anywhere_is_noticed() {
    let all = recorded();
    let (base, digest) = (text(&all, &["repository"]).replace("team/fn", "team"), text(&all, &["digest"]));
    for key in KEYS {
        let repository = format!("{base}/{key}");
        let payload = text(&all, &[key, "payload"]).as_bytes();
        // Slow without optimisation, so not every byte for each key.
        let step = if key == "p256" { 1 } else { 17 };
        for place in (0..payload.len()).step_by(step) {
            let mut changed = payload.to_vec();
            changed[place] ^= 1;
            let signed = simple::parse(&changed, text(&all, &[key, "signature"]));
            assert!(judged(signed, key, &repository, digest).is_err(), "{key} {place}");
        }
        let bundle = text(&all, &[key, "bundle"]);
        let envelope = bundle.find("dsseEnvelope").unwrap();
        for (place, letter) in bundle.char_indices().skip(envelope).step_by(step) {
            // In the payload and the signature; what is around them is not signed and need not be.
            let swapped = if letter == 'A' { 'B' } else { 'A' };
            let mut changed = bundle.to_owned();
            changed.replace_range(place..=place, &swapped.to_string());
            let verdict = judged(bundle::parse(changed.as_bytes()), key, &repository, digest);
            let name = &bundle[envelope..place];
            let inside = ["payload\":\"", "sig\":\""]
                .iter()
                .any(|field| name.rfind(field).is_some_and(|at| !name[at + field.len()..].contains('"')));
            // The last letter before padding may carry bits that are not used; strict base64 refuses those.
            assert!(!inside || letter == '"' || letter == '=' || verdict.is_err(), "{key} {place}: {letter}");
        }
    }
}

#[test]
fn hostile_signatures_are_flaws_and_no_more() {
    let begin = std::time::Instant::now();
    for bytes in
        ["[".repeat(1 << 20), "{\"a\":".repeat(100_000), String::new(), "null".to_owned(), "{}".to_owned()]
    {
        assert!(simple::parse(bytes.as_bytes(), "AAAA").is_err());
        assert!(bundle::parse(bytes.as_bytes()).is_err());
    }
    let many = format!(
        r#"{{"mediaType": "{}", "dsseEnvelope": {{"payload": "e30=", "payloadType": "application/vnd.in-toto+json", "signatures": [{}]}}}}"#,
        bundle::MEDIA_TYPE,
        vec![r#"{"sig": "AAAA"}"#; 10_000].join(",")
    );
    assert!(bundle::parse(many.as_bytes()).is_err());
    assert!(begin.elapsed().as_secs() < 30);
}

#[test]
fn keys_are_read_and_others_are_refused_with_the_reason() {
    let reason = |pem: &str| PublicKey::parse("x", pem.as_bytes()).unwrap_err();
    let all = recorded();
    let pem = text(&all, &["p256", "key"]);
    assert!(
        PublicKey::parse("team.pub", pem.as_bytes())
            .unwrap()
            .to_string()
            .starts_with("key `team.pub` (sha256 ")
    );
    assert!(reason("").contains("no public key") && reason("garbage").contains("no public key"));
    assert!(reason(&format!("{pem}{pem}")).contains("more than one"));
    assert!(
        reason("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n").contains("cannot be read")
    );
    assert!(
        reason("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n").contains("no public key")
    );
    // On P-521.
    let other = "-----BEGIN PUBLIC KEY-----\n\
                 MIGbMBAGByqGSM49AgEGBSuBBAAjA4GGAAQAKPpfZNqKND4WFlFliPSNPCibs/P7\n\
                 UGLKR/sWv7XxJxIoPnmVN8cG78PXsRMq/6RpAKWqlg1zBiplvNajhTccCaoBCJtF\n\
                 73fkApCDMHc4F/YpXwPUT4ZXCLAWHyBzulu1im8jTnFjTVFogFzKxRRzV7oi6agC\n\
                 RAxR+0XiMe0RnTSzrx4=\n\
                 -----END PUBLIC KEY-----\n";
    assert!(reason(other).contains("not supported"), "{}", reason(other));
}
