// kubeconform: the original's validator on schemas made of Kubernetes' own OpenAPI document.
//
// The original comes with schema files that other programs made of that document; schema.go makes them as those do.
package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"strings"

	"github.com/kptdev/krm-functions-sdk/go/fn"
	"github.com/yannh/kubeconform/pkg/validator"
)

func main() {
	if err := fn.AsMain(fn.ResourceListProcessorFunc(process)); err != nil {
		os.Exit(1)
	}
}

// locations are those of the config, in order, or else the one with the schemas of Kubernetes.
func locations(get func(string) string, kubernetes string) []string {
	var all []string
	for _, location := range append([]string{get("schema_location")}, strings.Split(get("additional_schema_locations"), ",")...) {
		switch location {
		case "":
		case "default":
			all = append(all, kubernetes)
		default:
			all = append(all, location)
		}
	}
	if len(all) == 0 {
		return []string{kubernetes}
	}
	return all
}

func process(list *fn.ResourceList) (bool, error) {
	folder, err := os.MkdirTemp("", "kubeconform")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(folder)
	get := func(key string) string {
		value, _, _ := list.FunctionConfig.NestedString("data", key)
		return value
	}
	strict := strings.EqualFold(get("strict"), "true") || get("strict") == "1"
	skip := map[string]struct{}{}
	for _, kind := range strings.Split(get("skip_kinds"), ",") {
		skip[kind] = struct{}{}
	}
	if err := writeSchemas(folder, strict, list.Items); err != nil {
		return false, err
	}
	check, err := validator.New(locations(get, folder), validator.Opts{SkipKinds: skip, Strict: strict})
	if err != nil {
		return false, err
	}
	ok := true
	for _, object := range list.Items {
		var plain map[string]any
		if err := object.As(&plain); err != nil {
			return false, err
		}
		text, err := json.Marshal(plain)
		if err != nil {
			return false, err
		}
		for _, result := range check.Validate("stdin", io.NopCloser(bytes.NewReader(text))) {
			for _, found := range result.ValidationErrors {
				ok = false
				list.Results = append(list.Results, &fn.Result{
					Message: found.Msg, Severity: fn.Error,
					ResourceRef: &fn.ResourceRef{
						APIVersion: object.GetAPIVersion(), Kind: object.GetKind(),
						Name: object.GetName(), Namespace: object.GetNamespace(),
					},
					Field: &fn.Field{Path: strings.TrimPrefix(strings.ReplaceAll(found.Path, "/", "."), ".")},
					File:  &fn.File{Path: object.PathAnnotation(), Index: object.IndexAnnotation()},
				})
			}
		}
	}
	return ok, nil
}
