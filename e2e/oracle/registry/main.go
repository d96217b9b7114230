// Registry-oracle says what go-containerregistry makes of image references, one a line on standard input. Each answer is
// one line: `ok`, the registry, the repository and the tag or digest, separated by tabs, or `error`.
//
// Lines are Go string literals, so that a reference may hold anything.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"

	"github.com/google/go-containerregistry/pkg/name"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		text, err := strconv.Unquote(lines.Text())
		if err != nil {
			fmt.Fprintln(os.Stderr, "registry-oracle:", err)
			os.Exit(1)
		}
		reference, err := name.ParseReference(text)
		if err != nil {
			fmt.Println("error")
			continue
		}
		repository := reference.Context()
		fmt.Printf("ok\t%s\t%s\t%s\n", repository.RegistryStr(), repository.RepositoryStr(), reference.Identifier())
	}
}
