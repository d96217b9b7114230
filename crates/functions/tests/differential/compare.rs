//! Runs both sides on the same inputs and tells what differs.

use std::collections::BTreeMap;

use loggia_functions::find;
use loggia_yaml::{Node, node_to_string, parse_all};

use crate::oracle::{Answer, Oracle};
use crate::recorded;
use crate::schema_files::AnyFile;

/// One comparison: a function at a version.
pub(crate) struct Comparison {
    pub(crate) function: &'static str,
    /// Ours.
    pub(crate) version: &'static str,
    /// The original that it is held against.
    pub(crate) original: &'static str,
    /// What the inputs are, which names the recording.
    pub(crate) inputs: &'static str,
    /// What is compared of the lists.
    pub(crate) level: Level,
    /// Differences on purpose: the reason, if this is one.
    pub(crate) excuse: fn(&str, &Answer, &Answer) -> Option<&'static str>,
}

/// What is compared of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// Everything that is written.
    Text,
    /// Everything but comments: the original loses some, and its host restores them.
    NoComments,
    /// Values: the original loses comments, quotes and the order of keys, and its host restores them.
    Values,
}

/// No difference is on purpose, except where the original crashes.
pub(crate) fn crash_only(_: &str, _: &Answer, theirs: &Answer) -> Option<&'static str> {
    (theirs.exit_code == 2 && theirs.stderr.contains("goroutine")).then_some("the original crashes")
}

/// What kyaml does to lists that hardly are any.
pub(crate) fn odd_list(input: &str, ours: &Answer, theirs: &Answer) -> Option<&'static str> {
    let has = |key: &str| input.lines().any(|line| line.starts_with(key));
    let refused =
        theirs.stderr.starts_with("wrong node kind: expected MappingNode") && theirs.stdout.is_empty();
    if refused || theirs.stderr.contains("wrong Node Kind for metadata") {
        // kyaml refuses to write a list with such a resource in it.
        Some("metadata that is no mapping")
    } else if theirs.stderr.contains("mismatched legacy and internal") {
        // Its host writes both alike.
        Some("path or index annotations that contradict each other")
    } else if ["path:", "index:"].iter().any(|end| is_half_spelled(input, end)) {
        // kyaml adds the other spelling; its host always writes both.
        Some("only one spelling of path or index")
    } else if ["path: null", "index: null"].iter().any(|end| input.contains(end)) {
        Some("path or index of null")
    } else if theirs.stderr.contains("node-referrerOriginal") {
        Some("an apiVersion of null")
    } else if !has("items:") && !has("functionConfig:") {
        // kyaml takes it for a resource and numbers it.
        Some("a list with neither items nor config")
    } else {
        crash_only(input, ours, theirs)
    }
}

/// As [`odd_list`], for functions on a kustomize of 2021.
pub(crate) fn early_kustomize(input: &str, ours: &Answer, theirs: &Answer) -> Option<&'static str> {
    if ours.exit_code == 1 && theirs.exit_code == 1 && theirs.stderr.contains("considering field") {
        return Some("the whole resource is printed behind the message");
    }
    odd_list(input, ours, theirs)
}

/// Whether only comments and styles differ.
pub(crate) fn same_values(ours: &Answer, theirs: &Answer) -> bool {
    ours.stderr == theirs.stderr
        && normal(&ours.stdout, Level::Values) == normal(&theirs.stdout, Level::Values)
}

/// As [`crash_only`]; and the framework of 2021 had other words for metadata that is none.
pub(crate) fn early(input: &str, ours: &Answer, theirs: &Answer) -> Option<&'static str> {
    let broken = [&theirs.stderr, &theirs.stdout].iter().any(|text| text.contains("wrong Node Kind for"));
    let reason = broken.then_some("metadata that is no mapping, in an early framework's words");
    crash_only(input, ours, theirs).or(reason)
}

/// Whether an annotation is there in its newer or older spelling alone.
fn is_half_spelled(input: &str, end: &str) -> bool {
    let internal = input.matches(&format!("internal.config.kubernetes.io/{end}")).count();
    let both = input.matches(&format!("config.kubernetes.io/{end}")).count();
    both != 2 * internal
}

impl Comparison {
    /// Compares on all inputs, or on the recorded ones where there is no original. Fails on the first difference
    /// and counts the others.
    pub(crate) fn run(&self, inputs: impl Iterator<Item = String>) {
        let Some(oracle) = Oracle::find(self.function, self.original) else {
            return self.run_recorded();
        };
        let mut tally = Tally::default();
        let mut samples = Vec::new();
        for input in inputs {
            let theirs = oracle.ask(&input);
            self.check(&input, &theirs, &mut tally);
            if samples.len() < recorded::SAMPLE && theirs.exit_code < 2 {
                samples.push((input, theirs));
            }
        }
        if std::env::var_os("LOGGIA_RECORD").is_some() {
            recorded::write(self.function, self.original, self.inputs, &samples);
        }
        tally.settle(self);
    }

    fn run_recorded(&self) {
        let mut tally = Tally::default();
        for (input, theirs) in recorded::read(self.function, self.original, self.inputs) {
            self.check(&input, &theirs, &mut tally);
        }
        tally.settle(self);
    }

    fn check(&self, input: &str, theirs: &Answer, tally: &mut Tally) {
        let image = format!("{}:{}", self.function, self.version);
        let output = find(&image).unwrap_or_else(|| panic!("{image} is not in the catalog")).1.filter_within(
            input.as_bytes(),
            &AnyFile,
            loggia_functions::Limits::GENEROUS,
        );
        let ours = Answer { stdout: output.stdout, stderr: output.stderr, exit_code: output.exit_code };
        tally.total += 1;
        tally.failures += usize::from(theirs.exit_code != 0);
        if ours == *theirs {
            tally.exact += 1;
            return;
        }
        let same = ours.exit_code == theirs.exit_code
            && ours.stderr == theirs.stderr
            && normal(&ours.stdout, self.level) == normal(&theirs.stdout, self.level);
        if same {
            return;
        }
        match (self.excuse)(input, &ours, theirs) {
            Some(reason) => *tally.excused.entry(reason).or_default() += 1,
            None => {
                tally.different += 1;
                let description = describe(input, &ours, theirs, self.level);
                if tally.first.is_some() && tally.different < 8 {
                    let differing = description.rsplit("--- differing\n").next().unwrap_or_default();
                    println!("another difference:\n{differing}");
                }
                tally.first.get_or_insert(description);
            }
        }
    }
}

#[derive(Default)]
struct Tally {
    total: usize,
    exact: usize,
    failures: usize,
    different: usize,
    excused: BTreeMap<&'static str, usize>,
    first: Option<String>,
}

impl Tally {
    fn settle(self, comparison: &Comparison) {
        let Comparison { function, version, original, inputs, .. } = comparison;
        let Self { total, exact, failures, different, excused, first } = self;
        println!(
            "{function}:{version} against {original}: {total} {inputs}, {exact} the same to the byte, \
             {failures} of them failures, {different} different, on purpose: {excused:?}"
        );
        assert!(total > 0, "{function}: neither an original nor recorded answers");
        assert!(first.is_none(), "{different} of {total} differ, the first:\n{}", first.unwrap_or_default());
    }
}

/// The text of a list after one more reading and writing.
fn normal(stdout: &str, level: Level) -> String {
    let Ok(mut documents) = parse_all(stdout) else { return stdout.to_owned() };
    let mut out = String::new();
    for document in &mut documents {
        match level {
            Level::Text => {}
            Level::NoComments => uncomment(&mut document.root),
            Level::Values => strip(&mut document.root),
        }
        out += &node_to_string(&document.root);
    }
    out
}

/// Takes away comments.
fn uncomment(node: &mut Node) {
    node.clear_comments();
    for pair in node.pairs_mut().into_iter().flatten() {
        uncomment(&mut pair.key);
        uncomment(&mut pair.value);
    }
    node.items_mut().into_iter().flatten().for_each(uncomment);
}

/// Takes away what the host restores.
fn strip(node: &mut Node) {
    node.clear_comments();
    node.set_flow(false);
    if let Some(text) = node.as_str().map(str::to_owned) {
        *node = Node::string_as_read(text);
    }
    if let Some(pairs) = node.pairs_mut() {
        for pair in pairs.iter_mut() {
            strip(&mut pair.key);
            strip(&mut pair.value);
        }
        pairs.sort_by(|a, b| a.key.scalar().cmp(&b.key.scalar()));
    } else if let Some(items) = node.items_mut() {
        items.iter_mut().for_each(strip);
    }
}

fn describe(input: &str, ours: &Answer, theirs: &Answer, level: Level) -> String {
    let show = |answer: &Answer| {
        let Answer { stdout, stderr, exit_code } = answer;
        format!("exit {exit_code}\nstderr: {stderr}\n{}", normal(stdout, level))
    };
    let (ours, theirs) = (show(ours), show(theirs));
    let mut differing = String::new();
    let (left, right): (Vec<&str>, Vec<&str>) = (ours.lines().collect(), theirs.lines().collect());
    let lines = left.len().max(right.len());
    for at in 0..lines {
        let (a, b) = (left.get(at).unwrap_or(&"(end)"), right.get(at).unwrap_or(&"(end)"));
        if a != b {
            differing += &format!("line {at}\n  ours:   {a}\n  theirs: {b}\n");
            if differing.len() > 600 {
                break;
            }
        }
    }
    format!("--- input\n{input}--- ours\n{ours}--- theirs\n{theirs}--- differing\n{differing}")
}
