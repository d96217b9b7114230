// The fn commands of kpt in a program of their own. kpt's main program also needs modules that not every
// module proxy has, for commands that have nothing to do with functions.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/kptdev/kpt/commands/fn"
	"github.com/kptdev/kpt/pkg/printer"
	"github.com/spf13/cobra"
)

func main() {
	root := &cobra.Command{Use: "kpt", SilenceUsage: true, SilenceErrors: true}
	root.PersistentFlags().BoolVar(&printer.TruncateOutput, "truncate-output", true, "")
	context := printer.WithContext(context.Background(), printer.New(os.Stdout, os.Stderr))
	root.AddCommand(fn.GetCommand(context, "kpt"))
	if err := root.Execute(); err != nil {
		for inner := err; inner != nil; inner = errors.Unwrap(inner) {
			err = inner
		}
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}
