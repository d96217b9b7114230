// set-namespace, newest, on the functions SDK. The catalog's module has no entry in Go's checksum database, so what the
// function does is written down here after its description; objects, scopes, origins and the framework are the original's.
package main

import (
	"fmt"
	"os"
	"regexp"
	"sort"
	"strings"

	"github.com/kptdev/krm-functions-sdk/go/fn"
)

const (
	dependsOn = "config.kubernetes.io/depends-on"
	own       = "`ConfigMap.v1` or `SetNamespace.v1alpha1.fn.kpt.dev`"
)

var (
	reference  = regexp.MustCompile(`\A[-.\w]*/namespaces/[-.\w]*/[-.\w]*/[-.\w]*\z`)
	conversion = []string{"spec", "conversion", "webhook", "clientConfig", "service"}
	apiService = []string{"spec", "service"}
)

// run is one run: what to set, and what was.
type run struct {
	namespace, matcher string
	results            fn.Results
	count              int
	old                map[string]bool
}

func main() {
	if fn.AsMain(fn.ResourceListProcessorFunc(process)) != nil {
		os.Exit(1)
	}
}

func process(list *fn.ResourceList) (bool, error) {
	r := &run{old: map[string]bool{}}
	if err := r.configure(list.FunctionConfig); err != nil {
		list.Results = append(list.Results, fn.ErrorConfigObjectResult(err, list.FunctionConfig))
		return false, nil
	}
	var objects fn.KubeObjects
	targets := map[string]bool{}
	for _, object := range list.Items {
		if object.IsLocalConfig() {
			continue
		}
		objects = append(objects, object)
		if id := object.GetID(); id.Namespace != fn.UnknownNamespace {
			targets[strings.Join([]string{id.Group, "namespaces", id.Namespace, id.Kind, id.Name}, "/")] = true
		}
	}
	for _, object := range objects {
		if object.IsClusterScoped() {
			r.visitClusterScoped(object)
		}
	}
	for _, object := range objects {
		if object.IsNamespaceScoped() {
			_ = object.SetNamespace(r.change(origin(object).Namespace, object.GetNamespace(), object.ShortString()))
		}
	}
	nothing := fmt.Sprintf("all matching namespaces are already %q. no value changed", r.namespace)
	r.summarise("namespace", r.count, r.old, nothing)
	r.followDependencies(objects, targets)
	list.Results = append(list.Results, r.results...)
	return true, nil
}

func (r *run) configure(config *fn.KubeObject) error {
	switch {
	case config.IsEmpty():
		return fmt.Errorf("FunctionConfig is missing. Expect %s", own)
	case config.IsGVK("", "v1", "ConfigMap"):
		var parsed struct {
			APIVersion, Kind string
			Metadata         meta
			Data             map[string]string
		}
		if config.As(&parsed) != nil {
			return fmt.Errorf("failed to parse FunctionConfig as ConfigMap")
		}
		r.matcher, r.namespace = parsed.Data["namespaceMatcher"], parsed.Data["namespace"]
		if r.namespace == "" && parsed.Metadata.Name == "kptfile.kpt.dev" {
			r.namespace = parsed.Data["name"]
		}
		if r.namespace == "" {
			return fmt.Errorf("`data.namespace` should not be empty")
		}
	case config.IsGVK("fn.kpt.dev", "v1alpha1", "SetNamespace"):
		var parsed struct {
			APIVersion, Kind, Namespace, NamespaceMatcher string
			Metadata                                      meta
		}
		if config.As(&parsed) != nil {
			return fmt.Errorf("failed to parse FunctionConfig as fn.kpt.dev.v1alpha1.SetNamespace")
		}
		r.matcher, r.namespace = parsed.NamespaceMatcher, parsed.Namespace
		if r.namespace == "" {
			return fmt.Errorf("`namespace` should not be empty")
		}
	default:
		return fmt.Errorf("unknown functionConfig Kind=%s ApiVersion=%s, expect %s", config.GetKind(), config.GetAPIVersion(), own)
	}
	return nil
}

type meta struct {
	Name, Namespace     string
	Labels, Annotations map[string]string
}

// change gives what becomes of a value, and notes it.
func (r *run) change(origin, current, short string) string {
	if origin == fn.UnknownNamespace {
		return current
	}
	if current == "" {
		current = fn.DefaultNamespace
	}
	if current == r.namespace {
		return current
	}
	if r.matcher != "" {
		if r.matcher == origin {
			r.results = append(r.results, fn.GeneralResult(fmt.Sprintf("[%s] has matching origin %s", short, origin), fn.Info))
		}
		if r.matcher != origin && r.matcher != current {
			return current
		}
	}
	r.old[current] = true
	r.count++
	return r.namespace
}

func (r *run) visitClusterScoped(object *fn.KubeObject) {
	has := func(path []string) bool {
		_, found, err := object.NestedString(append(path[:len(path):len(path)], "name")...)
		return found && err == nil
	}
	switch {
	case object.IsGVK("", "v1", "Namespace"):
		_ = object.SetName(r.change(origin(object).Name, object.GetName(), object.ShortString()))
	case object.IsGVK("apiextensions.k8s.io", "v1", "CustomResourceDefinition"):
		strategy, _, _ := object.NestedString("spec", "conversion", "strategy")
		if strategy == "Webhook" && has(conversion) {
			r.changeField(&object.SubObject, append(conversion[:len(conversion):len(conversion)], "namespace")...)
		}
	case object.IsGVK("apiregistration.k8s.io", "v1", "APIService"):
		if has(apiService) {
			r.changeField(&object.SubObject, append(apiService[:len(apiService):len(apiService)], "namespace")...)
		}
	case object.GetKind() == "ClusterRoleBinding" || object.GetKind() == "RoleBinding":
		for _, subject := range object.GetSlice("subjects") {
			if namespace, found, _ := subject.NestedString("namespace"); found {
				check(subject.SetNestedString(r.change("", namespace, ""), "namespace"))
			}
		}
	}
}

func (r *run) changeField(object *fn.SubObject, path ...string) {
	namespace, _, err := object.NestedString(path...)
	check(err)
	check(object.SetNestedString(r.change("", namespace, ""), path...))
}

func (r *run) followDependencies(objects fn.KubeObjects, targets map[string]bool) {
	count, old := 0, map[string]bool{}
	for _, object := range objects {
		text := object.GetAnnotations()[dependsOn]
		if !reference.MatchString(text) || !targets[text] {
			continue
		}
		parts := strings.Split(text, "/")
		if parts[2] == r.namespace || r.matcher != "" && r.matcher != parts[2] {
			continue
		}
		old[parts[2]] = true
		count++
		parts[2] = r.namespace
		_ = object.SetAnnotation(dependsOn, strings.Join(parts, "/"))
	}
	nothing := "all `depends-on` annotations are up-to-date. no `namespace` changed"
	r.summarise("`depends-on` annotation namespace", count, old, nothing)
}

func (r *run) summarise(what string, count int, old map[string]bool, nothing string) {
	if count == 0 {
		r.results = append(r.results, fn.GeneralResult(nothing, fn.Info))
		return
	}
	var names []string
	for name := range old {
		names = append(names, name)
	}
	sort.Strings(names)
	message := fmt.Sprintf("%s %v updated to %q, %d value(s) changed", what, names, r.namespace, count)
	r.results = append(r.results, fn.GeneralResult(message, fn.Info))
}

func origin(object *fn.KubeObject) *fn.ResourceIdentifier {
	id, err := object.GetOriginID()
	check(err)
	return id
}

// check crashes, as the original does.
func check(err error) {
	if err != nil {
		panic(err)
	}
}
