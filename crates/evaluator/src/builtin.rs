//! Functions that run inside this process.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::{Answer, Call, Error, Evaluation, Evaluator};

/// Where the catalog's images live; a name without any of these is one of its short names.
const CATALOGS: [&str; 2] = ["ghcr.io/kptdev/krm-functions-catalog/", "gcr.io/kpt-fn/"];

/// What a built-in function does: plain code over bytes that may take its time.
type Run = dyn Fn(&Bytes) -> Result<Answer, String> + Send + Sync;

/// A table of functions by catalog name and version.
#[derive(Clone, Default)]
pub struct Builtin {
    functions: HashMap<&'static str, HashMap<&'static str, Arc<Run>>>,
}

// === impl Builtin ===

impl Builtin {
    /// The functions that are part of this crate.
    pub fn new() -> Self {
        Self::default().with("no-op", &["latest", "unstable"], |resource_list| {
            Ok(Answer { resource_list: resource_list.clone(), log: Bytes::new() })
        })
    }

    /// Adds a function under the versions that it implements exactly.
    #[must_use]
    pub fn with(
        mut self,
        name: &'static str,
        versions: &[&'static str],
        run: impl Fn(&Bytes) -> Result<Answer, String> + Send + Sync + 'static,
    ) -> Self {
        let run: Arc<Run> = Arc::new(run);
        let entry = self.functions.entry(name).or_default();
        entry.extend(versions.iter().map(|version| (*version, Arc::clone(&run))));
        self
    }

    /// The names of the functions, in order.
    pub fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.functions.keys().copied().collect();
        names.sort_unstable();
        names
    }

    fn find(&self, image: &str) -> Option<&Arc<Run>> {
        let name = CATALOGS.iter().find_map(|catalog| image.strip_prefix(catalog)).unwrap_or(image);
        let (name, version) = name.split_once(':').unwrap_or((name, "latest"));
        self.functions.get(name)?.get(version)
    }
}

impl Evaluator for Builtin {
    fn name(&self) -> &'static str {
        "builtin"
    }

    fn evaluate<'a>(&'a self, call: &'a Call) -> Evaluation<'a> {
        Box::pin(async move {
            let image = || call.image.clone();
            let run =
                self.find(&call.image).ok_or_else(|| Error::NotFound { image: image(), asked: vec![] })?;
            let (run, resource_list) = (Arc::clone(run), call.resource_list.clone());
            let ended = tokio::task::spawn_blocking(move || run(&resource_list)).await;
            let defect = |reason| Error::Defect { image: image(), reason };
            ended.map_err(|_| defect("it panicked".to_owned()))?.map_err(defect)
        })
    }
}

impl fmt::Debug for Builtin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Builtin").field(&self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn evaluate(image: &str) -> Result<Answer, Error> {
        let builtin = Builtin::new().with("panics", &["latest"], |_| panic!("on purpose")).with(
            "fails",
            &["v1"],
            |_| Err("on purpose".to_owned()),
        );
        let call = Call { image: image.into(), resource_list: "items: []\n".into(), deadline: None };
        builtin.evaluate(&call).await
    }

    #[tokio::test]
    async fn a_function_is_found_under_each_of_its_names() {
        for image in [
            "no-op",
            "no-op:latest",
            "no-op:unstable",
            "gcr.io/kpt-fn/no-op:latest",
            "ghcr.io/kptdev/krm-functions-catalog/no-op",
        ] {
            assert_eq!(evaluate(image).await.unwrap().resource_list, "items: []\n", "{image}");
        }
    }

    #[tokio::test]
    async fn another_version_registry_or_digest_is_not_guessed_at() {
        for image in ["no-op:v9", "example.com/no-op", "no-op@sha256:0000", "no", "gcr.io/kpt-fn/x/no-op", ""]
        {
            assert!(matches!(evaluate(image).await, Err(Error::NotFound { .. })), "{image}");
        }
    }

    #[tokio::test]
    async fn a_panic_is_an_error_of_that_function() {
        let error = evaluate("panics").await.unwrap_err();
        assert_eq!(error.to_string(), r#"function "panics" could not be run: it panicked"#);
        let error = evaluate("fails:v1").await.unwrap_err();
        assert_eq!(error.to_string(), r#"function "fails:v1" could not be run: on purpose"#);
    }
}
