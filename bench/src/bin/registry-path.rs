//! What it costs to know an image: from memory, and from a registry beside the same two requests made bare.
//!
//! The registry is Debian's, on loopback, over HTTP and in one process; the images are written straight into its
//! storage by its own protocol. Bare and full rounds alternate, and the ratio is the median of those of neighbours.

#![allow(clippy::disallowed_methods, reason = "it starts what it measures, and waits for it")]

use std::error::Error;
use std::hint::black_box;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use data_encoding::BASE64;
use loggia_bench::{Group, Wanted};
use loggia_function::Image;
use loggia_registry::{Images, Platform, Settings, SignaturePolicy};
use reqwest::header::{ACCEPT, LOCATION};
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};

const ROUNDS: usize = 21;
const IMAGES_A_ROUND: usize = 40;
const LOOKUPS: usize = 200_000;
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// What precedes the point of a key on P-256 in its DER.
const P256: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

#[allow(clippy::print_stdout)]
fn main() -> Outcome {
    if Command::new("docker-registry").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!(
            "left out: docker-registry is not installed (e2e/registry/install), so registry-path has no peer"
        );
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(measure())?.finish()?)
}

#[allow(clippy::print_stdout)]
async fn measure() -> Outcome<Group> {
    let registry = Registry::start()?;
    let client =
        reqwest::Client::builder().http1_only().no_proxy().tls_backend_preconfigured(no_tls()?).build()?;
    let config = registry.push(&client).await?;

    let image = registry.image(0, 0);
    let images = images(&registry);
    images.metadata(&Image::new(&image)).await?;
    let (p50, p99) = lookups(&images, &Image::new(&image)).await?;
    println!("cached lookup: p50 {p50} ns, p99 {p99} ns over {LOOKUPS} (p50 at most 1000)");

    let (verified, verified_p99) = verifications(&client, &registry, &Image::new(&image)).await?;
    println!("verified before: p50 {verified} ns, p99 {verified_p99} ns over {LOOKUPS} (p50 at most 100000)");

    let (mut ratios, mut bare_times, mut full_times) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let begin = Instant::now();
        for number in 0..IMAGES_A_ROUND {
            bare(&client, &registry, &registry.tag(round, number), &config).await?;
        }
        let bare = begin.elapsed();
        let begin = Instant::now();
        for number in 0..IMAGES_A_ROUND {
            images.metadata(&Image::new(&registry.image(round + 1, number))).await?;
        }
        let full = begin.elapsed();
        ratios.push(full.as_secs_f64() / bare.as_secs_f64());
        bare_times.push(bare);
        full_times.push(full);
    }
    ratios.sort_by(f64::total_cmp);
    let ratio = ratios[ROUNDS / 2];
    println!(
        "cold inspect: {:.2} ms, bare {:.2} ms, ratio {ratio:.2}x (at most 1.3), from {:.2}x to {:.2}x in {ROUNDS} rounds of {IMAGES_A_ROUND} images",
        each(full_times.clone()),
        each(bare_times.clone()),
        ratios[0],
        ratios[ROUNDS - 1],
    );
    let mut group = Group::new("registry-path", "Knowing an image");
    let micros = p50 as f64 / 1e3;
    group.add("cached lookup, p50", "µs", &[("Loggia", micros)], micros, Wanted::AtMost(1.0));
    let micros = verified as f64 / 1e3;
    group.add("signature verified before, p50", "µs", &[("Loggia", micros)], micros, Wanted::AtMost(100.0));
    let values = [("Loggia", each(full_times)), ("two bare requests", each(bare_times))];
    group.add("cold inspect", "ms", &values, ratio, Wanted::AtMost(1.3));
    Ok(group)
}

/// The median of rounds, in milliseconds for each image.
fn each(mut rounds: Vec<Duration>) -> f64 {
    rounds.sort_unstable();
    rounds[rounds.len() / 2].as_secs_f64() * 1e3 / IMAGES_A_ROUND as f64
}

/// Nanoseconds of one lookup. Ten are timed together, since the clock takes as long as one.
async fn lookups(images: &Images, image: &Image) -> Outcome<(u128, u128)> {
    let mut times = Vec::with_capacity(LOOKUPS / 10);
    for _ in 0..LOOKUPS / 10 {
        let begin = Instant::now();
        for _ in 0..10 {
            black_box(images.metadata(black_box(image)).await?);
        }
        times.push(begin.elapsed().as_nanos() / 10);
    }
    times.sort_unstable();
    Ok((times[times.len() / 2], times[times.len() * 99 / 100]))
}

/// What `Images::verify` takes for an image that was verified before, with the policy looked at on each call.
async fn verifications(
    client: &reqwest::Client,
    registry: &Registry,
    image: &Image,
) -> Outcome<(u128, u128)> {
    let folder = tempfile::tempdir()?;
    let policy = folder.path().join("policy.yaml");
    let random = SystemRandom::new();
    let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).map_err(|_| "no key")?;
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, der.as_ref(), &random);
    let pair = pair.map_err(|_| "no key")?;
    let spki = [&P256[..], pair.public_key().as_ref()].concat();
    let pem = format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", BASE64.encode(&spki));
    fs::write(folder.path().join("key.pub"), pem)?;
    fs::write(&policy, "default: deny\nrules:\n- images: [\"*\"]\n  keys: [key.pub]\n")?;
    let images = || -> Outcome<Images> {
        let signatures = Some(SignaturePolicy::read(&policy)?);
        let plain_http = vec![registry.host()];
        Ok(Images::new(Settings {
            platform: Platform::amd64(),
            plain_http,
            signatures,
            ..Settings::default()
        }))
    };
    if images()?.verify(image).await.is_ok() {
        return Err("an image without a signature was let through".into());
    }
    let digest = images()?.metadata(image).await?.resolved().to_owned();
    let payload = format!(
        r#"{{"critical":{{"identity":{{"docker-reference":"{}/fn"}},"image":{{"docker-manifest-digest":"{digest}"}},"type":"cosign container image signature"}},"optional":null}}"#,
        registry.host()
    );
    let signature = pair.sign(&random, payload.as_bytes()).map_err(|_| "no signature")?;
    registry.push_signature(client, &digest, payload, &BASE64.encode(signature.as_ref())).await?;
    let images = images()?;
    images.verify(image).await?;
    let mut times = Vec::with_capacity(LOOKUPS / 10);
    for _ in 0..LOOKUPS / 10 {
        let begin = Instant::now();
        for _ in 0..10 {
            images.verify(black_box(image)).await?;
        }
        times.push(begin.elapsed().as_nanos() / 10);
    }
    times.sort_unstable();
    Ok((times[times.len() / 2], times[times.len() * 99 / 100]))
}

/// The two requests and no thought about them.
async fn bare(client: &reqwest::Client, registry: &Registry, tag: &str, config: &str) -> Outcome {
    let base = format!("http://{}/v2/fn", registry.host());
    let manifest = client.get(format!("{base}/manifests/{tag}")).header(ACCEPT, MANIFEST).send().await?;
    black_box(manifest.error_for_status()?.bytes().await?);
    let config = client.get(format!("{base}/blobs/{config}")).send().await?;
    black_box(config.error_for_status()?.bytes().await?);
    Ok(())
}

fn images(registry: &Registry) -> Images {
    Images::new(Settings {
        platform: Platform::amd64(),
        plain_http: vec![registry.host()],
        capacity: usize::MAX,
        ..Settings::default()
    })
}

/// The client needs a TLS configuration, which it does not use.
fn no_tls() -> Outcome<rustls::ClientConfig> {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth())
}

/// A running registry with one image under many tags.
struct Registry {
    process: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

// === impl Registry ===

impl Registry {
    fn start() -> Outcome<Self> {
        let folder = tempfile::tempdir()?;
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let config = folder.path().join("config.yml");
        let data = folder.path().join("data");
        fs::write(
            &config,
            format!(
                "version: 0.1\nlog: {{level: error, accesslog: {{disabled: true}}}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\n\
                 http: {{addr: '127.0.0.1:{port}', secret: bench}}\n",
                data.display()
            ),
        )?;
        let program = env::var("DOCKER_REGISTRY").unwrap_or_else(|_| "docker-registry".to_owned());
        let process = Command::new(program)
            .arg("serve")
            .arg(config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let registry = Self { process, port, _folder: folder };
        let begin = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            if begin.elapsed() > Duration::from_secs(30) {
                return Err("docker-registry does not start".into());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(registry)
    }

    fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn tag(&self, round: usize, number: usize) -> String {
        format!("v{round}-{number}")
    }

    fn image(&self, round: usize, number: usize) -> String {
        format!("{}/fn:{}", self.host(), self.tag(round, number))
    }

    /// Pushes a blob; gives its digest.
    async fn push_blob(&self, client: &reqwest::Client, blob: String) -> Outcome<String> {
        let digest = sha256(blob.as_bytes());
        let base = format!("http://{}/v2/fn", self.host());
        let begun = client.post(format!("{base}/blobs/uploads/")).send().await?.error_for_status()?;
        let location = begun.headers().get(LOCATION).ok_or("no place to upload to")?.to_str()?.to_owned();
        let mark = if location.contains('?') { '&' } else { '?' };
        let url = format!("{location}{mark}digest={digest}");
        client.put(url).body(blob).send().await?.error_for_status()?;
        Ok(digest)
    }

    /// Pushes the signature of an image, in cosign's classic form.
    async fn push_signature(
        &self,
        client: &reqwest::Client,
        image: &str,
        payload: String,
        signature: &str,
    ) -> Outcome {
        let size = payload.len();
        let blob = self.push_blob(client, payload).await?;
        let config = self.push_blob(client, "{}".to_owned()).await?;
        let manifest = format!(
            r#"{{"schemaVersion":2,"mediaType":"{MANIFEST}","config":{{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"{config}","size":2}},"layers":[{{"mediaType":"application/vnd.dev.cosign.simplesigning.v1+json","digest":"{blob}","size":{size},"annotations":{{"dev.cosignproject.cosign/signature":"{signature}"}}}}]}}"#
        );
        let url = format!("http://{}/v2/fn/manifests/{}.sig", self.host(), image.replace(':', "-"));
        client.put(url).header("content-type", MANIFEST).body(manifest).send().await?.error_for_status()?;
        Ok(())
    }

    /// Pushes the image under all its tags; gives the digest of its config.
    async fn push(&self, client: &reqwest::Client) -> Outcome<String> {
        let padding = "x".repeat(3000);
        let config = format!(
            r#"{{"os":"linux","architecture":"amd64","config":{{"Entrypoint":["/fn"],"Cmd":["-v"]}},"rootfs":{{"type":"layers","diff_ids":[]}},"history":[{{"comment":"{padding}"}}]}}"#
        );
        let base = format!("http://{}/v2/fn", self.host());
        let size = config.len();
        let digest = self.push_blob(client, config).await?;
        let manifest = format!(
            r#"{{"schemaVersion":2,"mediaType":"{MANIFEST}","config":{{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"{digest}","size":{size}}},"layers":[]}}"#
        );
        for round in 0..=ROUNDS {
            for number in 0..IMAGES_A_ROUND {
                let url = format!("{base}/manifests/{}", self.tag(round, number));
                let pushed = client.put(url).header("content-type", MANIFEST).body(manifest.clone()).send();
                pushed.await?.error_for_status()?;
            }
        }
        Ok(digest)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn sha256(bytes: &[u8]) -> String {
    let hex: String = digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}
