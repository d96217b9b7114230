//! Certificates for tests.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    SanType,
};

/// An authority, and the folder where it puts what it signs.
#[derive(Debug)]
pub struct Authority {
    folder: tempfile::TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        fs::write(folder.path().join("ca.crt"), issuer.pem()).unwrap();
        Self { folder, issuer }
    }

    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A certificate for these names (hosts, addresses, URIs) and its key, as `NAME.crt` and `NAME.key`.
    pub fn sign(
        &self,
        name: &str,
        names: &[&str],
        purposes: &[ExtendedKeyUsagePurpose],
        year: i32,
    ) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let (uris, names): (Vec<_>, Vec<_>) =
            names.iter().map(ToString::to_string).partition(|name| name.contains("://"));
        let mut params = CertificateParams::new(names).unwrap();
        let uris = uris.into_iter().map(|uri| SanType::URI(uri.try_into().unwrap()));
        params.subject_alt_names.extend(uris);
        params.extended_key_usages = purposes.to_vec();
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let files = (self.file(&format!("{name}.crt")), self.file(&format!("{name}.key")));
        rotate(&files.1, &key.serialize_pem());
        rotate(&files.0, &certificate.pem());
        files
    }

    /// For a server of this machine.
    pub fn server(&self) -> (PathBuf, PathBuf) {
        self.sign("server", &["localhost", "127.0.0.1"], &[ExtendedKeyUsagePurpose::ServerAuth], 2100)
    }

    pub fn client(&self) -> (PathBuf, PathBuf) {
        self.sign("client", &["localhost", "127.0.0.1"], &[ExtendedKeyUsagePurpose::ClientAuth], 2100)
    }

    /// For a caller with these names.
    pub fn caller(&self, name: &str, names: &[&str]) -> (PathBuf, PathBuf) {
        self.sign(name, names, &[ExtendedKeyUsagePurpose::ClientAuth], 2100)
    }

    /// A certificate and its key, in PEM.
    pub fn certificate_for(&self, hosts: &[&str]) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let hosts: Vec<_> = hosts.iter().map(|&host| host.to_owned()).collect();
        let params = CertificateParams::new(hosts).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    /// A folder with the certificate of the authority alone, under a name.
    pub fn folder(&self, name: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(name), self.pem()).unwrap();
        let path = folder.path().to_owned();
        (folder, path)
    }
}

/// Writes a file as a mounted Secret changes: whole, by a rename.
pub fn rotate(file: &Path, text: &str) {
    let fresh = file.with_extension("new");
    fs::write(&fresh, text).unwrap();
    fs::rename(fresh, file).unwrap();
}

/// A certificate that signed itself and says that it is an authority, as `openssl req -x509` makes them.
pub fn self_signed(host: &str) -> (String, String) {
    let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}
