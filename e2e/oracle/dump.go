package main

import (
	"fmt"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// dump writes every node of every document as JSON, a document on a line. Fields that are empty are left out; the order
// of the others is fixed, so two dumps are equal exactly when the trees are.
func dump(text []byte) (string, error) {
	documents, err := parse(text)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, node := range documents {
		dumpNode(&out, node)
		out.WriteByte('\n')
	}
	return out.String(), nil
}

var kindNames = map[yaml.Kind]string{
	yaml.DocumentNode: "document",
	yaml.MappingNode:  "mapping",
	yaml.SequenceNode: "sequence",
	yaml.ScalarNode:   "scalar",
	yaml.AliasNode:    "alias",
}

var styleNames = []struct {
	style yaml.Style
	name  string
}{
	{yaml.TaggedStyle, "tagged"},
	{yaml.DoubleQuotedStyle, "double"},
	{yaml.SingleQuotedStyle, "single"},
	{yaml.LiteralStyle, "literal"},
	{yaml.FoldedStyle, "folded"},
	{yaml.FlowStyle, "flow"},
}

func dumpNode(out *strings.Builder, node *yaml.Node) {
	fmt.Fprintf(out, `{"kind":"%s"`, kindNames[node.Kind])
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(out, `,"%s":`, name)
			quote(out, value)
		}
	}
	field("tag", node.Tag)
	var styles []string
	for _, s := range styleNames {
		if node.Style&s.style != 0 {
			styles = append(styles, s.name)
		}
	}
	field("style", strings.Join(styles, "+"))
	field("anchor", node.Anchor)
	field("value", node.Value)
	field("head", node.HeadComment)
	field("line", node.LineComment)
	field("foot", node.FootComment)
	if node.Kind != yaml.DocumentNode {
		fmt.Fprintf(out, `,"at":"%d:%d"`, node.Line, node.Column)
	}
	if len(node.Content) > 0 {
		out.WriteString(`,"content":[`)
		for i, child := range node.Content {
			if i > 0 {
				out.WriteByte(',')
			}
			dumpNode(out, child)
		}
		out.WriteByte(']')
	}
	out.WriteByte('}')
}

// quote writes a JSON string with the fewest escapes, so that other programs can write the same one easily.
func quote(out *strings.Builder, s string) {
	out.WriteByte('"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			out.WriteByte('\\')
			out.WriteByte(c)
		case c < 0x20:
			fmt.Fprintf(out, `\u%04x`, c)
		default:
			out.WriteByte(c)
		}
	}
	out.WriteByte('"')
}
