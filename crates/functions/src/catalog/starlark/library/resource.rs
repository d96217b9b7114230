//! `krmfn`: what kind of resource is this?

use starlark::environment::GlobalsBuilder;
use starlark::starlark_module;
use starlark::values::Value;
use starlark::values::dict::DictRef;

#[starlark_module]
pub(in crate::catalog::starlark) fn krmfn(builder: &mut GlobalsBuilder) {
    /// An empty part on either side matches anything.
    fn match_gvk<'v>(
        #[starlark(require = pos)] object: Value<'v>,
        #[starlark(require = pos)] api_version: &str,
        #[starlark(require = pos)] kind: &str,
    ) -> anyhow::Result<bool> {
        let split = |text: &str| {
            text.rsplit_once('/')
                .map_or((String::new(), text.to_owned()), |(g, v)| (g.to_owned(), v.to_owned()))
        };
        let (group, version) = split(&field(object, &["apiVersion"])?);
        let (wanted_group, wanted_version) = split(api_version);
        let matches = |a: &str, b: &str| a.is_empty() || b.is_empty() || a == b;
        Ok(matches(&group, &wanted_group)
            && matches(&version, &wanted_version)
            && matches(&field(object, &["kind"])?, kind))
    }

    fn match_name<'v>(
        #[starlark(require = pos)] object: Value<'v>,
        #[starlark(require = pos)] name: &str,
    ) -> anyhow::Result<bool> {
        Ok(field(object, &["metadata", "name"])? == name)
    }

    fn match_namespace<'v>(
        #[starlark(require = pos)] object: Value<'v>,
        #[starlark(require = pos)] namespace: &str,
    ) -> anyhow::Result<bool> {
        Ok(field(object, &["metadata", "namespace"])? == namespace)
    }
}

/// The text of a field; empty if it is missing or no string.
fn field(object: Value<'_>, path: &[&str]) -> anyhow::Result<String> {
    if DictRef::from_value(object).is_none() {
        anyhow::bail!("expected exactly one object, got 0");
    }
    let mut value = Some(object);
    for part in path {
        value = value.and_then(DictRef::from_value).and_then(|dict| dict.get_str(part));
    }
    Ok(value.and_then(Value::unpack_str).unwrap_or_default().to_owned())
}
