// Schemas writes the definitions of several Kubernetes versions in one compact file.
//
// The definitions are those of api/openapi-spec/swagger.json in the module k8s.io/kubernetes (Apache License 2.0),
// without descriptions and without extensions that say nothing about validity. A definition that several versions
// share is written once. Each line holds a bit mask of versions, a name and the definition, between tabs.
//
//	go run . > ../../crates/functions/src/schemas/kubernetes.tsv
//
// With the argument openapi it writes the whole document of the newest version instead.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
)

var versions = []string{
	"v1.29.6", "v1.30.14", "v1.31.14", "v1.32.13", "v1.33.13", "v1.34.4", "v1.35.4", "v1.36.3",
}

// Extensions that a validator reads.
var kept = map[string]bool{
	"x-kubernetes-group-version-kind":      true,
	"x-kubernetes-int-or-string":           true,
	"x-kubernetes-preserve-unknown-fields": true,
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "openapi" {
		_, err := os.Stdout.Write(document(versions[len(versions)-1]))
		check(err)
		return
	}
	masks := map[string]int{}
	for position, version := range versions {
		for name, definition := range definitions(version) {
			text, err := json.Marshal(strip(definition))
			check(err)
			masks[name+"\t"+string(text)] |= 1 << position
		}
	}
	lines := make([]string, 0, len(masks))
	for line := range masks {
		lines = append(lines, line)
	}
	sort.Strings(lines)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	fmt.Fprintf(out, "# k8s.io/kubernetes api/openapi-spec/swagger.json, Apache License 2.0: %s\n", strings.Join(versions, " "))
	for _, line := range lines {
		fmt.Fprintf(out, "%d\t%s\n", masks[line], line)
	}
}

// document reads what the module says of its API.
func document(version string) []byte {
	output, err := exec.Command("go", "mod", "download", "-json", "k8s.io/kubernetes@"+version).Output()
	check(err)
	var module struct{ Dir string }
	check(json.Unmarshal(output, &module))
	text, err := os.ReadFile(filepath.Join(module.Dir, "api/openapi-spec/swagger.json"))
	check(err)
	return text
}

func definitions(version string) map[string]any {
	var parsed struct{ Definitions map[string]any }
	check(json.Unmarshal(document(version), &parsed))
	return parsed.Definitions
}

// strip removes what does not decide about validity from a schema.
func strip(value any) any {
	schema, ok := value.(map[string]any)
	if !ok {
		return value
	}
	out := map[string]any{}
	for key, value := range schema {
		switch {
		case key == "description" || key == "default" || strings.HasPrefix(key, "x-") && !kept[key]:
		case key == "properties":
			properties := map[string]any{}
			for name, property := range value.(map[string]any) {
				properties[name] = strip(property)
			}
			out[key] = properties
		default:
			out[key] = strip(value)
		}
	}
	return out
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "schemas:", err)
		os.Exit(1)
	}
}
