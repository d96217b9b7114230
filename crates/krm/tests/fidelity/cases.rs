//! Small cases with a point each; these are also the ones that are recorded.

use loggia_krm::Files;

use crate::question::Question;

fn files(entries: &[(&str, &str)]) -> Files {
    entries.iter().map(|(path, content)| ((*path).to_owned(), content.as_bytes().to_vec())).collect()
}

const CM: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: cm\n";
const KPTFILE: &str = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: p\n";

pub(crate) fn packages() -> Vec<Question> {
    let packages: &[&[(&str, &str)]] = &[
        &[("a.yaml", CM), ("Kptfile", KPTFILE), ("README.md", "text: [\n"), ("b.txt", CM)],
        &[("a.yaml", "# only\n"), ("b.yaml", ""), ("c.yaml", "---\n"), ("d.yaml", "null\n")],
        &[("a.yaml", "a:   1\n---\n# c\nb: 2\n---\n---\nc: 3\n"), ("b.yml", "x: [1,2]\n")],
        &[
            ("a.json", "{\"b\": 1, \"a\": \"<é>\"}\n"),
            ("b.json", "{\"a\": 1}\n---\n{\"b\": 2}\n"),
            ("c.json", "[1]\n"),
        ],
        &[("a.yaml", "- a\n-   b\n"), ("b.yaml", "# head\n\n- a\n"), ("c.yaml", "[]\n")],
        &[("a.yaml", "metadata:\n  annotations: {}\n  name: x\n"), ("b.yaml", "kind: A\nmetadata: {}\n")],
        &[("a.yaml", "kind: A\r\nlist:\r\n  - 1\r\n"), ("b.yaml", "\u{feff}kind: A\n")],
        &[("a.yaml", "kind: A\nlist:\n  - 1\n---\nkind: B\nlist:\n- 1\n---\nkind: C\nlist:\n    - 1\n")],
        &[
            (".krmignore", "a.yaml\n/sub\n!keep.yaml\n*.yml\n"),
            ("a.yaml", "a:  1\n"),
            ("x/a.yaml", "a:  1\n"),
            ("sub/b.yaml", "a:  1\n"),
            ("keep.yaml", "a:  1\n"),
            ("c.yml", "a:  1\n"),
        ],
        &[
            ("Kptfile", KPTFILE),
            (".krmignore", "b.yaml\n"),
            ("db/Kptfile", KPTFILE),
            ("db/b.yaml", "a:  1\n"),
            ("db/.krmignore", "c.yaml\n"),
            ("db/c.yaml", "a:  1\n"),
            ("c.yaml", "a:  1\n"),
            ("b.yaml", "a:  1\n"),
        ],
        &[("Kptfile", KPTFILE), (".krmignore", "db\n"), ("db/Kptfile", KPTFILE), ("db/b.yaml", "a:  1\n")],
        &[
            ("a-b/x.yaml", "a: 1\n"),
            ("a/x.yaml", "a: 1\n"),
            ("a.yaml", "a: 1\n"),
            ("B.yaml", "a: 1\n"),
            (".x.yaml", "a: 1\n"),
        ],
        &[("a.yaml", "apiVersion: v1\nkind: List\nitems:\n- kind: A\n")],
        &[(
            "a.yaml",
            "kind: A\nmetadata:\n  annotations:\n    config.kubernetes.io/path: other.yaml\n    b: c\n",
        )],
        &[(
            "a.yaml",
            "kind: A\nmetadata:\n  annotations:\n    internal.config.kubernetes.io/index: 7\n    config.k8s.io/id: 1\n",
        )],
        &[(
            "a.yaml",
            "kind: A\nmetadata:\n  annotations:\n    internal.config.kubernetes.io/package-path: /x\n",
        )],
        &[("a.yaml", CM), ("b.yaml", "a: [\n")],
        &[("a.yaml", "a: 1\n--- text\nb: 2\n")],
        &[("a.yaml", "text\n")],
        &[("a.yaml", "metadata: [a]\n")],
        &[("a.yaml", "metadata: text\n")],
        &[("a.yaml", "metadata:\n  annotations: [a]\n")],
        &[("a.yaml", "metadata:\n  annotations: text\n  name: x\n")],
        &[("a.yaml", "x: &x {a: b}\nmetadata: *x\n")],
        &[("sub/deep/a.yaml", "a: *none\n")],
        &[("a.yaml", "{\"a\": \"b\\/c\"}\n")],
        &[("a.yaml", "%YAML 1.1\n---\na: 1\n")],
        &[("a.yaml", "a: 1\n...\nb: 2\n"), ("b.yaml", "a: 1\n---"), ("c.yaml", "a: |\n  x\n---\nb: 2\n")],
        &[
            ("a.yaml", "metadata: {annotations: {a: b}, name: x}\n"),
            ("b.yaml", "metadata:\n  name: x\n  # c\n  annotations: # d\n    a: b\n"),
        ],
        &[],
    ];
    packages
        .iter()
        .flat_map(|entries| [Question::Package(files(entries)), Question::Items(files(entries))])
        .collect()
}

fn item(kind: &str, name: &str, annotations: &[(&str, &str)]) -> String {
    let mut text = format!("- kind: {kind}\n  metadata:\n    name: {name}\n");
    if !annotations.is_empty() {
        text.push_str("    annotations:\n");
        for (key, value) in annotations {
            text.push_str(&format!("      {key}: '{value}'\n"));
        }
    }
    text
}

pub(crate) fn writes() -> Vec<Question> {
    const PATH: &str = "internal.config.kubernetes.io/path";
    const INDEX: &str = "internal.config.kubernetes.io/index";
    const OLD_PATH: &str = "config.kubernetes.io/path";
    const OLD_INDEX: &str = "config.kubernetes.io/index";
    let seqindent = ("internal.config.kubernetes.io/seqindent", "wide");
    let streams: Vec<Vec<String>> = vec![
        vec![item("Secret", "a", &[]), item("ConfigMap", "b", &[])],
        vec![
            item("A", "x", &[(PATH, "a.yaml"), (INDEX, "1")]),
            item("B", "y", &[(PATH, "a.yaml"), (INDEX, "0")]),
        ],
        vec![item("A", "x", &[(OLD_PATH, "a.yaml"), (OLD_INDEX, "1")]), item("B", "y", &[(PATH, "a.yaml")])],
        vec![
            item("A", "x", &[(PATH, "a.yaml"), (INDEX, "10")]),
            item("B", "y", &[(PATH, "a.yaml"), (INDEX, "9")]),
            item("C", "z", &[(PATH, "a.yaml")]),
            item("D", "w", &[(PATH, "a.yaml")]),
        ],
        vec![item("A", "x", &[(PATH, "new/deep/a.yaml"), seqindent]) + "  list:\n  - 1\n"],
        vec![item("A", "x", &[(PATH, "a.json")])],
        vec![item("A", "x", &[(PATH, "a.json")]), item("A", "y", &[(PATH, "a.json")])],
        vec![item("A", "x", &[(PATH, "/etc/a.yaml")])],
        vec![item("A", "x", &[(PATH, "../a.yaml")])],
        vec![item("A", "x", &[(PATH, "b/../../a.yaml")])],
        vec![item("A", "x", &[(PATH, "a..b.yaml")])],
        vec![item("A", "x", &[(PATH, "sub")])],
        vec![item("A", "x", &[(PATH, ".")])],
        vec![item("A", "x", &[(PATH, "")])],
        vec![item("A", "x", &[(PATH, "a.yaml"), (INDEX, "")])],
        vec![item("A", "x", &[(PATH, "a.yaml"), (INDEX, "zz")])],
        vec![
            item("A", "x", &[(PATH, "a.yaml"), (INDEX, "zz")]),
            item("A", "y", &[(PATH, "a.yaml"), (INDEX, "0")]),
        ],
        vec![
            item("A", "x", &[(PATH, "a.yaml"), (INDEX, "99999999999999999999")]),
            item("A", "y", &[(PATH, "a.yaml"), (INDEX, "0")]),
        ],
        vec![item("A", "x", &[(PATH, "./a.yaml"), (INDEX, "0")])],
        vec!["- a: b\n".to_owned()],
        vec!["- kind: A\n  metadata:\n    namespace: ns\n    name: x\n".to_owned()],
        vec!["- kind: A\n  metadata:\n    namespace: ../up\n    name: x\n".to_owned()],
        vec!["- kind: A\n  metadata: [x]\n".to_owned()],
        vec!["- kind: A\n  metadata: text\n".to_owned()],
        vec!["- text\n".to_owned()],
        vec![item("A", "x", &[(PATH, "a.yaml"), (OLD_PATH, "b.yaml"), ("z", "1")])],
    ];
    let before = files(&[("sub/there.yaml", CM), ("a.yaml", "old: content\n")]);
    streams
        .into_iter()
        .map(|items| Question::Write(before.clone(), format!("kind: List\nitems:\n{}", items.concat())))
        .collect()
}

pub(crate) fn texts() -> Vec<Question> {
    let mut questions = Vec::new();
    for text in [
        "",
        "kind: A\n---\nkind: B\nlist:\n  - 1\n",
        "apiVersion: config.kubernetes.io/v1alpha1\nkind: ResourceList\nitems:\n- # c\n  kind: A\nfunctionConfig:\n  a: b\nresults:\n- message: x\n",
        "apiVersion: v1\nkind: List\nitems: []\n",
        "kind: ResourceList\n",
        "kind: List\nitems: []\n---\nkind: A\n",
    ] {
        questions.push(Question::Texts("stream", vec![text.to_owned()]));
    }
    for rest in [
        "",
        "foo: 1\n",
        "info: {a: b}\n",
        "pipeline:\n  mutators:\n  - image: a\n    foo: b\n    configMap: {k: {l: m}, n: []}\n",
        "pipeline: x\ninfo: [a]\nstatus: {conditions: {}}\n",
        "status:\n  renderStatus:\n    mutationSteps:\n    - exitCode: a long text\n",
        "metadata: {}\n",
    ] {
        let text = format!("apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: app\n{rest}");
        questions.push(Question::Texts("kptfile", vec![text]));
    }
    for (patterns, path, kind) in [
        ("*.yaml", "a.yaml", "file"),
        ("*.yaml\n!a.yaml", "a.yaml", "file"),
        ("/a.yaml", "a.yaml", "file"),
        ("dir/", "dir", "folder"),
        ("dir/", "dir.yaml", "file"),
        ("[ab].yaml", "b.yaml", "file"),
    ] {
        questions.push(Question::Texts("ignore", [patterns, path, kind].map(str::to_owned).to_vec()));
    }
    for image in ["set-labels", "a:b@c", "A/b", "a/B", "ghcr.io/x/y:v1", ""] {
        questions.push(Question::Texts("image", vec![image.to_owned()]));
    }
    questions
}
