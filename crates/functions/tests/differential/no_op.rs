use crate::compare::{Comparison, Level, crash_only};
use crate::generator::{any, ordinary, resource_list, seeds};

#[test]
fn no_op_answers_as_the_original() {
    let inputs = seeds().map(|mut random| {
        let config = random.one_in(2).then(|| ordinary(&mut random));
        resource_list(&mut random, config.as_ref(), any)
    });
    Comparison {
        function: "no-op",
        version: "latest",
        original: "sdk-v1.0.3",
        inputs: "lists",
        level: Level::Text,
        excuse: crash_only,
    }
    .run(inputs);
}

#[test]
fn what_is_no_list_is_refused_as_by_the_original() {
    let inputs = [
        "",
        "a: b\n",
        "kind: List\nitems: []\n",
        "kind: ResourceList\n",
        "kind: ResourceList\nitems: 5\n",
        "kind: ResourceList\nitems: [5]\n",
        "kind: ResourceList\nitems: []\nfunctionConfig: x\n",
        "kind: ResourceList\n---\nkind: ResourceList\n",
        "[1]\n",
        "kind: [\n",
        "kind: 5\n",
        "apiVersion: config.kubernetes.io/v1alpha1\nkind: ResourceList\nitems:\n- kind: A\nresults:\n  name: f\n  items:\n  - severity: error\n    message: m\n",
    ];
    Comparison {
        function: "no-op",
        version: "latest",
        original: "sdk-v1.0.3",
        inputs: "bad-input",
        level: Level::Text,
        excuse: crash_only,
    }
    .run(inputs.into_iter().map(str::to_owned));
}
