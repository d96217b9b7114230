// set-annotations on kustomize's annotations filter. The catalog's module is not to be had, so config and results
// are written down here; the filter, the resource map and the framework are the original's own.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"sigs.k8s.io/kustomize/api/filters/annotations"
	"sigs.k8s.io/kustomize/api/hasher"
	"sigs.k8s.io/kustomize/api/konfig/builtinpluginconsts"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/fn/framework"
	"sigs.k8s.io/kustomize/kyaml/fn/framework/command"
	"sigs.k8s.io/kustomize/kyaml/kio/kioutil"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"
)

type plugin struct {
	Annotations                map[string]string `json:"annotations,omitempty"`
	FieldSpecs                 []types.FieldSpec `json:"fieldSpecs,omitempty"`
	AdditionalAnnotationFields []types.FieldSpec `json:"additionalAnnotationFields,omitempty"`
}

type place struct{ file, index, field string }

func main() {
	process := func(list *framework.ResourceList) error {
		results, err := run(list)
		if err != nil {
			results = framework.Results{{Message: err.Error(), Severity: framework.Error}}
		}
		list.Results = results
		if err != nil {
			return results
		}
		return nil
	}
	cmd := command.Build(framework.ResourceListProcessorFunc(process), command.StandaloneEnabled, false)
	if cmd.Execute() != nil {
		os.Exit(1)
	}
}

func run(list *framework.ResourceList) (framework.Results, error) {
	conf, err := configure(list.FunctionConfig)
	if err != nil {
		return nil, fmt.Errorf("failed to configure function: %w", err)
	}
	set, err := apply(list, conf)
	if err != nil {
		return nil, fmt.Errorf("failed to run function: %w", err)
	}
	if len(set) == 0 {
		return framework.Results{{Message: "no annotations applied"}}, nil
	}
	var results framework.Results
	for at, values := range set {
		text, err := json.Marshal(values)
		if err != nil {
			return nil, err
		}
		index, _ := strconv.Atoi(at.index)
		results = append(results, &framework.Result{
			Message: fmt.Sprintf("set annotations: %s", text),
			Field:   &framework.Field{Path: at.field},
			File:    &framework.File{Path: at.file, Index: index},
		})
	}
	results.Sort()
	return results, nil
}

func configure(node *kyaml.RNode) (plugin, error) {
	var conf plugin
	meta, err := node.GetMeta()
	known := err == nil && meta.APIVersion == "fn.kpt.dev/v1alpha1" && (meta.Kind == "SetAnnotations" || meta.Kind == "SetAnnotationConfig")
	switch {
	case err == nil && meta.APIVersion == "v1" && meta.Kind == "ConfigMap":
		conf.Annotations = node.GetDataMap()
	case known:
		text := node.MustString()
		if err := yaml.Unmarshal([]byte(text), &conf); err != nil {
			return conf, fmt.Errorf("failed to unmarshal config %#v: %w", text, err)
		}
		if conf.AdditionalAnnotationFields != nil && conf.FieldSpecs != nil {
			return conf, errors.New("`fieldSpecs` has been deprecated, please rename it to `additionalAnnotationFields`")
		}
		if conf.AdditionalAnnotationFields == nil {
			conf.AdditionalAnnotationFields = conf.FieldSpecs
		}
	default:
		return conf, errors.New("`functionConfig` must be a `ConfigMap` or `SetAnnotations`")
	}
	if len(conf.Annotations) == 0 {
		return conf, errors.New("input annotation list cannot be empty")
	}
	var defaults struct {
		Fields types.FsSlice `json:"commonAnnotations,omitempty"`
	}
	err = yaml.Unmarshal([]byte(builtinpluginconsts.GetDefaultFieldSpecsAsMap()["commonannotations"]), &defaults)
	conf.AdditionalAnnotationFields = append(conf.AdditionalAnnotationFields, defaults.Fields...)
	return conf, err
}

func apply(list *framework.ResourceList, conf plugin) (map[place]map[string]string, error) {
	factory := resource.NewFactory(&hasher.Hasher{})
	factory.IncludeLocalConfigs = true
	resources, err := resmap.NewFactory(factory).NewResMapFromRNodeSlice(list.Items)
	if err != nil {
		return nil, err
	}
	set := map[place]map[string]string{}
	for _, r := range resources.Resources() {
		file, index, err := kioutil.GetFileAnnotations(&r.RNode)
		if err == nil {
			filter := &annotations.Filter{FsSlice: conf.AdditionalAnnotationFields, Annotations: conf.Annotations}
			filter.WithMutationTracker(func(key, value, _ string, node *kyaml.RNode) {
				at := place{file, index, strings.Join(node.FieldPath(), ".")}
				if set[at] == nil {
					set[at] = map[string]string{}
				}
				set[at][key] = value
			})
			err = r.ApplyFilter(filter)
		}
		if err != nil {
			return nil, fmt.Errorf("failed to run transformer: %w", err)
		}
	}
	list.Items = resources.ToRNodeSlice()
	return set, nil
}
