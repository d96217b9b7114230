//! Certificates for tests.

use std::fs;
use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

/// An authority, and the folder where it puts what it signs.
#[derive(Debug)]
pub struct Authority {
    folder: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.self_signed(&key).unwrap();
        fs::write(folder.path().join("ca.crt"), certificate.pem()).unwrap();
        Self { folder, issuer: Issuer::new(params, key) }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A certificate for these names and its key, as `NAME.crt` and `NAME.key`.
    pub fn sign(
        &self,
        name: &str,
        names: &[&str],
        purposes: &[ExtendedKeyUsagePurpose],
        year: i32,
    ) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages = purposes.to_vec();
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let files = (self.file(&format!("{name}.crt")), self.file(&format!("{name}.key")));
        // As a mounted Secret changes: whole, by a rename.
        for (file, text) in [(&files.1, key.serialize_pem()), (&files.0, certificate.pem())] {
            let fresh = file.with_extension("new");
            fs::write(&fresh, text).unwrap();
            fs::rename(&fresh, file).unwrap();
        }
        files
    }

    /// For a server of this machine.
    pub fn server(&self) -> (PathBuf, PathBuf) {
        self.sign("server", &["localhost", "127.0.0.1"], &[ExtendedKeyUsagePurpose::ServerAuth], 2100)
    }

    pub fn client(&self) -> (PathBuf, PathBuf) {
        self.sign("client", &["localhost", "127.0.0.1"], &[ExtendedKeyUsagePurpose::ClientAuth], 2100)
    }
}
