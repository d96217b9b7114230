//! Kptfiles, patterns, results, image references and streams, made up by seed.

use loggia_krm::Files;

use crate::question::Question;
use crate::random::Random;

fn asked(mode: &'static str, count: u64, make: impl Fn(&mut Random) -> Vec<String>) -> Vec<Question> {
    (0..count).map(|seed| Question::Texts(mode, make(&mut Random::new(seed + 7)))).collect()
}

pub(crate) fn kptfiles(count: u64) -> Vec<Question> {
    asked("kptfile", count, |random| vec![kptfile(random)])
}

const FIELDS: &[&str] = &[
    "info:\n  description: words\n  keywords: [a, b]\n  readinessGates:\n  - conditionType: x\n",
    "info:\n  emails: a@example.com\n  site: {}\n",
    "info: []\n",
    "info:\n",
    "upstream:\n  type: git\n  git: {repo: r, directory: /, ref: main}\n  updateStrategy: [a]\n",
    "upstream: text that is long\n",
    "upstreamLock: {type: {}, git: {commit: 123, foo: bar}}\n",
    "pipeline:\n  mutators:\n  - image: a\n    configMap: {k: 1, l: yes, m: ~, n: 0x1F}\n  - exec: b\n    selectors:\n    - kind: A\n      labels: {a: b}\n    exclude: [{name: x}]\n",
    "pipeline:\n  mutators: {}\n  validators: x\n",
    "pipeline:\n  mutators:\n  - a\n  - [b]\n  - image: {c: d}\n  - configMap: [x]\n",
    "pipeline:\n  validators:\n  - image: a\n    image: b\n",
    "pipeline:\n  mutators:\n  - &f {image: a}\n  - *f\n",
    "inventory: {namespace: n, name: i, inventoryID: 5, labels: {a: [b]}}\n",
    "status:\n  conditions:\n  - {type: Ready, status: \"True\", message: \"a\\nb\"}\n",
    "status:\n  renderStatus:\n    mutationSteps:\n    - {exitCode: x, image: 1}\n    - {exitCode: 3}\n    errorSummary: |\n      one\n      two\n",
    "status: {renderStatus: {foo: 1, validationSteps: [{results: [{message: m, tags: {a: b}}]}]}}\n",
    "foo: bar\n",
    "? [a]\n: b\n",
    "info:\n  man: 2001-01-01\n  license: 1.50\n",
];
const METADATA: &[&str] = &[
    "metadata:\n  name: app\n",
    "metadata:\n  name: app\n  uid: x\n",
    "metadata: {labels: {a: b, c: 5}}\n",
    "",
    "metadata: x\n",
];

fn kptfile(random: &mut Random) -> String {
    let mut text = format!("apiVersion: kpt.dev/v1\nkind: Kptfile\n{}", random.pick(METADATA));
    for _ in 0..random.below(4) {
        text.push_str(random.pick(FIELDS));
    }
    text
}

/// Patterns at work on a package: what is read is written in another form, so what is ignored shows.
pub(crate) fn patterns(count: u64) -> Vec<Question> {
    let pieces = &[
        "a", "b", "*", "?", "/", "[a-b]", "[^a]", "\\", "*.yaml", ".yaml", "**", "dir", "!", "#", " ", "/a",
        "b/",
    ];
    let paths = [
        "a.yaml",
        "b.yaml",
        "a/a.yaml",
        "a/b.yaml",
        "dir/a.yaml",
        "a/dir/b.yaml",
        "b/a/ab.yaml",
        "b/dir/dir/a.yaml",
    ];
    (0..count)
        .map(|seed| {
            let random = &mut Random::new(seed + 7);
            let lines: Vec<String> = (0..=random.below(3)).map(|_| random.text(pieces, 5)).collect();
            let mut files: Files =
                paths.iter().map(|path| ((*path).to_owned(), b"a:   1\n".to_vec())).collect();
            files.insert(".krmignore".to_owned(), lines.join("\n").into_bytes());
            Question::Package(files)
        })
        .collect()
}

pub(crate) fn results(count: u64) -> Vec<Question> {
    let items = &[
        "- message: m\n  severity: error\n",
        "- message: a\n  severity: warning\n  file: {path: b.yaml}\n",
        "- message: a\n  severity: info\n  file: {path: a.yaml, index: 2}\n",
        "- message: z\n  severity: odd\n  resourceRef: {apiVersion: v1, kind: A, name: x, namespace: s}\n",
        "- message: y\n  resourceRef: {kind: B}\n  field: {path: a.b}\n",
        "- message: \"two\\nlines\"\n  field: {}\n  tags: {a: b}\n",
        "- resourceRef: {}\n",
        "- message: x\n  severity: error\n  field: {path: p, currentValue: a, proposedValue: b}\n",
        "- message: x\n  severity: error\n  field: {path: p, currentValue: a}\n",
    ];
    asked("results", count, |random| vec![format!("{}{}", random.pick(items), random.text(items, 5))])
}

pub(crate) fn images(count: u64) -> Vec<Question> {
    let pieces = &[
        "a",
        "b9",
        "A",
        ".",
        "_",
        "__",
        "-",
        "--",
        "/",
        "//",
        ":",
        ":5000",
        ":v1.2",
        "@",
        "ghcr.io/",
        "localhost:80/",
        "[::1]/",
        "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "@md5:00",
        " ",
        "0123456789abcdef0123456789abcdef",
    ];
    asked("image", count, |random| vec![random.text(pieces, 7)])
}

pub(crate) fn streams(count: u64) -> Vec<Question> {
    let documents = &[
        "kind: A\nmetadata: {name: x}\n",
        "# c\n\nkind: A\nlist:\n  - 1\n",
        "apiVersion: v1\nkind: List\nitems:\n- kind: A\n- # c\n  kind: B\n  list:\n    - 1\n",
        "apiVersion: config.kubernetes.io/v1beta1\nkind: ResourceList\nitems: []\nfunctionConfig: {a: b}\nresults:\n- message: x\n",
        "kind: ResourceList\nfunctionConfig:\n  kind: A\n",
        "kind: ResourceList\n",
        "- a\n- b\n",
        "kind: List\nitems:\n- metadata:\n    annotations:\n      config.kubernetes.io/index: '3'\n",
        "kind: List\nitems:\n",
        "text\n",
        "# only\n",
        "{\"kind\": \"List\", \"items\": [{\"kind\": \"A\"}]}\n",
    ];
    asked("stream", count, |random| {
        let mut text = random.pick(documents).to_owned();
        if random.one_in(3) {
            text.push_str("---\n");
            text.push_str(random.pick(&documents[..9]));
        }
        vec![text]
    })
    .into_iter()
    // A list beside nothing but comments is one document to us and two to the original.
    .filter(|question| !matches!(question, Question::Texts(_, texts) if texts[0].contains("# only") && texts[0].contains("---")))
    .collect()
}
