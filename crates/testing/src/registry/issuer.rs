//! A token service: real tokens, signed, which the registry verifies.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use rcgen::{CertificateParams, KeyPair};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use serde_json::json;

use super::http::{Reply, Request, Stub};
use super::server::{PASSWORD, USER};

/// Seconds that a token holds.
const LIFE: u64 = 300;

pub const IDENTITY_TOKEN: &str = "canary-identity-3Kd";

/// Issues tokens to [`USER`], to bearers of [`IDENTITY_TOKEN`], and to anybody for repositories `public/…`.
#[derive(Debug)]
pub struct Issuer {
    pub stub: Stub,
    certificate: String,
    /// How many of the next tokens have run out before they are issued, whatever is said of them.
    pub stale: Arc<AtomicU64>,
    /// Tokens that were issued.
    pub issued: Arc<Mutex<Vec<String>>>,
}

impl Issuer {
    pub fn start() -> Self {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["issuer".into()]).unwrap().self_signed(&key).unwrap();
        let chain = BASE64_STANDARD.encode(certificate.der());
        let (stale, issued) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(Vec::new())));
        let pem = certificate.pem();
        let signer = EcdsaKeyPair::from_pkcs8(
            &ECDSA_P256_SHA256_FIXED_SIGNING,
            &key.serialize_der(),
            &SystemRandom::new(),
        );
        let signer = signer.unwrap();
        let (left, log) = (Arc::clone(&stale), Arc::clone(&issued));
        let stub = Stub::start(move |request| {
            let Some(scope) = allowed(request) else {
                return Reply::Answer {
                    status: 401,
                    headers: vec![],
                    body: br#"{"details": "incorrect username or password"}"#.to_vec(),
                };
            };
            let less = |left: u64| left.checked_sub(1);
            let stale = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok();
            let token = sign(&signer, &chain, &scope, stale);
            log.lock().unwrap().push(token.clone());
            let name = if request.method == "POST" { "access_token" } else { "token" };
            Reply::ok("application/json", json!({name: token, "expires_in": LIFE}).to_string())
        });
        Self { stub, certificate: pem, stale, issued }
    }

    pub fn realm(&self) -> String {
        format!("http://127.0.0.1:{}/token", self.stub.port)
    }

    pub fn certificate(&self) -> &str {
        &self.certificate
    }
}

/// The scope of a request that may have a token.
fn allowed(request: &Request) -> Option<String> {
    let body = String::from_utf8_lossy(&request.body).into_owned();
    let query = request.path.split_once('?').map_or("", |(_, query)| query);
    let fields = if request.method == "POST" { body.as_str() } else { query };
    let field = |name: &str| {
        let pair = fields.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))?;
        Some(pair.replace("%3A", ":").replace("%2F", "/").replace("%2C", ","))
    };
    assert_eq!(field("service").as_deref(), Some("test-registry"), "{fields}");
    let scope = field("scope").unwrap_or_default();
    let basic = format!("Basic {}", BASE64_STANDARD.encode(format!("{USER}:{PASSWORD}")));
    let known = match request.method.as_str() {
        "POST" => {
            field("grant_type").as_deref() == Some("refresh_token")
                && field("refresh_token").as_deref() == Some(IDENTITY_TOKEN)
        }
        _ => match request.header("authorization") {
            Some(proof) => proof == basic,
            None => scope.starts_with("repository:public/"),
        },
    };
    known.then_some(scope)
}

fn sign(signer: &EcdsaKeyPair, chain: &str, scope: &str, stale: bool) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let end = if stale { now - LIFE } else { now + LIFE };
    let mut parts = scope.splitn(3, ':');
    let (kind, name, actions) = (parts.next(), parts.next(), parts.next().unwrap_or_default());
    let access = match scope.is_empty() {
        true => json!([]),
        false => json!([{"type": kind, "name": name, "actions": actions.split(',').collect::<Vec<_>>()}]),
    };
    let header = json!({"typ": "JWT", "alg": "ES256", "x5c": [chain]});
    let claims = json!({"iss": "test-issuer", "sub": "alice", "aud": "test-registry", "exp": end,
                        "nbf": end - 2 * LIFE, "iat": end - 2 * LIFE, "jti": format!("{now}-{scope}"), "access": access});
    let encode = |value: &serde_json::Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let text = format!("{}.{}", encode(&header), encode(&claims));
    let signature = signer.sign(&SystemRandom::new(), text.as_bytes()).unwrap();
    format!("{text}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
}
