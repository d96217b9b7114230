//! No credential is ever shown: not in a log line of any level, not in an error, not by `Debug`.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use loggia_function::Image as Name;
use loggia_registry::{Images, Reference, Settings};
use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::support::http::{Reply, Stub};
use crate::support::image::Image;
use crate::support::issuer::{IDENTITY_TOKEN, Issuer};
use crate::support::server::{PASSWORD, Registry, Setup, USER};
use crate::support::{installed, settings};

/// Writes down everything that anybody logs.
#[derive(Clone, Default)]
struct Everything(Arc<Mutex<String>>);

impl Visit for Everything {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0.lock().unwrap(), "{field}={value:?} ");
    }
}

impl Subscriber for Everything {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        attributes.record(&mut self.clone());
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut self.clone());
    }
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
        self.0.lock().unwrap().push('\n');
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn no_credential_is_ever_shown() {
    if !installed() {
        return;
    }
    let issuer = Issuer::start();
    let registry = Registry::start(&Setup { tokens: Some(&issuer), ..Setup::default() });
    let image = registry.push(&Image::named("private"), "team/fn:v1");
    // One that repeats what it is sent, and one that sends on with a signature.
    let echo = Stub::start(|request| match request.header("authorization") {
        None => Reply::status(401).with("WWW-Authenticate", "Basic realm=\"r\""),
        Some(sent) => {
            let said = json!({"errors": [{"code": "DENIED", "message": format!("{sent} may not")}]});
            Reply::Answer { status: 403, headers: vec![], body: said.to_string().into_bytes() }
        }
    });
    let signed = Stub::start(|_| {
        Reply::status(307)
            .with("Location", "http://user:canary-location@127.0.0.1:1/x?signature=canary-signature")
    });
    let auth = |password: &str| BASE64_STANDARD.encode(format!("{USER}:{password}"));

    let log = Everything::default();
    let mut shown = String::new();
    tracing::subscriber::with_default(log.clone(), || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let folder = tempfile::tempdir().unwrap();
            let broken = folder.path().join("broken.json");
            std::fs::write(&broken, format!("{{\"auths\": {{\"x\": {{\"auth\": \"{}\"", auth(PASSWORD)))
                .unwrap();
            for (entry, image) in [
                (json!({"auth": auth(PASSWORD)}), image.clone()),
                (json!({"auth": auth("canary-wrong")}), image.clone()),
                (json!({"username": USER, "password": PASSWORD}), format!("{}/fn:v1", echo.host())),
                (json!({"identitytoken": IDENTITY_TOKEN}), image.clone()),
                (json!({"identitytoken": "canary-identity-old"}), image.clone()),
                (json!({"registrytoken": "canary-registrytoken"}), image.clone()),
                (json!({"registrytoken": "canary-new\nline"}), format!("{}/fn:v1", echo.host())),
                (json!({"auth": "canary-not-base64"}), image.clone()),
                (json!({"auth": ["canary-list"]}), image.clone()),
                (json!({"auth": auth(PASSWORD)}), format!("{}/fn:v1", signed.host())),
                (Value::Null, image.clone()),
            ] {
                let host = image.parse::<Reference>().unwrap().registry().to_owned();
                let auth_file = folder.path().join("config.json");
                std::fs::write(&auth_file, json!({"auths": {host: entry}}).to_string()).unwrap();
                let settings = Settings { auth_file: Some(auth_file), ..settings() };
                let images = Images::new(settings.clone());
                let outcome = images.metadata(&Name::new(&image)).await;
                let secret = images.pull_secret();
                let _ = writeln!(shown, "{outcome:?} {images:?} {images:#?} {secret:?} {settings:?}");
                if let Err(error) = outcome {
                    let _ = writeln!(shown, "{error} {error:#?}");
                }
            }
            let images = Images::new(Settings { auth_file: Some(broken), ..settings() });
            let _ = writeln!(
                shown,
                "{:?} {:?}",
                images.read_pull_secret(),
                images.metadata(&Name::new(&image)).await
            );
        });
    });

    let log = log.0.lock().unwrap().clone();
    // The log was really taken, at the most detailed level too, and the credentials were really used.
    assert!(log.contains("Asking for a token") && log.contains("Found credentials"), "{log}");
    assert!(shown.contains("Metadata {") && shown.contains("[secret] may not"), "{shown}");
    assert!(echo.requests().iter().any(|request| request.header("authorization").is_some()));
    let issued = issuer.issued.lock().unwrap().clone();
    assert!(!issued.is_empty());
    let mut secrets = vec!["canary".to_owned(), auth(PASSWORD), auth("canary-wrong")];
    // The middle of a token, too: whoever cuts it has not hidden it.
    secrets
        .extend(issued.iter().flat_map(|token| [token.clone(), token[token.len() / 2..][..40].to_owned()]));
    for secret in secrets {
        for (name, text) in [("log", &log), ("what was shown", &shown)] {
            let line = text.lines().find(|line| line.contains(&secret));
            assert!(line.is_none(), "{secret:?} in the {name}: {line:?}");
        }
    }
}
