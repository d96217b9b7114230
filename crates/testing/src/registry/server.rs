//! Debian's registry, started for one test.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::{Authority, wait_for};

use super::free_port;
use super::image::Image;
use super::issuer::Issuer;

pub const USER: &str = "alice";
pub const PASSWORD: &str = "canary-pw-7Qx";
pub const NEW_PASSWORD: &str = "canary-new-8Rz";

/// Lines of htpasswd, by password.
const HASH: &str = "$2y$05$abcdefghijklmnopqrstuuS3ndWX.EFgzLWDxAQ5FvqFZUC3QoytO";
const NEW_HASH: &str = "$2y$05$abcdefghijklmnopqrstuukcRHG8C9DYaT6KTtrItokIC35ByhFf6";

/// A running registry; dropped, it is killed.
#[derive(Debug)]
pub struct Registry {
    process: Child,
    folder: TempDir,
    pub port: u16,
    creds: Option<String>,
}

/// How a registry is set up.
#[derive(Debug, Default)]
pub struct Setup<'a> {
    /// Serve over TLS with a certificate of this authority.
    pub tls: Option<&'a Authority>,
    /// Ask for [`USER`] and [`PASSWORD`].
    pub password: bool,
    /// Ask for a token of this issuer.
    pub tokens: Option<&'a Issuer>,
}

impl Registry {
    pub fn open() -> Self {
        Self::start(&Setup::default())
    }

    pub fn start(setup: &Setup<'_>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let path = |name: &str| folder.path().join(name);
        let mut config = format!(
            "version: 0.1\nlog: {{level: error, accesslog: {{disabled: true}}}}\nstorage:\n  filesystem: {{rootdirectory: {}}}\n  \
             delete: {{enabled: true}}\nhttp:\n  addr: 127.0.0.1:{port}\n  secret: test\n",
            path("data").display()
        );
        if let Some(authority) = setup.tls {
            let (certificate, key) = authority.certificate_for(&["localhost", "registry.test"]);
            fs::write(path("server.crt"), certificate).unwrap();
            fs::write(path("server.key"), key).unwrap();
            config += &format!(
                "  tls:\n    certificate: {}\n    key: {}\n",
                path("server.crt").display(),
                path("server.key").display()
            );
        }
        if setup.password {
            fs::write(path("htpasswd"), format!("{USER}:{HASH}\n")).unwrap();
            config +=
                &format!("auth:\n  htpasswd:\n    realm: test\n    path: {}\n", path("htpasswd").display());
        }
        if let Some(issuer) = setup.tokens {
            fs::write(path("issuer.crt"), issuer.certificate()).unwrap();
            config += &format!(
                "auth:\n  token:\n    realm: {}\n    service: test-registry\n    issuer: test-issuer\n    rootcertbundle: {}\n",
                issuer.realm(),
                path("issuer.crt").display()
            );
        }
        fs::write(path("config.yml"), config).unwrap();
        let process = serve(folder.path());
        let creds = (setup.password || setup.tokens.is_some()).then(|| format!("{USER}:{PASSWORD}"));
        let registry = Self { process, folder, port, creds };
        registry.wait();
        registry
    }

    /// `localhost:port`, which is also what certificates are for.
    pub fn host(&self) -> String {
        format!("localhost:{}", self.port)
    }

    pub fn image(&self, name: &str) -> String {
        format!("{}/{name}", self.host())
    }

    /// Pushes an image as `name`, by skopeo.
    pub fn push(&self, image: &Image, name: &str) -> String {
        let layout = tempfile::tempdir().unwrap();
        image.write(layout.path());
        let target = format!("docker://127.0.0.1:{}/{name}", self.port);
        let mut command = Command::new("skopeo");
        command.args(["--insecure-policy", "copy", "--quiet", "--all", "--dest-tls-verify=false"]);
        if let Some(creds) = &self.creds {
            command.arg(format!("--dest-creds={creds}"));
        }
        if let Some(format) = image.format() {
            command.arg(format!("--format={format}"));
        }
        let output =
            command.arg(format!("oci:{}:image", layout.path().display())).arg(target).output().unwrap();
        assert!(output.status.success(), "skopeo: {}", String::from_utf8_lossy(&output.stderr));
        self.image(name)
    }

    /// From now on only this password is right.
    pub fn change_password(&mut self) {
        fs::write(self.folder.path().join("htpasswd"), format!("{USER}:{NEW_HASH}\n")).unwrap();
        // The registry reads the file again when its time stamp is later, in whole seconds perhaps.
        self.restart();
    }

    fn restart(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        self.process = serve(self.folder.path());
        self.wait();
    }

    fn wait(&self) {
        let address = ("127.0.0.1", self.port);
        wait_for(|| TcpStream::connect(address).ok(), || "the registry does not start".to_owned());
    }
}

fn serve(folder: &Path) -> Child {
    let config: PathBuf = folder.join("config.yml");
    Command::new("docker-registry")
        .arg("serve")
        .arg(config)
        .env("OTEL_TRACES_EXPORTER", "none")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
