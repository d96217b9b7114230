//! go-yaml's words for values that do not fit the Go type they are decoded into.

use loggia_yaml::Node;

/// The text of all misfits of one document (go-yaml v3, `yaml.go: TypeError.Error`).
pub(crate) fn errors(misfits: &[String]) -> String {
    format!("yaml: unmarshal errors:\n  {}", misfits.join("\n  "))
}

/// The text of one misfit (go-yaml v3, `decode.go: decoder.terror`).
pub(crate) fn misfit(node: &Node, type_name: impl std::fmt::Display) -> String {
    let value = node.scalar().map(|text| format!(" `{}`", shortened(text))).unwrap_or_default();
    format!("line {}: cannot unmarshal {}{value} into {type_name}", node.line(), node.tag_text())
}

/// go-yaml counts bytes and may cut a character in two. Each byte of the part that is left over is printed as
/// U+FFFD, which is what Go's gRPC and JSON encoders make of it.
fn shortened(text: &str) -> String {
    const LONGEST: usize = 10;
    const KEPT: usize = 7;
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    let whole = text.floor_char_boundary(KEPT);
    let replaced = "\u{fffd}".repeat(KEPT - whole);
    format!("{}{replaced}...", &text[..whole])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded from go.yaml.in/yaml/v3, whose errors were written as JSON.
    #[test]
    fn a_long_value_is_cut_after_seven_bytes() {
        let cases = [
            ("abcdefghij", "abcdefghij"),
            ("abcdefghijk", "abcdefg..."),
            ("äöüäö", "äöüäö"),
            ("äöüäöü", "äöü\u{fffd}..."),
            ("abcdefäghijk", "abcdef\u{fffd}..."),
            ("日本語日本", "日本\u{fffd}..."),
            ("héllo wörld", "héllo ..."),
            ("abcde日xyzw", "abcde\u{fffd}\u{fffd}..."),
        ];
        for (value, printed) in cases {
            let document = loggia_yaml::parse_first(value).expect("is YAML").expect("is there");
            let expected = format!("line 1: cannot unmarshal !!str `{printed}` into int");
            assert_eq!(misfit(&document.root, "int"), expected);
        }
        let document = loggia_yaml::parse_first("[日本語日本]").expect("is YAML").expect("is there");
        assert_eq!(misfit(&document.root, "int"), "line 1: cannot unmarshal !!seq into int");
    }
}
