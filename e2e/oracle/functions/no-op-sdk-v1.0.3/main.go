// no-op: all that the functions SDK does around a function that does nothing.
package main

import (
	"os"

	"github.com/kptdev/krm-functions-sdk/go/fn"
)

func main() {
	nothing := func(*fn.ResourceList) (bool, error) { return true, nil }
	if err := fn.AsMain(fn.ResourceListProcessorFunc(nothing)); err != nil {
		os.Exit(1)
	}
}
