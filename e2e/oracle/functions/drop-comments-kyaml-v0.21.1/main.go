// The test helper drop-comments: each item goes to JSON and back, by kyaml's own means.
package main

import (
	"fmt"
	"os"

	"sigs.k8s.io/kustomize/kyaml/fn/framework"
	"sigs.k8s.io/kustomize/kyaml/fn/framework/command"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

func main() {
	overJSON := func(list *framework.ResourceList) error {
		for at, item := range list.Items {
			text, err := item.MarshalJSON()
			if err != nil {
				return err
			}
			if list.Items[at], err = yaml.ConvertJSONToYamlNode(string(text)); err != nil {
				return err
			}
		}
		return nil
	}
	program := command.Build(framework.ResourceListProcessorFunc(overJSON), command.StandaloneEnabled, false)
	if err := program.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
