//! The modules a program can `load`.

mod codec;
mod mathematics;
mod pattern;
mod resource;

use starlark::environment::{FrozenModule, GlobalsBuilder};
use starlark::eval::FileLoader;

/// Answers `load`. A module that does not exist is an empty one, as in the original.
pub(super) struct Libraries;

impl FileLoader for Libraries {
    fn load(&self, path: &str) -> starlark::Result<FrozenModule> {
        let globals = GlobalsBuilder::new().with(|builder| fill(path, builder)).build();
        FrozenModule::from_globals(&globals)
            .map_err(|error| starlark::Error::new_other(anyhow::Error::from(error)))
    }
}

fn fill(path: &str, builder: &mut GlobalsBuilder) {
    match path {
        "encoding/base64.star" => builder.namespace("base64", codec::base64),
        "encoding/csv.star" => builder.namespace("csv", codec::csv),
        "encoding/json.star" => builder.namespace("json", codec::json),
        "encoding/yaml.star" => builder.namespace("yaml", codec::yaml),
        "hash.star" => builder.namespace("hash", codec::hash),
        "krmfn.star" => builder.namespace("krmfn", resource::krmfn),
        "math.star" => builder.namespace("math", mathematics::math),
        "re.star" => builder.namespace("re", pattern::re),
        // They load, so that a program that names them runs; they have no members, and the manual says so.
        "bsoup.star" => builder.namespace("bsoup", |_| {}),
        "geo.star" => builder.namespace("geo", |_| {}),
        "html.star" => builder.namespace("html", |_| {}),
        "http.star" => builder.namespace("http", |_| {}),
        "time.star" => builder.namespace("time", |_| {}),
        "xlsx.star" => builder.namespace("xlsx", |_| {}),
        "zipfile.star" => builder.namespace("ZipFile", |_| {}),
        _ => {}
    }
}
