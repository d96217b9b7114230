// gatekeeper: `gator test`, which the original calls, between readers and writers of kyaml.
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/open-policy-agent/gatekeeper/v3/pkg/gator/test"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/kyaml/fn/framework"
	"sigs.k8s.io/kustomize/kyaml/kio"
	"sigs.k8s.io/kustomize/kyaml/yaml"
	k8syaml "sigs.k8s.io/yaml"
)

func main() {
	rw := &kio.ByteReadWriter{OmitReaderAnnotations: true, KeepReaderAnnotations: true}
	if err := framework.Execute(framework.ResourceListProcessorFunc(process), rw); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func process(list *framework.ResourceList) error {
	list.Results = nil
	var objects []*unstructured.Unstructured
	for _, item := range list.Items {
		text, err := item.String()
		if err != nil {
			return err
		}
		object := &unstructured.Unstructured{}
		if err := k8syaml.Unmarshal([]byte(text), object); err != nil {
			return err
		}
		objects = append(objects, object)
	}
	results, err := review(objects)
	if err != nil {
		results = framework.Results{{Message: err.Error(), Severity: framework.Error}}
	}
	results.Sort()
	list.Results = results
	if results.ExitCode() != 0 {
		return failure(results)
	}
	return nil
}

func review(objects []*unstructured.Unstructured) (framework.Results, error) {
	responses, err := test.Test(objects)
	if err != nil {
		return nil, err
	}
	var results framework.Results
	for _, found := range responses.Results() {
		object := found.ViolatingObject
		result := &framework.Result{
			Message: fmt.Sprintf("%s\nviolatedConstraint: %s", found.Msg, found.Constraint.GetName()),
			ResourceRef: &yaml.ResourceIdentifier{
				TypeMeta: yaml.TypeMeta{APIVersion: object.GetAPIVersion(), Kind: object.GetKind()},
				NameMeta: yaml.NameMeta{Name: object.GetName(), Namespace: object.GetNamespace()},
			},
			Severity: framework.Error,
		}
		switch found.EnforcementAction {
		case "dryrun":
			result.Severity = framework.Info
		case "warn":
			result.Severity = framework.Warning
		}
		if path, ok := object.GetAnnotations()["config.kubernetes.io/path"]; ok {
			result.File = &framework.File{Path: path}
			if index, ok := object.GetAnnotations()["config.kubernetes.io/index"]; ok {
				if result.File.Index, err = strconv.Atoi(index); err != nil {
					return nil, err
				}
			}
		}
		results = append(results, result)
	}
	return results, nil
}

// failure has the text that kyaml before 0.13 makes of results.
type failure framework.Results

func (results failure) Error() string {
	var lines []string
	for _, result := range results {
		line := fmt.Sprintf("[%s]", result.Severity)
		if id := result.ResourceRef; id != nil {
			var parts []string
			for _, part := range []string{id.APIVersion, id.Kind, id.Namespace, id.Name} {
				if part != "" {
					parts = append(parts, part)
				}
			}
			line += " " + strings.Join(parts, "/")
		}
		lines = append(lines, line+" : "+result.Message)
	}
	return strings.Join(lines, "\n\n")
}
