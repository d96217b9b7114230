// set-namespace 0.2 on kustomize's namespace filter. The catalog's module is not to be had, so config and results are written
// down here; the filter, its table, the resource map and the framework are the original's own.
package main

import (
	"errors"
	"fmt"
	"os"

	"sigs.k8s.io/kustomize/api/filters/namespace"
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
	Namespace                 string            `json:"namespace,omitempty"`
	FieldSpecs                []types.FieldSpec `json:"fieldSpecs,omitempty"`
	AdditionalNamespaceFields []types.FieldSpec `json:"additionalNamespaceFields,omitempty"`
}

func main() {
	process := func(list *framework.ResourceList) error {
		err := run(list)
		if err == nil {
			return nil
		}
		item := framework.ResultItem{Message: err.Error(), Severity: framework.Error}
		list.Result = &framework.Result{Name: "set-namespace", Items: []framework.ResultItem{item}}
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
	own := err == nil && meta.APIVersion == "fn.kpt.dev/v1alpha1" && (meta.Kind == "SetNamespace" || meta.Kind == "SetNamespaceConfig")
	switch {
	case err == nil && meta.APIVersion == "v1" && meta.Kind == "ConfigMap":
		conf.Namespace = node.GetDataMap()["namespace"]
	case own:
		text := node.MustString()
		if err := yaml.Unmarshal([]byte(text), &conf); err != nil {
			return conf, fmt.Errorf("failed to unmarshal config %#v: %w", text, err)
		}
		if conf.AdditionalNamespaceFields != nil && conf.FieldSpecs != nil {
			return conf, errors.New("`fieldSpecs` has been deprecated, please rename it to `additionalLabelFields`")
		}
		if conf.AdditionalNamespaceFields == nil {
			conf.AdditionalNamespaceFields = conf.FieldSpecs
		}
	default:
		return conf, errors.New("`functionConfig` must be a `ConfigMap` or `SetNamespace`")
	}
	if conf.Namespace == "" {
		return conf, errors.New("input namespace cannot be empty")
	}
	var defaults struct {
		Fields types.FsSlice `json:"namespace,omitempty"`
	}
	err = yaml.Unmarshal([]byte(builtinpluginconsts.GetDefaultFieldSpecsAsMap()["namespace"]), &defaults)
	conf.AdditionalNamespaceFields = append(conf.AdditionalNamespaceFields, defaults.Fields...)
	return conf, err
}

func apply(items []*kyaml.RNode, conf plugin) ([]*kyaml.RNode, error) {
	factory := resource.NewFactory(&hasher.Hasher{})
	factory.IncludeLocalConfigs = true
	resources, err := resmap.NewFactory(factory).NewResMapFromRNodeSlice(items)
	if err != nil {
		return nil, err
	}
	accounts := map[string]bool{}
	for _, r := range resources.Resources() {
		if r.GetKind() == "ServiceAccount" {
			accounts[r.GetName()] = true
		}
	}
	for _, r := range resources.Resources() {
		err := r.ApplyFilter(namespace.Filter{Namespace: conf.Namespace, FsSlice: conf.AdditionalNamespaceFields})
		if err == nil {
			err = bind(r, conf.Namespace, accounts)
		}
		if err != nil {
			return nil, fmt.Errorf("failed to run transformer: %w", err)
		}
	}
	return resources.ToRNodeSlice(), nil
}

// bind is what 0.2 adds: accounts among the items take their namespace along into bindings.
func bind(r *resource.Resource, namespace string, accounts map[string]bool) error {
	if r.GetKind() != "RoleBinding" && r.GetKind() != "ClusterRoleBinding" {
		return nil
	}
	subjects, err := r.Pipe(kyaml.Lookup("subjects"))
	if err != nil || kyaml.IsMissingOrNull(subjects) {
		return err
	}
	return subjects.VisitElements(func(subject *kyaml.RNode) error {
		if subject.GetKind() != "ServiceAccount" {
			return nil
		}
		name, err := subject.Pipe(kyaml.Lookup("name"))
		if err != nil || kyaml.IsMissingOrNull(name) || !accounts[kyaml.GetValue(name)] {
			return err
		}
		value := kyaml.FieldSetter{Value: kyaml.NewScalarRNode(namespace)}
		return subject.PipeE(kyaml.LookupCreate(kyaml.ScalarNode, "namespace"), value)
	})
}
