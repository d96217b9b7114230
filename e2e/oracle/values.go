package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// values decodes every document into plain values and writes them as canonical JSON, a document on a line. A plain scalar
// that reads as a timestamp stays its text, as JSON has no such type.
func values(text []byte) (string, error) {
	documents, err := parse(text)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, document := range documents {
		keepTimestamps(document)
		var value any
		if err := document.Decode(&value); err != nil {
			return "", err
		}
		canonical(&out, value)
		out.WriteByte('\n')
	}
	return out.String(), nil
}

func keepTimestamps(node *yaml.Node) {
	if node.Kind == yaml.ScalarNode && node.Tag == "!!timestamp" && node.Style&yaml.TaggedStyle == 0 {
		node.Tag = "!!str"
	}
	for _, child := range node.Content {
		keepTimestamps(child)
	}
}

// jsonValues does the same for a stream of JSON texts.
func jsonValues(text string) (string, error) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var out strings.Builder
	for {
		var value any
		err := decoder.Decode(&value)
		if err == io.EOF {
			return out.String(), nil
		}
		if err != nil {
			return "", err
		}
		canonical(&out, value)
		out.WriteByte('\n')
	}
}

// canonical writes one value. Keys are sorted bytewise and always strings: a key that is none is written as the text of
// its own canonical form. A number is written as an integer whenever it is one.
func canonical(out *strings.Builder, value any) {
	switch v := value.(type) {
	case nil:
		out.WriteString("null")
	case bool, int, int64, uint64:
		fmt.Fprint(out, v)
	case float64:
		out.WriteString(number(v))
	case json.Number:
		if f, err := v.Float64(); err == nil && strings.ContainsAny(v.String(), ".eE") {
			out.WriteString(number(f))
		} else {
			out.WriteString(v.String())
		}
	case string:
		quote(out, readable(v))
	case time.Time:
		quote(out, v.Format(time.RFC3339Nano))
	case []any:
		out.WriteByte('[')
		for i, item := range v {
			if i > 0 {
				out.WriteByte(',')
			}
			canonical(out, item)
		}
		out.WriteByte(']')
	case map[string]any:
		fields := make(map[string]any, len(v))
		for key, item := range v {
			fields[readable(key)] = item
		}
		object(out, fields)
	case map[any]any:
		fields := make(map[string]any, len(v))
		for key, item := range v {
			fields[keyText(key)] = item
		}
		object(out, fields)
	default:
		panic(fmt.Sprintf("no canonical form for %T", value))
	}
}

func object(out *strings.Builder, fields map[string]any) {
	keys := make([]string, 0, len(fields))
	for key := range fields {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	out.WriteByte('{')
	for i, key := range keys {
		if i > 0 {
			out.WriteByte(',')
		}
		quote(out, key)
		out.WriteByte(':')
		canonical(out, fields[key])
	}
	out.WriteByte('}')
}

// readable is the text itself, or the hex digits of bytes that are no UTF-8, which only `!!binary` can give.
func readable(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return fmt.Sprintf("bytes %x", text)
}

func keyText(key any) string {
	if text, ok := key.(string); ok {
		return readable(text)
	}
	var out strings.Builder
	canonical(&out, key)
	return out.String()
}

func number(f float64) string {
	switch {
	case math.IsNaN(f):
		return `".nan"`
	case math.IsInf(f, 1):
		return `".inf"`
	case math.IsInf(f, -1):
		return `"-.inf"`
	case f == math.Trunc(f) && math.Abs(f) < 1e15:
		return strconv.FormatFloat(f+0, 'f', 0, 64)
	}
	return strconv.FormatFloat(f, 'e', -1, 64)
}
