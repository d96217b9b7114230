package main

import (
	"bytes"
	"fmt"
	"io"
	"strconv"

	"sigs.k8s.io/kustomize/kyaml/kio"
	"sigs.k8s.io/kustomize/kyaml/kio/kioutil"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// mode is a question the oracle can answer; blobs and args are the least it needs.
type mode struct {
	blobs, args int
	do          func(request) (string, error)
}

var modes = map[string]mode{
	"roundtrip": {blobs: 1, do: func(r request) (string, error) { return roundtrip(r.blobs[0], fileName(r)) }},
	"nodes":     {blobs: 1, args: 1, do: func(r request) (string, error) { return reemit(r.blobs[0], r.args[0]) }},
	"dump":      {blobs: 1, do: func(r request) (string, error) { return dump(r.blobs[0]) }},
	"values":    {blobs: 1, do: func(r request) (string, error) { return values(r.blobs[0]) }},
	"seqindent": {blobs: 1, do: func(r request) (string, error) { return yaml.DeriveSeqIndentStyle(string(r.blobs[0])), nil }},
	"marshal":   {blobs: 2, do: func(r request) (string, error) { return marshal(r.blobs) }},
	"setter":    {blobs: 3, do: func(r request) (string, error) { return set(r.blobs[0], r.blobs[1], r.blobs[2]) }},
	"scalar":    {blobs: 1, args: 3, do: func(r request) (string, error) { return scalar(r.blobs[0], r.args) }},
}

func fileName(r request) string {
	if len(r.blobs) > 1 {
		return string(r.blobs[1])
	}
	return "resources.yaml"
}

// roundtrip reads and writes one file's text the way a package is read and written: with the reader's annotations
// set on the way in and cleared on the way out, and each document's sequence style kept.
func roundtrip(text []byte, path string) (string, error) {
	nodes, err := (&kio.ByteReader{
		Reader:            bytes.NewReader(text),
		DisableUnwrapping: true,
		PreserveSeqIndent: true,
		WrapBareSeqNode:   true,
		SetAnnotations: map[string]string{
			kioutil.PathAnnotation:       path,
			kioutil.LegacyPathAnnotation: path,
		},
	}).Read()
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	err = kio.ByteWriter{
		Writer:           &out,
		ClearAnnotations: []string{kioutil.PathAnnotation, kioutil.LegacyPathAnnotation},
	}.Write(nodes)
	return out.String(), err
}

// parse decodes every document of a stream with one decoder.
func parse(text []byte) ([]*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var documents []*yaml.Node
	for {
		node := &yaml.Node{}
		err := decoder.Decode(node)
		if err == io.EOF {
			return documents, nil
		}
		if err != nil {
			return nil, err
		}
		documents = append(documents, node)
	}
}

// reemit parses a stream and writes its documents with one encoder. No annotation is involved.
func reemit(text []byte, style string) (string, error) {
	documents, err := parse(text)
	if err != nil {
		return "", err
	}
	return emit(documents, style)
}

// emit writes nothing for no documents; the encoder itself would fail to close a stream it never began.
func emit(documents []*yaml.Node, style string) (string, error) {
	if len(documents) == 0 {
		return "", nil
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoderWithOptions(&out, &yaml.EncoderOptions{SeqIndent: yaml.SequenceIndentStyle(style)})
	for _, node := range documents {
		if err := encoder.Encode(node); err != nil {
			return "", err
		}
	}
	err := encoder.Close()
	return out.String(), err
}

// marshal writes a map of strings; the texts are keys and values in turn.
func marshal(texts [][]byte) (string, error) {
	if len(texts)%2 != 0 {
		return "", fmt.Errorf("%d texts are not pairs", len(texts))
	}
	strings := map[string]string{}
	for i := 0; i < len(texts); i += 2 {
		strings[string(texts[i])] = string(texts[i+1])
	}
	out, err := yaml.Marshal(strings)
	return string(out), err
}

// set puts a string into a field of a mapping with kyaml's setter and writes the mapping.
func set(text, field, value []byte) (string, error) {
	node, err := yaml.Parse(string(text))
	if err != nil {
		return "", err
	}
	if err := node.PipeE(yaml.SetField(string(field), yaml.NewStringRNode(string(value)))); err != nil {
		return "", err
	}
	return node.String()
}

// scalar writes a scalar that no file ever held. The arguments are its tag without the `!!` (`-` for none), its style as
// go-yaml's bit set, and where it stands.
func scalar(value []byte, args []string) (string, error) {
	style, err := strconv.Atoi(args[1])
	if err != nil {
		return "", err
	}
	node := &yaml.Node{Kind: yaml.ScalarNode, Style: yaml.Style(style), Value: string(value)}
	if args[0] != "-" {
		node.Tag = "!!" + args[0]
	}
	plain := func(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: s} }
	root := &yaml.Node{Kind: yaml.MappingNode}
	switch args[2] {
	case "value":
		root.Content = []*yaml.Node{plain("k"), node}
	case "key":
		root.Content = []*yaml.Node{node, plain("v")}
	case "item":
		root = &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{node}}
	case "nested":
		inner := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{plain("k"), node}}
		root.Content = []*yaml.Node{plain("m"), inner}
	case "flow":
		flow := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle, Content: []*yaml.Node{node}}
		root.Content = []*yaml.Node{plain("k"), flow}
	case "flowkey":
		flow := &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle, Content: []*yaml.Node{node, plain("v")}}
		root.Content = []*yaml.Node{plain("k"), flow}
	default:
		return "", fmt.Errorf("unknown place %q", args[2])
	}
	return emit([]*yaml.Node{root}, "compact")
}
