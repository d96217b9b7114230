//! Public keys.

use std::fmt;

use data_encoding::HEXLOWER;
use ed25519_dalek::{Signature, VerifyingKey};
use ring::digest::{SHA256, digest};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer};
use sha2::{Digest as _, Sha512};
use webpki::{RawPublicKeyEntity, ring as algorithms};

/// What cosign signs with, by type of key: ECDSA with SHA-256 by default and with SHA-384 for P-384, Ed25519 (before
/// version 2.6), and RSA with PKCS #1.
static ALGORITHMS: [&dyn SignatureVerificationAlgorithm; 5] = [
    algorithms::ECDSA_P256_SHA256,
    algorithms::ECDSA_P384_SHA384,
    algorithms::ECDSA_P384_SHA256,
    algorithms::ED25519,
    algorithms::RSA_PKCS1_2048_8192_SHA256,
];

/// What precedes the 32 bytes of an Ed25519 key in its DER (RFC 8410).
const ED25519: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// A public key with a name for messages.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct PublicKey {
    name: String,
    spki: SubjectPublicKeyInfoDer<'static>,
    usable: Vec<usize>,
}

// === impl PublicKey ===

impl PublicKey {
    /// Reads the one public key of a PEM text.
    pub(super) fn parse(name: &str, pem: &[u8]) -> Result<Self, &'static str> {
        let mut found = SubjectPublicKeyInfoDer::pem_slice_iter(pem);
        let spki = match (found.next(), found.next()) {
            (Some(Ok(spki)), None) => spki,
            (Some(Ok(_)), Some(_)) => return Err("it holds more than one public key; list each by itself"),
            _ => return Err("it holds no public key in PEM (`-----BEGIN PUBLIC KEY-----`)"),
        };
        let mut usable = Vec::new();
        {
            let entity = RawPublicKeyEntity::try_from(&spki).map_err(|_| "its public key cannot be read")?;
            for (place, algorithm) in ALGORITHMS.iter().enumerate() {
                // Nobody signed this: the answer shows whether the algorithm is for this type of key.
                let tried = entity.verify_signature(*algorithm, b"", b"");
                if !matches!(tried, Err(webpki::Error::UnsupportedSignatureAlgorithmForPublicKeyContext(_))) {
                    usable.push(place);
                }
            }
        }
        if usable.is_empty() {
            return Err(
                "keys of its type are not supported; use ECDSA P-256 or P-384, Ed25519, or RSA from 2048 bits",
            );
        }
        Ok(Self { name: name.to_owned(), spki, usable })
    }

    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let Ok(entity) = RawPublicKeyEntity::try_from(&self.spki) else { return false };
        let mut algorithms = self.usable.iter().filter_map(|place| ALGORITHMS.get(*place));
        algorithms.any(|algorithm| entity.verify_signature(*algorithm, message, signature).is_ok())
            || self.verifies_hashed(message, signature)
    }

    /// Whether it is a signature with Ed25519ph, as cosign makes them since version 2.6.
    fn verifies_hashed(&self, message: &[u8], signature: &[u8]) -> bool {
        let key = self.spki.as_ref().strip_prefix(&ED25519).and_then(|key| VerifyingKey::try_from(key).ok());
        let (Some(key), Ok(signature)) = (key, Signature::from_slice(signature)) else { return false };
        key.verify_prehashed_strict(Sha512::new_with_prefix(message), None, &signature).is_ok()
    }

    /// Whether it is the same key under another name.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.spki.as_ref() == other.spki.as_ref()
    }

    /// The beginning of the SHA-256 of the key, as `openssl pkey -pubin -outform DER | sha256sum` has it.
    fn fingerprint(&self) -> String {
        HEXLOWER.encode(&digest(&SHA256, self.spki.as_ref()).as_ref()[..6])
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key `{}` (sha256 {}…)", self.name, self.fingerprint())
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
