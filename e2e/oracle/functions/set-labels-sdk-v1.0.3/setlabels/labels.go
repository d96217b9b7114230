// Package setlabels has the name that error texts show.
package setlabels

import (
	"maps"
	"slices"

	"github.com/kptdev/krm-functions-sdk/go/fn"
)

// SetLabels is the function and its config.
type SetLabels struct {
	Labels map[string]string `json:"labels,omitempty"`
	count  int
}

// Run visits every resource that is not for tools only.
func (s *SetLabels) Run(_ *fn.Context, config *fn.KubeObject, items fn.KubeObjects, results *fn.Results) bool {
	targets := items.WhereNot(fn.IsLocalConfig)
	if len(targets) == 0 {
		results.Infof("no input resources")
		return true
	}
	if absent(config) {
		return false
	}
	if len(s.Labels) == 0 {
		results.Warningf("no `labels` arguments are given in FunctionConfig")
		return true
	}
	for _, object := range targets {
		if err := s.visit(object); err != nil {
			results.ErrorE(err)
		}
	}
	results.Infof("set %v labels in total", s.count)
	return results.ExitCode() != 1
}

func absent(config *fn.KubeObject) bool {
	if config.GetKind() == "ConfigMap" && config.GetName() == "function-input" {
		data, _, _ := config.NestedStringMap("data")
		return len(data) == 0
	}
	return config.GetKind() == "" && config.GetName() == ""
}

func anyOf(object *fn.KubeObject, kinds ...[3]string) bool {
	return slices.ContainsFunc(kinds, func(kind [3]string) bool { return object.IsGVK(kind[0], kind[1], kind[2]) })
}

var (
	plainSelector = [][3]string{{"", "v1", "Service"}, {"", "v1", "ReplicationController"}}
	selecting     = [][3]string{{"", "", "Deployment"}, {"", "", "ReplicaSet"}, {"", "", "DaemonSet"}, {"apps", "", "StatefulSet"}}
	narrowing     = [][3]string{{"batch", "", "Job"}, {"policy", "", "PodDisruptionBudget"}}
	templated     = append([][3]string{{"", "v1", "ReplicationController"}, {"batch", "", "Job"}}, selecting...)
	network       = [3]string{"networking.k8s.io", "", "NetworkPolicy"}
)

func (s *SetLabels) visit(object *fn.KubeObject) error {
	if err := s.update(&object.SubObject, true, "metadata", "labels"); err != nil {
		return err
	}
	if err := s.selectors(object); err != nil {
		return err
	}
	spec := object.GetMap("spec")
	if spec == nil {
		return nil
	}
	if anyOf(object, templated...) {
		if s.template(spec.GetMap("template")) != nil {
			return nil
		}
	}
	if anyOf(object, [3]string{"batch", "", "CronJob"}) {
		if err := s.job(spec.GetMap("jobTemplate")); err != nil {
			return err
		}
	}
	if anyOf(object, [3]string{"apps", "", "StatefulSet"}) {
		claims, _, err := spec.NestedSlice("volumeClaimTemplates")
		if err != nil {
			return err
		}
		for _, claim := range claims {
			if err := s.update(claim, true, "metadata", "labels"); err != nil {
				return err
			}
			if err := s.update(claim, false, "selector", "matchLabels"); err != nil {
				return err
			}
		}
	}
	if anyOf(object, network) {
		for rules, peers := range map[string]string{"ingress": "from", "egress": "to"} {
			for _, rule := range spec.GetSlice(rules) {
				for _, peer := range rule.GetSlice(peers) {
					if err := s.update(peer, false, "podSelector", "matchLabels"); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

func (s *SetLabels) selectors(object *fn.KubeObject) error {
	if anyOf(object, plainSelector...) {
		if err := s.update(&object.SubObject, true, "spec", "selector"); err != nil {
			return err
		}
	}
	if create := anyOf(object, selecting...); create || anyOf(object, narrowing...) {
		if err := s.update(&object.SubObject, create, "spec", "selector", "matchLabels"); err != nil {
			return err
		}
	}
	if anyOf(object, network) {
		return s.update(&object.SubObject, false, "spec", "podSelector", "matchLabels")
	}
	return nil
}

func (s *SetLabels) job(job *fn.SubObject) error {
	if job == nil {
		return nil
	}
	if err := s.update(job, true, "metadata", "labels"); err != nil {
		return err
	}
	spec := job.GetMap("spec")
	if err := s.update(spec, false, "selector", "matchLabels"); err != nil {
		return err
	}
	return s.template(spec.GetMap("template"))
}

func (s *SetLabels) template(template *fn.SubObject) error {
	if template == nil {
		return nil
	}
	if err := s.update(template, true, "metadata", "labels"); err != nil {
		return err
	}
	spec := template.GetMap("spec")
	if spec == nil {
		return nil
	}
	for _, constraint := range spec.GetSlice("topologySpreadConstraints") {
		if err := s.update(constraint, false, "labelSelector", "matchLabels"); err != nil {
			return err
		}
	}
	return nil
}

func (s *SetLabels) update(object *fn.SubObject, create bool, path ...string) error {
	if object == nil {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(s.Labels)) {
		field := append(slices.Clone(path), key)
		old, found, err := object.NestedString(field...)
		if err != nil {
			return err
		}
		if (found && old != s.Labels[key]) || (!found && create) {
			if err := object.SetNestedString(s.Labels[key], field...); err != nil {
				return err
			}
		}
		s.count++
	}
	return nil
}
