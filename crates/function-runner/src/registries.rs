//! From flags to what the service does about registries.

use std::path::PathBuf;

use loggia_registry::{Keychain, Settings, Timeouts};

use crate::flags::RegistryFlags;

/// What the flags say about registries. Nothing is read yet.
pub(crate) fn settings(flags: &RegistryFlags) -> Settings {
    let RegistryFlags {
        enable_private_registries,
        registry_auth_secret_path,
        enable_private_registries_tls,
        tls_secret_path,
        public_image_prefixes,
        image_metadata_ttl,
        registry_timeout,
        plain_http_registries,
    } = flags;
    let own_authorities = *enable_private_registries && *enable_private_registries_tls;
    let list = |text: &str| {
        let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
        items.map(str::to_owned).collect()
    };
    let defaults = Settings::default();
    let total = registry_timeout.positive().unwrap_or(defaults.timeouts.total);
    Settings {
        auth_file: enable_private_registries.then(|| PathBuf::from(registry_auth_secret_path)),
        authorities: if own_authorities { vec![PathBuf::from(tls_secret_path)] } else { vec![] },
        public_prefixes: list(public_image_prefixes),
        keychain: Keychain::of_this_user(),
        plain_http: list(plain_http_registries),
        ttl: image_metadata_ttl.positive(),
        timeouts: Timeouts { total, ..defaults.timeouts },
        ..defaults
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::Flags;

    fn of(line: &[&str]) -> Settings {
        settings(&Flags::parse(line.iter().map(Into::into)).unwrap().registries)
    }

    #[test]
    fn credentials_and_certificates_are_used_only_where_the_flags_say_so() {
        let none = of(&["--enable-private-registries-tls"]);
        assert!(none.auth_file.is_none() && none.authorities.is_empty());
        let private = of(&["--enable-private-registries"]);
        assert_eq!(private.auth_file, Some("/var/tmp/config-secret/.dockerconfigjson".into()));
        assert!(private.authorities.is_empty());
        let tls =
            of(&["--enable-private-registries", "--enable-private-registries-tls", "--tls-secret-path=/t"]);
        assert_eq!(tls.authorities, [PathBuf::from("/t")]);
        assert_eq!(tls.public_prefixes, ["gcr.io/kpt-fn/"]);
    }

    #[test]
    fn limits_and_lists_reach_the_registry() {
        let settings = of(&[
            "--image-metadata-ttl=5m",
            "--registry-timeout=7s",
            "--plain-http-registries=a.io, b.io:5000,",
            "--public-image-prefixes=",
        ]);
        assert_eq!(settings.ttl.unwrap().as_secs(), 300);
        assert_eq!(settings.timeouts.total.as_secs(), 7);
        assert_eq!(settings.plain_http, ["a.io", "b.io:5000"]);
        assert!(settings.public_prefixes.is_empty());
        assert_eq!(of(&[]).ttl, None);
    }
}
