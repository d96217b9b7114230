// set-labels 0.1 on kustomize's label filter. The catalog's module is not to be had, so config and results are written
// down here; the filter, its table, the resource map and the framework are the original's own.
package main

import (
	"errors"
	"fmt"
	"os"

	"sigs.k8s.io/kustomize/api/filters/labels"
	"sigs.k8s.io/kustomize/api/hasher"
	"sigs.k8s.io/kustomize/api/konfig/builtinpluginconsts"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/fn/framework"
	"sigs.k8s.io/kustomize/kyaml/fn/framework/command"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"
)

type plugin struct {
	Labels                map[string]string `json:"labels,omitempty"`
	FieldSpecs            []types.FieldSpec `json:"fieldSpecs,omitempty"`
	AdditionalLabelFields []types.FieldSpec `json:"additionalLabelFields,omitempty"`
}

func main() {
	process := func(list *framework.ResourceList) error {
		err := run(list)
		if err == nil {
			return nil
		}
		item := framework.ResultItem{Message: err.Error(), Severity: framework.Error}
		list.Result = &framework.Result{Name: "set-labels", Items: []framework.ResultItem{item}}
		return list.Result
	}
	program := command.Build(framework.ResourceListProcessorFunc(process), command.StandaloneEnabled, false)
	if program.Execute() != nil {
		os.Exit(1)
	}
}

func run(list *framework.ResourceList) error {
	conf, err := configure(list.FunctionConfig)
	if err != nil {
		return fmt.Errorf("failed to configure function: %w", err)
	}
	if list.Items, err = apply(list.Items, conf); err != nil {
		return fmt.Errorf("failed to run function: %w", err)
	}
	return nil
}

func configure(node *kyaml.RNode) (plugin, error) {
	var conf plugin
	meta, err := node.GetMeta()
	own := err == nil && meta.APIVersion == "fn.kpt.dev/v1alpha1" && (meta.Kind == "SetLabels" || meta.Kind == "SetLabelConfig")
	switch {
	case err == nil && meta.APIVersion == "v1" && meta.Kind == "ConfigMap":
		conf.Labels = node.GetDataMap()
	case own:
		text := node.MustString()
		if err := yaml.Unmarshal([]byte(text), &conf); err != nil {
			return conf, fmt.Errorf("failed to unmarshal config %#v: %w", text, err)
		}
		if conf.AdditionalLabelFields != nil && conf.FieldSpecs != nil {
			return conf, errors.New("`fieldSpecs` has been deprecated, please rename it to `additionalLabelFields`")
		}
		if conf.AdditionalLabelFields == nil {
			conf.AdditionalLabelFields = conf.FieldSpecs
		}
	default:
		return conf, errors.New("`functionConfig` must be either a `ConfigMap` or `SetLabels`")
	}
	if len(conf.Labels) == 0 {
		return conf, errors.New("input label list cannot be empty")
	}
	var defaults struct {
		Fields types.FsSlice `json:"commonLabels,omitempty"`
	}
	err = yaml.Unmarshal([]byte(builtinpluginconsts.GetDefaultFieldSpecsAsMap()["commonlabels"]), &defaults)
	conf.AdditionalLabelFields = append(conf.AdditionalLabelFields, defaults.Fields...)
	return conf, err
}

func apply(items []*kyaml.RNode, conf plugin) ([]*kyaml.RNode, error) {
	factory := resource.NewFactory(&hasher.Hasher{})
	factory.IncludeLocalConfigs = true
	resources, err := resmap.NewFactory(factory).NewResMapFromRNodeSlice(items)
	if err != nil {
		return nil, err
	}
	for _, r := range resources.Resources() {
		if err := r.ApplyFilter(labels.Filter{Labels: conf.Labels, FsSlice: conf.AdditionalLabelFields}); err != nil {
			return nil, fmt.Errorf("failed to run transformer: %w", err)
		}
	}
	return resources.ToRNodeSlice(), nil
}
