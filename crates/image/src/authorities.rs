//! The certificate authorities that a program in an image trusts.

use data_encoding::BASE64;
use webpki_root_certs::TLS_SERVER_ROOT_CERTS;

/// The authorities of Mozilla's root program, PEM: those of the locked version of `webpki-root-certs`, and nothing of the
/// machine that builds the image.
pub fn authorities() -> String {
    let mut bundle = String::new();
    for certificate in TLS_SERVER_ROOT_CERTS {
        bundle.push_str("-----BEGIN CERTIFICATE-----\n");
        let text = BASE64.encode(certificate);
        for line in text.as_bytes().chunks(64) {
            bundle.push_str(&String::from_utf8_lossy(line));
            bundle.push('\n');
        }
        bundle.push_str("-----END CERTIFICATE-----\n");
    }
    bundle
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundle_has_every_certificate_whole() {
        let bundle = authorities();
        let certificates: Vec<Vec<u8>> = bundle
            .split_terminator("-----END CERTIFICATE-----\n")
            .map(|one| one.strip_prefix("-----BEGIN CERTIFICATE-----\n").unwrap().replace('\n', ""))
            .map(|text| BASE64.decode(text.as_bytes()).unwrap())
            .collect();
        assert!(certificates.len() > 100, "{}", certificates.len());
        assert!(certificates.iter().map(Vec::as_slice).eq(TLS_SERVER_ROOT_CERTS.iter().map(AsRef::as_ref)));
    }
}
