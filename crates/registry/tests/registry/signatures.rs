//! Images that must be signed: what counts, what does not, and what is said then.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use loggia_function::Image as Name;
use loggia_registry::{Images, Kind, Settings, SignaturePolicy, Unverified};
use serde_json::{Value, json};

use crate::support::certificates::rotate;
use crate::support::http::Reply;
use crate::support::proxy::Proxy;
use crate::support::settings;
use crate::support::signer::{Shelf, Signer};

/// Images under a policy with one rule for everything.
fn verifying(folder: &Path, rule: &Value) -> Images {
    let file = folder.join("policy.yaml");
    fs::write(&file, json!({"rules": [rule], "default": "deny"}).to_string()).unwrap();
    let signatures = Some(SignaturePolicy::read(&file).unwrap());
    Images::new(Settings { signatures, ..settings() })
}

/// Returns once the files were looked at.
async fn looked() {
    crate::clock::pass(Duration::from_secs(2)).await;
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
}

fn refused(verdict: Result<(), Unverified>) -> String {
    match verdict {
        Err(Unverified::Refused { rule, reason }) => format!("{rule}: {reason}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_signature_in_any_form_counts_and_is_looked_for_once() {
    let (signer, other) = (Signer::new(), Signer::new());
    for form in ["classic", "api", "tag"] {
        let (shelf, digest) = Shelf::start();
        match form {
            "classic" => {
                let payload = Signer::payload(&shelf.repository(), &digest);
                let signature = signer.sign(payload.to_string().as_bytes());
                shelf.sign(&digest, &[(payload, signature)]);
            }
            form => shelf.refer(&digest, &[signer.bundle(&digest)], form == "api"),
        }
        let image = Name::new(&shelf.image());
        let folder = tempfile::tempdir().unwrap();
        let images = verifying(folder.path(), &json!({"images": ["*"], "keys": [signer.pem]}));
        let (one, two) = tokio::join!(images.verify(&image), images.verify(&image));
        assert!(one.is_ok() && two.is_ok(), "{form}: {one:?}");
        let asked = shelf.stub.requests().len();
        assert!(images.verify(&image).await.is_ok());
        assert_eq!(shelf.stub.requests().len(), asked, "{form}: asked again");
        let mut times = Vec::new();
        for _ in 0..1000 {
            let begin = Instant::now();
            assert!(images.verify(&image).await.is_ok());
            times.push(begin.elapsed());
        }
        times.sort();
        println!("{form}: verified before, median {:?}", times[500]);
        assert!(times[500] < Duration::from_micros(100), "{:?}", times[500]);
        // A digest of the same bytes under another name is another question; the answer is the same.
        assert!(images.verify(&Name::new(&format!("{}@{digest}", shelf.repository()))).await.is_ok());

        let images = verifying(folder.path(), &json!({"images": ["*"], "keys": [other.pem]}));
        let text = refused(images.verify(&image).await);
        assert!(text.starts_with("--verify-images (rule 1, `*`): "), "{text}");
        assert!(
            text.contains(&format!("@{digest}` has no valid signature of key `inline` (sha256 ")),
            "{text}"
        );
        assert!(
            text.ends_with("found a signature that another key made or that was changed since"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn what_is_not_signed_as_wanted_is_refused_in_words() {
    let signer = Signer::new();
    let (shelf, digest) = Shelf::start();
    let image = Name::new(&shelf.image());
    let folder = tempfile::tempdir().unwrap();
    let rule = json!({"images": ["*"], "keys": [signer.pem]});
    let ask = async || refused(verifying(folder.path(), &rule).verify(&image).await);
    assert!(ask().await.ends_with(": there is no signature"), "{}", ask().await);

    let signed = |payload: &Value| (payload.clone(), signer.sign(payload.to_string().as_bytes()));
    let other = format!("sha256:{}", "1".repeat(64));
    shelf.sign(&digest, &[signed(&Signer::payload(&shelf.repository(), &other))]);
    assert!(ask().await.ends_with(&format!("for another digest, `{other}`")), "{}", ask().await);
    shelf.sign(&digest, &[signed(&Signer::payload("ghcr.io/other/fn", &digest))]);
    assert!(ask().await.ends_with("for another repository, `ghcr.io/other/fn`"), "{}", ask().await);

    // A signature for other words, and signatures that are none.
    let payload = Signer::payload(&shelf.repository(), &digest);
    let (_, good) = signed(&payload);
    let mut changed = payload.clone();
    changed["optional"] = json!({"team": "x"});
    shelf.sign(&digest, &[(changed, good.clone())]);
    assert!(ask().await.contains("that another key made or that was changed since"));
    for (wrong, words) in [
        ((payload.clone(), "%%%".to_owned()), "its annotation is not base64"),
        ((json!([]), good.clone()), "its payload is not simple signing"),
        (
            (
                json!({"critical": {"identity": {"docker-reference": ""}, "image": {"docker-manifest-digest": ""}, "type": "x"}}),
                good.clone(),
            ),
            "its payload is of another type",
        ),
    ] {
        shelf.sign(&digest, &[wrong]);
        assert!(ask().await.contains(words), "{}", ask().await);
    }
    shelf.sign(&digest, &[]);

    // The statement of a scanner, or of several images, is not the signature of this one.
    let hex = digest.trim_start_matches("sha256:");
    let statement = |predicate: &str, subjects: usize| {
        let subject = vec![json!({"digest": {"sha256": hex}}); subjects];
        json!({"_type": "https://in-toto.io/Statement/v1", "subject": subject, "predicateType": predicate, "predicate": {}})
    };
    for (statement, words) in [
        (statement("https://slsa.dev/provenance/v1", 1), "its statement is not the signature of an image"),
        (statement("https://sigstore.dev/cosign/sign/v1", 0), "has not exactly one subject"),
        (statement("https://sigstore.dev/cosign/sign/v1", 2), "has not exactly one subject"),
    ] {
        shelf.refer(&digest, &[signer.envelope(&statement)], true);
        assert!(ask().await.contains(words), "{}", ask().await);
    }
    let mut keyless = signer.bundle(&digest);
    keyless["verificationMaterial"] = json!({"certificate": {"rawBytes": ""}});
    shelf.refer(&digest, &[keyless, signer.bundle(&other), json!({}), json!([])], true);
    let text = ask().await;
    assert!(
        text.contains("made with a certificate")
            && text.contains("another digest")
            && text.contains("malformed (2 times)"),
        "{text}"
    );
    shelf.refer(&digest, &[signer.bundle(&digest)], true);
    assert!(verifying(folder.path(), &rule).verify(&image).await.is_ok());
}

#[tokio::test]
async fn of_two_keys_one_or_both_must_have_signed() {
    let (one, two) = (Signer::new(), Signer::new());
    let (shelf, digest) = Shelf::start();
    let image = Name::new(&shelf.image());
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("one.pub"), &one.pem).unwrap();
    let rule = |require: &str| json!({"images": ["*"], "keys": ["one.pub", two.pem], "require": require});
    let payload = Signer::payload(&shelf.repository(), &digest);
    let by = |signer: &Signer| (payload.clone(), signer.sign(payload.to_string().as_bytes()));
    shelf.sign(&digest, &[by(&one)]);
    assert!(verifying(folder.path(), &rule("any")).verify(&image).await.is_ok());
    let text = refused(verifying(folder.path(), &rule("all")).verify(&image).await);
    assert!(
        text.contains("no valid signature of key `inline` (sha256 ")
            && text.ends_with("there is no other signature"),
        "{text}"
    );
    // Two signatures by one key are not those of two.
    shelf.sign(&digest, &[by(&one), by(&one)]);
    refused(verifying(folder.path(), &rule("all")).verify(&image).await);
    shelf.sign(&digest, &[by(&one), by(&two)]);
    assert!(verifying(folder.path(), &rule("all")).verify(&image).await.is_ok());
    // One in each form.
    shelf.sign(&digest, &[by(&one)]);
    shelf.refer(&digest, &[two.bundle(&digest)], false);
    assert!(verifying(folder.path(), &rule("all")).verify(&image).await.is_ok());
}

#[tokio::test]
async fn rules_want_annotations_and_allow_other_names() {
    let signer = Signer::new();
    let (shelf, digest) = Shelf::start();
    let image = Name::new(&shelf.image());
    let folder = tempfile::tempdir().unwrap();
    let mut payload = Signer::payload("ghcr.io/origin/fn", &digest);
    payload["optional"] = json!({"team": "x", "built": 7});
    shelf.sign(&digest, &[(payload.clone(), signer.sign(payload.to_string().as_bytes()))]);
    let ask = async |more: Value| {
        let mut rule = json!({"images": ["*/team/*"], "keys": [signer.pem]});
        rule.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        verifying(folder.path(), &rule).verify(&image).await
    };
    assert!(refused(ask(json!({})).await).contains("another repository"));
    assert!(ask(json!({"signedAs": ["ghcr.io/origin/*"]})).await.is_ok());
    assert!(ask(json!({"signedAs": ["ghcr.io/origin/*"], "annotations": {"team": "x"}})).await.is_ok());
    let text = refused(ask(json!({"signedAs": ["ghcr.io/origin/*"], "annotations": {"team": "y"}})).await);
    assert!(text.ends_with("without the annotation `team=y` that the rule wants"), "{text}");
    // An image without a rule.
    let text = refused(
        verifying(folder.path(), &json!({"images": ["x.io"], "keys": [signer.pem]})).verify(&image).await,
    );
    assert!(
        text.contains("--verify-images: no rule is for `") && text.ends_with("what has none is denied"),
        "{text}"
    );
}

#[tokio::test]
async fn a_registry_that_is_away_leaves_what_was_verified_and_refuses_the_rest() {
    let signer = Signer::new();
    let (shelf, digest) = Shelf::start();
    shelf.refer(&digest, &[signer.bundle(&digest)], false);
    let proxy = Proxy::to(shelf.stub.port);
    let folder = tempfile::tempdir().unwrap();
    let images = verifying(folder.path(), &json!({"images": ["*"], "keys": [signer.pem]}));
    let image = Name::new(&proxy.image("team/fn:v1"));
    assert!(images.verify(&image).await.is_ok());
    let fresh = verifying(folder.path(), &json!({"images": ["*"], "keys": [signer.pem]}));
    assert!(fresh.metadata(&image).await.is_ok());
    proxy.spoil(|_, _| Reply::status(503));
    assert!(images.verify(&image).await.is_ok());
    match fresh.verify(&image).await {
        Err(Unverified::Registry(error)) => {
            assert_eq!(error.kind(), Kind::RegistryFailed);
            assert!(error.to_string().contains("looking for signatures: HTTP 503"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    // And once it is back, so is the image.
    proxy.spoil(|_, reply| reply);
    crate::clock::pass(Duration::from_secs(2)).await;
    assert!(fresh.verify(&image).await.is_ok());
}

#[tokio::test]
async fn a_policy_that_changes_counts_at_once_and_one_that_is_wrong_does_not() {
    let (old, new) = (Signer::new(), Signer::new());
    let (shelf, digest) = Shelf::start();
    shelf.refer(&digest, &[new.bundle(&digest)], true);
    let image = Name::new(&shelf.image());
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("team.pub");
    fs::write(&key, &old.pem).unwrap();
    let images = verifying(folder.path(), &json!({"images": ["*"], "keys": ["team.pub"]}));
    tokio::spawn(images.clone().follow_changes());
    refused(images.verify(&image).await);
    rotate(&key, &new.pem);
    looked().await;
    assert!(images.verify(&image).await.is_ok());
    for wrong in ["", "rules: [", "-----BEGIN PUBLIC KEY-----"] {
        rotate(&key, wrong);
        looked().await;
        assert!(images.verify(&image).await.is_ok());
    }
    // The old key again: what was verified with the new one does not count any more.
    rotate(&key, &old.pem);
    looked().await;
    refused(images.verify(&image).await);
}

#[tokio::test]
async fn a_flood_of_signatures_ends() {
    let (signer, other) = (Signer::new(), Signer::new());
    let (shelf, digest) = Shelf::start();
    let payload = |n: usize| {
        let mut payload = Signer::payload(&shelf.repository(), &digest);
        payload["optional"] = json!({"n": n.to_string()});
        payload
    };
    let flood: Vec<_> =
        (0..300).map(|n| (payload(n), other.sign(payload(n).to_string().as_bytes()))).collect();
    shelf.sign(&digest, &flood);
    let folder = tempfile::tempdir().unwrap();
    let images = verifying(folder.path(), &json!({"images": ["*"], "keys": [signer.pem]}));
    let begin = Instant::now();
    let text = refused(images.verify(&Name::new(&shelf.image())).await);
    assert!(
        text.ends_with("(50 times)") && begin.elapsed() < Duration::from_secs(20),
        "{text} {:?}",
        begin.elapsed()
    );
    assert!(shelf.stub.requests().len() < 70);
}
