use super::*;

fn reach(address: &str) -> Reach {
    Reach::of(address.parse().unwrap())
}

#[test]
fn addresses_are_public_private_or_never_asked() {
    for public in
        ["8.8.8.8", "1.1.1.1", "172.32.0.1", "192.169.0.1", "100.128.0.1", "2606:4700::1", "64:ff9b::808:808"]
    {
        assert_eq!(reach(public), Reach::Public, "{public}");
    }
    for private in [
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "127.0.0.1",
        "127.9.9.9",
        "100.64.0.1",
        "198.18.0.1",
        "240.0.0.1",
        "::1",
        "fd00::1",
        "fc00::1",
        "fec0::1",
        "::ffff:10.0.0.1",
        "::10.0.0.1",
        "64:ff9b::a00:1",
        "64:ff9b:1::a00:1",
        "2002:a00:1::1",
        "::ffff:127.0.0.1",
        "::ffff:0:10.0.0.1",
    ] {
        assert_eq!(reach(private), Reach::Private, "{private}");
    }
    for never in [
        "169.254.169.254",
        "169.254.0.1",
        "fe80::1",
        "febf::1",
        "0.0.0.0",
        "0.1.2.3",
        "::",
        "224.0.0.1",
        "ff02::1",
        "255.255.255.255",
        "::ffff:169.254.169.254",
        "::169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::1",
        "fd00:ec2::254",
        "100.100.100.200",
        "192.0.0.192",
    ] {
        assert_eq!(reach(never), Reach::Never, "{never}");
    }
}

#[test]
fn a_private_registry_is_a_host_a_domain_or_a_network() {
    let names = |listed: &str, host: &str, port| {
        PrivateRegistries::Listed(vec![listed.parse().unwrap()]).names(host, port)
    };
    assert!(names("registry.corp", "Registry.corp", 443) && !names("registry.corp", "x.registry.corp", 443));
    assert!(
        names("registry.corp:5000", "registry.corp", 5000)
            && !names("registry.corp:5000", "registry.corp", 5001)
    );
    assert!(
        names("*.corp.io", "a.b.corp.io", 1)
            && !names("*.corp.io", "corp.io", 1)
            && !names("*.corp.io", "evilcorp.io", 1)
    );
    assert!(names("10.0.0.0/8", "10.9.9.9", 1) && !names("10.0.0.0/8", "11.0.0.1", 1));
    assert!(
        names("fd00::/8", "fd12::1", 1)
            && !names("fd00::/8", "10.0.0.1", 1)
            && names("0.0.0.0/0", "9.9.9.9", 1)
    );
    assert!(
        names("localhost", "localhost", 5000)
            && names("[::1]:5000", "::1", 5000)
            && names("registry:5000", "registry", 5000)
    );
    assert!(!names("10.0.0.1/32", "registry.corp", 1));
    for wrong in ["", "*", "a b", "10.0.0.0/33", "http://x", "x/y", "a..b", "10.0.0.0/-1", "*.", "\u{1b}[0m"]
    {
        let error = wrong.parse::<PrivateRegistry>().unwrap_err().to_string();
        assert!(!error.contains('\u{1b}'), "{error}");
    }
    for text in ["registry.corp:5000", "*.corp.io", "10.0.0.0/8", "localhost", "registry"] {
        assert_eq!(text.parse::<PrivateRegistry>().unwrap().to_string(), text);
    }
}

#[tokio::test]
async fn a_name_that_leads_to_this_machine_is_checked_when_it_is_resolved() {
    let resolve = async |private, listed: &[&str], proxies: &[&str]| {
        let listed = PrivateRegistries::Listed(listed.iter().map(|text| text.parse().unwrap()).collect());
        let proxies = proxies.iter().map(|&text| text.to_owned()).collect();
        let resolver = Resolver { private, listed, proxies };
        resolver.resolve("localhost".parse().unwrap()).await.map(Iterator::count)
    };
    let error = resolve(false, &[], &[]).await.unwrap_err();
    assert_eq!(error.downcast_ref::<Forbidden>().unwrap().reach, Reach::Private);
    assert!(resolve(true, &[], &[]).await.is_ok());
    assert!(resolve(false, &["127.0.0.0/8", "::1/128"], &[]).await.is_ok());
    assert!(resolve(false, &[], &["LOCALHOST"]).await.is_ok());
}

#[test]
fn proxies_are_those_of_the_environment() {
    let variable = |name: &str| match name {
        "HTTPS_PROXY" => Some("http://user:pass@proxy.corp:3128".to_owned()),
        "http_proxy" => Some("other.corp:80".to_owned()),
        _ => None,
    };
    assert_eq!(*proxies(variable), ["other.corp", "proxy.corp"].map(str::to_owned));
}
