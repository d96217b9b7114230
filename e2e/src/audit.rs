//! What was asked of the API server, by its audit log.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use serde_json::Value;

/// The audit log from a moment on.
#[derive(Debug, Clone)]
pub struct Audit {
    path: PathBuf,
    from: u64,
}

/// One request, as the API server saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub user: String,
    pub verb: String,
    /// As in `pods` or `pods/log`; empty for what is no resource.
    pub resource: String,
    pub namespace: String,
    pub name: String,
    pub code: u64,
}

// === impl Audit ===

impl Audit {
    /// From now on.
    pub(crate) fn new(path: PathBuf) -> Self {
        let from = path.metadata().map_or(0, |metadata| metadata.len());
        Self { path, from }
    }

    /// The requests since then of a user (see `Runner::user`); a watch counts once, when it begins.
    pub fn requests(&self, user: &str) -> anyhow::Result<Vec<Request>> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.from))?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let mut requests = Vec::new();
        for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            let event: Value = serde_json::from_str(line)?;
            let request = Request::read(&event);
            // Long requests have two entries, and the second comes only when they end.
            let second = request.verb == "watch" && event["stage"] == "ResponseComplete";
            if request.user == user && !second {
                requests.push(request);
            }
        }
        Ok(requests)
    }
}

// === impl Request ===

impl Request {
    fn read(event: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let object = &event["objectRef"];
        let resource = match object["subresource"].as_str() {
            Some(part) => format!("{}/{part}", text(&object["resource"])),
            None => text(&object["resource"]),
        };
        Self {
            user: text(&event["user"]["username"]),
            verb: text(&event["verb"]),
            resource,
            namespace: text(&object["namespace"]),
            name: text(&object["name"]),
            code: event["responseStatus"]["code"].as_u64().unwrap_or_default(),
        }
    }
}
