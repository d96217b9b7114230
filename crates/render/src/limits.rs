//! How much a render may take, and what it yields to.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use loggia_go::quote;
use loggia_krm::kptfile::Kptfile;
use loggia_krm::{FunctionResult, Resource, package};
use loggia_yaml::{Kind, Node};

/// How much a render may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// What is read of the package.
    pub read: package::Limits,
    /// How deep packages nest; 1 is a package without others in it.
    pub nesting: usize,
    /// How many functions one pipeline has, and how many selectors one function.
    pub steps: usize,
    /// The bytes of all resources after a function, and of all that functions report.
    pub output: usize,
    /// The flag that sets `output`, for messages.
    pub output_flag: &'static str,
}

impl Default for Limits {
    fn default() -> Self {
        let read = package::Limits::default();
        let output = usize::try_from(read.total_bytes).unwrap_or(usize::MAX);
        Self { read, nesting: 64, steps: 1000, output, output_flag: "--max-package-size" }
    }
}

// === impl Limits ===

impl Limits {
    /// Checks how deep a package is inside of others.
    pub(crate) fn check_nesting(&self, level: usize) -> Result<(), String> {
        if level <= self.nesting {
            return Ok(());
        }
        let most = self.nesting;
        Err(format!("packages nest more than {most} deep (--max-package-depth); nothing was rendered"))
    }

    /// Checks how much a pipeline has.
    pub(crate) fn check_pipeline(&self, kptfile: &Kptfile) -> Result<(), String> {
        let Some(pipeline) = &kptfile.pipeline else { return Ok(()) };
        let (most, count) = (self.steps, pipeline.mutators.len() + pipeline.validators.len());
        if count > most {
            return Err(format!(
                "the pipeline has {count} functions, more than the {most} that are allowed (--max-pipeline-steps)"
            ));
        }
        let mut steps = pipeline.mutators.iter().chain(&pipeline.validators);
        match steps.find(|step| step.selectors.len() + step.exclusions.len() > most) {
            Some(step) => Err(format!(
                "function {} has {} selectors, more than the {most} that are allowed (--max-pipeline-steps)",
                quote(step.display_name()),
                step.selectors.len() + step.exclusions.len()
            )),
            None => Ok(()),
        }
    }

    /// Checks how much resources take after a function.
    pub(crate) fn check_output(&self, function: &str, resources: &[Resource]) -> Result<(), String> {
        if !exceed(resources, self.output) {
            return Ok(());
        }
        let (name, most, flag) = (quote(function), self.output, self.output_flag);
        Err(format!("after function {name} the resources have more than {most} bytes ({flag})"))
    }

    /// Checks how much functions have reported.
    pub(crate) fn check_reports(&self, function: &str, bytes: usize) -> Result<(), String> {
        // A status that is somewhat too large for one message is the concern of its sender.
        let most = self.output.saturating_mul(4);
        if bytes <= most {
            return Ok(());
        }
        let (name, flag) = (quote(function), self.output_flag);
        Err(format!(
            "with function {name} the results of all functions have more than {most} bytes (four times {flag})"
        ))
    }
}

/// Whether resources take more bytes as text. The walk ends once that is certain: a function may have made a tree that
/// shares its parts in memory and would be endless as text.
fn exceed(resources: &[Resource], limit: usize) -> bool {
    let mut left = limit;
    let mut waiting: Vec<(&Node, usize)> = Vec::new();
    for resource in resources {
        waiting.push((resource.node(), 0));
        while let Some((node, depth)) = waiting.pop() {
            let comments = node.comments();
            let size = node.scalar().map_or(1, str::len)
                + [comments.head, comments.line, comments.foot].iter().map(|text| text.len()).sum::<usize>();
            // A child in block style is on a line of its own.
            let indent = if node.is_flow() { 1 } else { depth + 1 };
            let Some(rest) = left.checked_sub(size + node.len() * indent) else { return true };
            left = rest;
            if node.kind() != Kind::Alias {
                let deeper = if node.is_flow() { depth } else { depth + 1 };
                waiting.extend(node.items().iter().map(|item| (item, deeper)));
                let pairs = node.pairs().iter();
                waiting.extend(pairs.flat_map(|pair| [(&pair.key, deeper), (&pair.value, deeper)]));
            }
        }
    }
    false
}

/// About how many bytes what a function reports takes.
pub(crate) fn report_size(result: &FunctionResult) -> usize {
    let items = result.results.0.iter().map(|item| {
        let reference = item.resource_ref.as_ref().map_or(0, |reference| {
            reference.api_version.len()
                + reference.kind.len()
                + reference.name.len()
                + reference.namespace.len()
        });
        let field = item.field.as_ref().map_or(0, |field| {
            let values = [&field.current_value, &field.proposed_value];
            field.path.len() + values.into_iter().flatten().map(String::len).sum::<usize>()
        });
        let tags: usize = item.tags.iter().map(|(key, value)| key.len() + value.len() + 4).sum();
        let file = item.file.as_ref().map_or(0, |file| file.path.len());
        64 + item.message.len() + reference + field + file + tags
    });
    result.stderr.len() + items.sum::<usize>()
}

/// Lets others go on: a render whose functions never wait could not be cancelled otherwise.
pub(crate) fn yield_now() -> impl Future<Output = ()> + Send {
    struct Yield(bool);

    impl Future for Yield {
        type Output = ();

        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
            if std::mem::replace(&mut self.0, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        }
    }

    Yield(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(yaml: &str) -> Resource {
        Resource::from(loggia_yaml::parse_first(yaml).expect("is YAML").expect("is there"))
    }

    #[test]
    fn sizes_are_those_of_the_text_from_below() {
        let yaml = "kind: A\nmetadata:\n  name: a\ndata:\n  key: |\n    some text\n  list: [1, 2, 3]\n";
        let resources = [resource(yaml)];
        let size = (0..).find(|limit| !exceed(&resources, *limit)).expect("has a size");
        assert!((yaml.len() / 2..=yaml.len()).contains(&size), "{size} of {}", yaml.len());
    }

    #[test]
    fn a_tree_that_holds_itself_many_times_is_cut_short() {
        let mut node = Node::string("x");
        for _ in 0..200 {
            node = Node::from_items(vec![node.clone(), node]);
        }
        let tree = Resource::new(Node::from_pairs(vec![loggia_yaml::Pair::new("a", node)]));
        let begin = std::time::Instant::now();
        assert!(exceed(&[tree], 1 << 20));
        assert!(begin.elapsed() < std::time::Duration::from_secs(10));
        // Dropping it takes no time either: the parts are shared.
    }
}
