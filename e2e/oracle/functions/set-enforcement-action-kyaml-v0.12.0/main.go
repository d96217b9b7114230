// set-enforcement-action on kyaml's framework of its time. The catalog's module is not to be had, so what it does
// with the framework is written down here.
package main

import (
	"errors"
	"fmt"
	"os"

	"sigs.k8s.io/kustomize/kyaml/fn/framework"
	"sigs.k8s.io/kustomize/kyaml/fn/framework/command"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

func main() {
	process := func(list *framework.ResourceList) error {
		list.Result = &framework.Result{Name: "set-enforcement-action"}
		action, err := configure(list.FunctionConfig)
		if err == nil {
			list.Result.Items, err = apply(list.Items, action)
		}
		if err != nil {
			message := fmt.Sprintf("failed to process policies: %s", err)
			list.Result.Items = []framework.ResultItem{{Message: message, Severity: framework.Error}}
		}
		return err
	}
	cmd := command.Build(framework.ResourceListProcessorFunc(process), command.StandaloneEnabled, false)
	if cmd.Execute() != nil {
		os.Exit(1)
	}
}

func configure(config *yaml.RNode) (string, error) {
	data := config.GetDataMap()
	if len(data) != 1 {
		return "", errors.New("expecting exactly 1 enforcementAction as part of the ConfigMap")
	}
	switch action := data["enforcementAction"]; action {
	case "deny", "warn", "dryrun":
		return action, nil
	}
	return "", errors.New("expected values for enforcementAction are [deny] or [warn] or [dryrun]")
}

func apply(items []*yaml.RNode, action string) ([]framework.ResultItem, error) {
	var results []framework.ResultItem
	for _, item := range items {
		if item.IsNilOrEmpty() {
			continue
		}
		meta, err := item.GetMeta()
		if err != nil {
			return nil, err
		}
		if meta.Name == "" || meta.Kind == "" || meta.APIVersion != "constraints.gatekeeper.sh/v1beta1" {
			continue
		}
		spec := yaml.LookupCreate(yaml.ScalarNode, "spec")
		if err := item.PipeE(spec, yaml.SetField("enforcementAction", yaml.NewScalarRNode(action))); err != nil {
			return nil, err
		}
		path := item.GetAnnotations()["internal.config.kubernetes.io/path"]
		if path == "" {
			path = item.GetAnnotations()["config.kubernetes.io/path"]
		}
		results = append(results, framework.ResultItem{
			Message:  fmt.Sprintf("Policy name: [%s]", item.GetName()),
			File:     framework.File{Path: path},
			Severity: framework.Info,
		})
	}
	if len(results) == 0 {
		message := fmt.Sprintf("Found no policy to set to [%s]", action)
		return []framework.ResultItem{{Message: message, Severity: framework.Warning}}, nil
	}
	message := fmt.Sprintf("Number of policies set to [%s]: %d", action, len(results))
	return append([]framework.ResultItem{{Message: message, Severity: framework.Info}}, results...), nil
}
