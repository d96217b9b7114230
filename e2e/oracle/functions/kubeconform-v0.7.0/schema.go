package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/kptdev/krm-functions-sdk/go/fn"
)

// writeSchemas writes a file for each kind among the items that the document knows.
func writeSchemas(folder string, strict bool, items fn.KubeObjects) error {
	text, err := os.ReadFile(os.Getenv("KUBERNETES_OPENAPI"))
	if err != nil {
		return err
	}
	var document struct{ Definitions map[string]map[string]any }
	if err := json.Unmarshal(text, &document); err != nil {
		return err
	}
	folder = filepath.Join(folder, "master-standalone")
	if strict {
		folder += "-strict"
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	wanted := map[string]bool{}
	for _, item := range items {
		wanted[strings.ToLower(item.GetKind())] = true
	}
	for name, definition := range document.Definitions {
		parts := strings.Split(name, ".")
		group, version, kind := parts[len(parts)-3], parts[len(parts)-2], strings.ToLower(parts[len(parts)-1])
		if definition["x-kubernetes-group-version-kind"] == nil || !wanted[kind] || kind == "customresourcedefinition" {
			continue
		}
		file := kind + "-" + group + "-" + version + ".json"
		if group == "core" {
			file = kind + "-" + version + ".json"
		}
		schema := expand(definition, document.Definitions, strict)
		schema["type"] = "object"
		schema["$schema"] = "http://json-schema.org/schema#"
		identify(schema, definition)
		text, err := json.Marshal(schema)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, file), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// identify pins apiVersion and kind to what the definition is for.
func identify(schema, definition map[string]any) {
	properties := schema["properties"].(map[string]any)
	versions, kinds := []any{}, []any{}
	for _, entry := range definition["x-kubernetes-group-version-kind"].([]any) {
		entry := entry.(map[string]any)
		version := entry["version"].(string)
		if group := entry["group"].(string); group != "" {
			version = group + "/" + version
		}
		versions, kinds = append(versions, version), append(kinds, entry["kind"])
	}
	properties["apiVersion"] = map[string]any{"type": []string{"string", "null"}, "enum": versions}
	properties["kind"] = map[string]any{"type": []string{"string", "null"}, "enum": kinds[:1]}
}

// expand copies a schema with its references replaced; it may be null unless the caller says otherwise.
func expand(schema map[string]any, definitions map[string]map[string]any, strict bool) map[string]any {
	if reference, ok := schema["$ref"].(string); ok {
		name := strings.TrimPrefix(reference, "#/definitions/")
		switch name {
		case "io.k8s.apimachinery.pkg.util.intstr.IntOrString":
			return either("integer")
		case "io.k8s.apimachinery.pkg.api.resource.Quantity":
			return either("number")
		}
		return expand(definitions[name], definitions, strict)
	}
	out := map[string]any{}
	for key, value := range schema {
		switch key {
		case "type":
			out[key] = []any{value, "null"}
		case "items", "additionalProperties":
			out[key] = expand(value.(map[string]any), definitions, strict)
		case "properties":
			properties := map[string]any{}
			for name, property := range value.(map[string]any) {
				property := property.(map[string]any)
				expanded := expand(property, definitions, strict)
				if kind, ok := property["type"]; ok && isRequired(schema, name) {
					expanded["type"] = kind
				}
				properties[name] = expanded
			}
			out[key] = properties
			if strict {
				out["additionalProperties"] = false
			}
		case "required", "format", "enum":
			out[key] = value
		}
	}
	return out
}

func isRequired(schema map[string]any, name string) bool {
	required, _ := schema["required"].([]any)
	for _, one := range required {
		if one == name {
			return true
		}
	}
	return false
}

func either(other string) map[string]any {
	return map[string]any{"oneOf": []any{
		map[string]any{"type": []string{"string", "null"}}, map[string]any{"type": []string{other, "null"}},
	}}
}
