//! From flags to what the service does about registries.

use std::path::PathBuf;

use loggia_registry::{Keychain, PrivateRegistries, PrivateRegistry, Settings, Timeouts};

use crate::config::{PolicyConfig, UsageError};
use crate::flags::RegistryFlags;

/// What the flags say about registries. Nothing is read yet. Registries that the allowed images name may be in a private
/// network, and those of `from_environment` if no flag lists others.
pub(crate) fn settings(
    flags: &RegistryFlags,
    policy: &PolicyConfig,
    from_environment: Option<&str>,
) -> Result<Settings, UsageError> {
    let RegistryFlags {
        enable_private_registries,
        registry_auth_secret_path,
        enable_private_registries_tls,
        tls_secret_path,
        public_image_prefixes,
        image_metadata_ttl,
        registry_timeout,
        plain_http_registries,
        private_registries,
        registry_realms,
    } = flags;
    let own_authorities = *enable_private_registries && *enable_private_registries_tls;
    let list = |text: &str| {
        let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
        items.map(str::to_owned).collect::<Vec<_>>()
    };
    let private = match private_registries.as_str() {
        "" => list(from_environment.unwrap_or_default()),
        listed => list(listed),
    };
    let private =
        private.iter().map(|text| text.parse::<PrivateRegistry>().map_err(UsageError::PrivateRegistry));
    let named = policy.images.allowed.iter().filter_map(|pattern| pattern.host());
    let named = named.map(|host| Ok(PrivateRegistry::host(host)));
    let private = private.chain(named).collect::<Result<_, _>>()?;
    let defaults = Settings::default();
    let total = registry_timeout.positive().unwrap_or(defaults.timeouts.total);
    Ok(Settings {
        auth_file: enable_private_registries.then(|| PathBuf::from(registry_auth_secret_path)),
        authorities: if own_authorities { vec![PathBuf::from(tls_secret_path)] } else { vec![] },
        public_prefixes: list(public_image_prefixes),
        keychain: Keychain::of_this_user(),
        plain_http: list(plain_http_registries),
        private: PrivateRegistries::Listed(private),
        realms: list(registry_realms),
        signatures: policy.signatures.clone(),
        ttl: image_metadata_ttl.positive(),
        timeouts: Timeouts { total, ..defaults.timeouts },
        ..defaults
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::Flags;

    fn of(line: &[&str]) -> Settings {
        let flags = Flags::parse(line.iter().map(Into::into)).unwrap();
        settings(&flags.registries, &PolicyConfig::resolve(&flags.policy).unwrap(), Some("10.1.1.1")).unwrap()
    }

    #[test]
    fn private_registries_are_those_of_the_flag_and_of_the_allowed_images() {
        let settings = of(&[
            "--private-registries=registry.corp:5000, 10.0.0.0/8",
            "--allowed-images=harbor.corp/fns/*,*.io/x,ghcr.io",
            "--registry-realms=auth.corp",
        ]);
        let PrivateRegistries::Listed(listed) = settings.private else { panic!("all are allowed") };
        let listed: Vec<_> = listed.iter().map(ToString::to_string).collect();
        assert_eq!(listed, ["registry.corp:5000", "10.0.0.0/8", "harbor.corp", "ghcr.io"]);
        assert_eq!(settings.realms, ["auth.corp"]);
        assert_eq!(of(&[]).private, PrivateRegistries::Listed(vec![PrivateRegistry::host("10.1.1.1")]));
        let flags = Flags::parse(["--private-registries=http://x".into()]).unwrap();
        let error =
            super::settings(&flags.registries, &PolicyConfig::default(), None).unwrap_err().to_string();
        assert!(error.starts_with("--private-registries: `http://x` is not a registry"), "{error}");
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
