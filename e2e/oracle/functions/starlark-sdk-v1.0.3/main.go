// starlark: the original's interpreter between the functions SDK and kyaml, with the switches the original sets.
package main

import (
	"fmt"
	"os"

	"github.com/kptdev/krm-functions-sdk/go/fn"
	"go.starlark.net/lib/json"
	"go.starlark.net/lib/math"
	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

func main() {
	resolve.AllowSet = true
	resolve.AllowGlobalReassign = true
	resolve.AllowRecursion = true
	if err := fn.AsMain(fn.ResourceListProcessorFunc(process)); err != nil {
		os.Exit(1)
	}
}

func process(list *fn.ResourceList) (bool, error) {
	if err := transform(list); err != nil {
		list.Results = fn.Results{{Message: err.Error(), Severity: fn.Error}}
		return false, nil
	}
	return true, nil
}

func transform(list *fn.ResourceList) error {
	name, _, _ := list.FunctionConfig.NestedString("metadata", "name")
	source, _, _ := list.FunctionConfig.NestedString("source")
	config, err := value(list.FunctionConfig)
	if err != nil {
		return err
	}
	items := starlark.NewList(nil)
	for _, object := range list.Items {
		item, err := value(object)
		if err != nil {
			return err
		}
		if err := items.Append(item); err != nil {
			return err
		}
	}
	root := starlark.NewDict(4)
	for key, value := range map[string]starlark.Value{
		"apiVersion": starlark.String("config.kubernetes.io/v1"), "kind": starlark.String("ResourceList"),
		"items": items, "functionConfig": config,
	} {
		if err := root.SetKey(starlark.String(key), value); err != nil {
			return err
		}
	}
	thread := &starlark.Thread{Name: name, Load: load}
	context := starlarkstruct.FromStringDict(starlarkstruct.Default, starlark.StringDict{"resource_list": root})
	if _, err := starlark.ExecFile(thread, name, source, starlark.StringDict{"ctx": context}); err != nil {
		return err
	}
	return readBack(root, list)
}

func readBack(root *starlark.Dict, list *fn.ResourceList) error {
	plain, err := unmarshal(root)
	if err != nil {
		return err
	}
	text, err := yaml.Marshal(plain)
	if err != nil {
		return err
	}
	node, err := yaml.Parse(string(text))
	if err != nil {
		return err
	}
	found, err := node.Pipe(yaml.Lookup("items"))
	if err != nil {
		return err
	}
	elements, err := found.Elements()
	if err != nil {
		return err
	}
	list.Items = nil
	for _, element := range elements {
		object, err := fn.ParseKubeObject([]byte(element.MustString()))
		if err != nil {
			return err
		}
		list.Items = append(list.Items, object)
	}
	return nil
}

func load(_ *starlark.Thread, module string) (starlark.StringDict, error) {
	switch module {
	case "encoding/json.star":
		return starlark.StringDict{"json": json.Module}, nil
	case "math.star":
		return starlark.StringDict{"math": math.Module}, nil
	}
	return nil, nil
}

func value(object *fn.KubeObject) (starlark.Value, error) {
	node, err := yaml.Parse(object.String())
	if err != nil {
		return nil, err
	}
	plain, err := node.Map()
	if err != nil {
		return nil, err
	}
	return marshal(plain)
}

func marshal(plain any) (starlark.Value, error) {
	switch plain := plain.(type) {
	case nil:
		return starlark.None, nil
	case bool:
		return starlark.Bool(plain), nil
	case string:
		return starlark.String(plain), nil
	case int:
		return starlark.MakeInt(plain), nil
	case int64:
		return starlark.MakeInt64(plain), nil
	case uint64:
		return starlark.MakeUint64(plain), nil
	case float64:
		return starlark.Float(plain), nil
	case []any:
		list := starlark.NewList(nil)
		for _, element := range plain {
			value, err := marshal(element)
			if err != nil {
				return nil, err
			}
			if err := list.Append(value); err != nil {
				return nil, err
			}
		}
		return list, nil
	case map[string]any:
		dict := starlark.NewDict(len(plain))
		for key, element := range plain {
			value, err := marshal(element)
			if err != nil {
				return nil, err
			}
			if err := dict.SetKey(starlark.String(key), value); err != nil {
				return nil, err
			}
		}
		return dict, nil
	}
	return nil, fmt.Errorf("unrecognized type: %#v", plain)
}

func unmarshal(value starlark.Value) (any, error) {
	switch value := value.(type) {
	case starlark.NoneType:
		return nil, nil
	case starlark.Bool:
		return bool(value), nil
	case starlark.String:
		return string(value), nil
	case starlark.Int:
		var number int
		err := starlark.AsInt(value, &number)
		return number, err
	case starlark.Float:
		return float64(value), nil
	case *starlark.Dict:
		plain := map[string]any{}
		for _, item := range value.Items() {
			element, err := unmarshal(item[1])
			if err != nil {
				return nil, err
			}
			key, ok := starlark.AsString(item[0])
			if !ok {
				return nil, fmt.Errorf("the key %s is no string", item[0])
			}
			plain[key] = element
		}
		return plain, nil
	case starlark.Iterable:
		if _, ok := value.(*starlark.Set); ok {
			return nil, fmt.Errorf("sets aren't yet supported")
		}
		plain := []any{}
		iterator := value.Iterate()
		defer iterator.Done()
		for element := starlark.Value(nil); iterator.Next(&element); {
			part, err := unmarshal(element)
			if err != nil {
				return nil, err
			}
			plain = append(plain, part)
		}
		return plain, nil
	}
	return nil, fmt.Errorf("unrecognized starlark type: %T", value)
}
