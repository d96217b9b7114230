// set-image on kustomize's image filter and the functions SDK. The catalog's module is not to be had, so what it
// does with them is written down here.
package main

import (
	"context"
	"os"

	"github.com/example/oracle/set-image/transformer"
	"github.com/kptdev/krm-functions-sdk/go/fn"
)

func main() {
	if err := fn.AsMain(fn.WithContext(context.Background(), &transformer.SetImage{})); err != nil {
		os.Exit(1)
	}
}
