// Package transformer has the name that error texts show.
package transformer

import (
	"errors"
	"fmt"

	"github.com/kptdev/krm-functions-sdk/go/fn"
	"sigs.k8s.io/kustomize/api/filters/imagetag"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filtersutil"
	"sigs.k8s.io/kustomize/kyaml/resid"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// SetImage is the function and its config.
type SetImage struct {
	Image                 types.Image       `json:"image,omitempty"`
	DataFromDefaultConfig map[string]string `json:"data,omitempty"`
	AdditionalImageFields types.FsSlice     `json:"additionalImageFields,omitempty"`
	count                 int
}

func defaultFields() types.FsSlice {
	pod := resid.Gvk{Version: "v1", Kind: "Pod"}
	fields := types.FsSlice{{Gvk: pod, Path: "spec/containers[]/image"}, {Gvk: pod, Path: "spec/initContainers[]/image"}}
	for _, kind := range []string{"Deployment", "StatefulSet", "ReplicaSet", "DaemonSet"} {
		gvk := resid.Gvk{Group: "apps", Version: "v1", Kind: kind}
		fields = append(fields,
			types.FieldSpec{Gvk: gvk, Path: "spec/template/spec/containers[]/image"},
			types.FieldSpec{Gvk: gvk, Path: "spec/template/spec/initContainers[]/image"})
	}
	return fields
}

// Run checks the config, says what is wrong with it, and goes on all the same.
func (s *SetImage) Run(_ *fn.Context, config *fn.KubeObject, items fn.KubeObjects, results *fn.Results) bool {
	if err := s.fromData(); err != nil {
		results.Errorf(err.Error(), nil)
	}
	if err := s.validate(); err != nil {
		results.Errorf("invalid FunctionConfig: %v", err)
	}
	fields := defaultFields()
	for _, item := range items {
		if err := s.filter(item, s.Image, fields); err != nil {
			results.Errorf(err.Error(), item)
		}
	}
	if s.AdditionalImageFields != nil {
		var image types.Image
		_ = config.GetMap("image").As(&image)
		for _, item := range items {
			if err := s.filter(item, image, s.AdditionalImageFields); err != nil {
				results.Errorf(err.Error(), item)
			}
		}
	}
	results.Infof("summary: updated a total of %v image(s)", s.count)
	return results.ExitCode() != 1
}

func (s *SetImage) fromData() error {
	slots := map[string]*string{
		"name": &s.Image.Name, "newName": &s.Image.NewName, "newTag": &s.Image.NewTag, "digest": &s.Image.Digest,
	}
	for key, value := range s.DataFromDefaultConfig {
		slot, known := slots[key]
		if !known {
			return fmt.Errorf("ConfigMap has wrong field name %v", key)
		}
		*slot = value
	}
	return nil
}

func (s *SetImage) validate() error {
	if s.Image.Name == "" {
		return errors.New("must specify `name`")
	}
	if s.Image.NewName == "" && s.Image.NewTag == "" && s.Image.Digest == "" {
		return errors.New("must specify one of `newName`, `newTag`, or `digest`")
	}
	return nil
}

func (s *SetImage) filter(item *fn.KubeObject, image types.Image, fields types.FsSlice) error {
	filter := imagetag.Filter{ImageTag: image, FsSlice: fields}
	filter.WithMutationTracker(func(_, _, _ string, _ *yaml.RNode) { s.count++ })
	node, err := yaml.Parse(item.String())
	if err != nil {
		return err
	}
	if err := filtersutil.ApplyToJSON(filter, node); err != nil {
		return err
	}
	changed, err := fn.ParseKubeObject([]byte(node.MustString()))
	if err != nil {
		return err
	}
	*item = *changed
	return nil
}
