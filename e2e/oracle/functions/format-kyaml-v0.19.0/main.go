// format: kyaml's formatter with its schemas, which is all that the original calls.
package main

import (
	"fmt"
	"os"

	"sigs.k8s.io/kustomize/kyaml/fn/framework"
	"sigs.k8s.io/kustomize/kyaml/fn/framework/command"
	"sigs.k8s.io/kustomize/kyaml/kio/filters"
)

func main() {
	format := func(list *framework.ResourceList) error {
		if _, err := (filters.FormatFilter{UseSchema: true}).Filter(list.Items); err != nil {
			return fmt.Errorf("failed to format resources: %w", err)
		}
		return nil
	}
	program := command.Build(framework.ResourceListProcessorFunc(format), command.StandaloneEnabled, false)
	if err := program.Execute(); err != nil {
		// On standard output, behind the list, as the original does.
		fmt.Println(err)
		os.Exit(1)
	}
}
