// set-labels on the functions SDK. The catalog's module is not to be had, so which fields are visited is written
// down here; reading, writing, configuring and failing are the SDK's own.
package main

import (
	"context"
	"os"

	"github.com/example/oracle/set-labels/setlabels"
	"github.com/kptdev/krm-functions-sdk/go/fn"
)

func main() {
	if err := fn.AsMain(fn.WithContext(context.Background(), &setlabels.SetLabels{})); err != nil {
		os.Exit(1)
	}
}
