//! Whole packages: those of the conformance cases, and ones made up by seed.

use std::path::{Path, PathBuf};

use loggia_krm::Files;

use crate::question::{Question, read_files};
use crate::random::Random;

/// Every case that lies beside the repository, or none with a line that says so. They are read in place.
pub(crate) fn conformance() -> Option<Vec<Question>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance/cases");
    if !root.is_dir() {
        loggia_testing::left_out("no conformance cases in ../shared/conformance");
        return None;
    }
    let mut packages = Vec::new();
    find_cases(root, &mut packages);
    packages.retain(|package| package.is_dir());
    packages.sort();
    let mut questions = Vec::new();
    for package in &packages {
        let files = read_files(package);
        questions.extend([Question::Package(files.clone()), Question::Items(files.clone())]);
        // With nothing ignored there is more to read.
        let mut bare = files;
        bare.retain(|path, _| !path.ends_with(".krmignore"));
        questions.push(Question::Package(bare));
    }
    Some(questions)
}

fn find_cases(folder: PathBuf, cases: &mut Vec<PathBuf>) {
    if folder.join("case.json").is_file() {
        cases.push(folder.join("input"));
        return;
    }
    for entry in std::fs::read_dir(folder).expect("is a folder") {
        let path = entry.expect("can be read").path();
        if path.is_dir() {
            find_cases(path, cases);
        }
    }
}

pub(crate) fn generated(count: u64) -> Vec<Question> {
    (0..count)
        .flat_map(|seed| {
            let files = package(&mut Random::new(seed + 1));
            [Question::Package(files.clone()), Question::Items(files)]
        })
        .collect()
}

const FOLDERS: &[&str] =
    &["", "", "", "a/", "a/b/", "web/", "db/", "db/cache/", "x-y/", "x/", ".hidden/", "y.yaml.d/"];
const NAMES: &[&str] = &[
    "a.yaml",
    "b.yml",
    "c.json",
    "README.md",
    "z.yaml",
    ".yaml",
    "Kptfile",
    "kptfile",
    "K.YAML",
    "é.yaml",
    "d.yaml",
    "-.yaml",
    "a b.yaml",
    "notes.yaml.txt",
    "values.yaml",
];
const PATTERNS: &[&str] = &[
    "*.yaml",
    "/a.yaml",
    "a/",
    "!z.yaml",
    "# note",
    "db",
    "b/*.yml",
    "c.json",
    "[ab].y*",
    "",
    "  a.yaml",
    "a/b",
    "**/a.yaml",
    "\\#x",
    "?.yaml",
];
const DOCUMENTS: &[&str] = &[
    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: cm\ndata:\n  k: v\n",
    "# head\n\n# more\napiVersion: v1\nkind: A\nmetadata: {name: x}\n# foot\n",
    "kind: A\nmetadata:\n    name: wide\nspec:\n    list:\n      - 1\n      -   a: b\n          c: d # why\n",
    "kind: A\nmetadata:\n  annotations: {}\n",
    "kind: A\nmetadata:\n  annotations:\n    a: b\n    config.kubernetes.io/path: old.yaml # c\n  name: n\n",
    "kind: A\nmetadata:\n  annotations:\n    internal.config.kubernetes.io/index: 5\n    config.k8s.io/id: x\n",
    "kind: A\nmetadata:\n  annotations: {internal.config.kubernetes.io/path: \"q\", z: 1}\n",
    "apiVersion: v1\nkind: List\nitems:\n- kind: A\n- kind: B\n",
    "# only a comment\n",
    "\n",
    "null\n",
    "- a\n-   b: c\n",
    "[1, 2,   3]\n",
    "{\"kind\": \"A\", \"metadata\": {\"name\": \"j\"}, \"n\": [1, 2.50, \"<&>\", null, true]}\n",
    "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: p\npipeline:\n  mutators:\n    - image: x\n",
    "a: &x {b: 1}\nc: *x\n",
    "text: |\n  one\n  --- two\n  three\nmore: \"a\\tb\"\n",
    "kind: A\r\nmetadata:\r\n  name: dos\r\n",
    "kind: A\nmetadata:\n",
    "replicas: 3\nimage:\n  tag: \"1\"\n",
    "kind: A\nlist:\n- x\nother:\n  - y\n",
];
const FAULTS: &[&str] = &[
    "plain text\n",
    "a: [\n",
    "a: b: c\n",
    "metadata: [a]\n",
    "metadata: text\n",
    "metadata:\n  annotations: [a]\n",
    "a: *none\n",
    "\ta: b\n",
    "a: \"\\/\"\n",
];
const SEPARATORS: &[&str] =
    &["---\n", "---\n", "---\n", "--- # note\n", "---   \n", "---\n---\n", "--- text\n"];

fn package(random: &mut Random) -> Files {
    let mut files = Files::new();
    for _ in 0..=random.below(8) {
        let path = format!("{}{}", random.pick(FOLDERS), random.pick(NAMES));
        let content = file(random);
        files.insert(path, content.into_bytes());
    }
    for folder in ["", "a/", "db/"] {
        if random.one_in(3) {
            let lines: Vec<&str> = (0..random.below(4)).map(|_| random.pick(PATTERNS)).collect();
            files.insert(format!("{folder}.krmignore"), lines.join("\n").into_bytes());
        }
        if random.one_in(3) {
            files.insert(format!("{folder}Kptfile"), DOCUMENTS[14].into());
        }
    }
    // The original takes `x-y` for a part of package `x`; see the test of that.
    files.remove("x/Kptfile");
    files
}

fn file(random: &mut Random) -> String {
    let mut text = String::new();
    if random.one_in(6) {
        text.push_str("---\n");
    }
    for at in 0..=random.below(3) {
        if at > 0 {
            text.push_str(if random.one_in(40) { SEPARATORS[6] } else { random.pick(&SEPARATORS[..6]) });
        }
        text.push_str(if random.one_in(40) { random.pick(FAULTS) } else { random.pick(DOCUMENTS) });
    }
    if random.one_in(8) {
        text.truncate(text.trim_end().len());
    }
    text
}
