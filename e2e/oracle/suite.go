package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// suiteFile is one file of the YAML test suite: `export default {…}`, the object being plain JSON.
type suiteFile struct {
	ID    string `json:"id"`
	Cases []struct {
		YAML string  `json:"yaml"`
		JSON *string `json:"json"`
		Fail bool    `json:"fail"`
	} `json:"cases"`
}

// writeSuite turns the suite's data into one file of frames that a test can read without a JSON parser:
//
//	case ID VERDICT len-of-yaml len-of-values len-of-dump\n, then the three texts.
//
// VERDICT is `pass` where go-yaml's values are those of the suite (or it rejects what the suite rejects), `fail` where
// they differ, and `tree` where the suite gives no values. The values and the dump are go-yaml's, or `error: ` and its
// text.
func writeSuite(dir, target string) error {
	paths, err := filepath.Glob(filepath.Join(dir, "*.js"))
	if err != nil {
		return err
	}
	sort.Strings(paths)
	file, err := os.Create(target + ".part")
	if err != nil {
		return err
	}
	defer file.Close()
	out := bufio.NewWriter(file)
	count := map[string]int{}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		start := strings.Index(string(content), "export default {")
		if start < 0 {
			continue
		}
		var suite suiteFile
		if err := json.Unmarshal(content[start+len("export default "):], &suite); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for i, c := range suite.Cases {
			got, dumped := orError("values", c.YAML), orError("dump", c.YAML)
			rejected := strings.HasPrefix(got, "error: ")
			verdict := "tree"
			switch {
			case c.Fail:
				verdict = passIf(rejected)
			case c.JSON != nil:
				want, err := jsonValues(*c.JSON)
				verdict = passIf(err == nil && want == got)
			}
			count[verdict]++
			fmt.Fprintf(out, "case %s-%02d %s %d %d %d\n%s%s%s",
				suite.ID, i, verdict, len(c.YAML), len(got), len(dumped), c.YAML, got, dumped)
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if len(count) == 0 {
		return fmt.Errorf("no case in %s", dir)
	}
	fmt.Printf("go-yaml passes %d, fails %d, and %d have no values to compare\n",
		count["pass"], count["fail"], count["tree"])
	return os.Rename(target+".part", target)
}

func orError(mode, text string) string {
	verdict, body := answer(request{mode: mode, blobs: [][]byte{[]byte(text)}})
	if verdict != "ok" {
		return "error: " + body
	}
	return body
}

func passIf(ok bool) string {
	if ok {
		return "pass"
	}
	return "fail"
}
