// Krm-oracle answers what kyaml makes of packages, streams, Kptfiles, results and ignore files. The tests of crates/krm
// hold Loggia against its answers.
//
// Frame and verdicts are those of yaml-oracle, one folder up. Modes:
//
//	package     FOLDER               read a package and write it back in place
//	items       FOLDER               read a package; the answer is a ResourceList with all annotations
//	write       FOLDER STREAM        write the resources of a stream into a folder
//	stream      STREAM               read a stream and write it the same way
//	kptfile     TEXT                 decode strictly and encode as kpt does
//	results     TEXT                 results sorted, in display form
//	ignore      PATTERNS PATH KIND   whether an ignore file matches; KIND is `folder` or `file`
//	glob        PATTERN NAME         filepath.Match
//	image       REFERENCE            parse an image reference
package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/distribution/reference"
	gitignore "github.com/monochromegane/go-gitignore"
	"loggia.dev/e2e/oracle/krm/v1"
	"sigs.k8s.io/kustomize/kyaml/fn/framework"
	"sigs.k8s.io/kustomize/kyaml/kio"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// modes holds how many texts each mode takes and what it does with them.
var modes = map[string]struct {
	texts int
	do    func(texts []string) (string, error)
}{
	"package": {1, func(t []string) (string, error) { return "", roundtrip(t[0]) }},
	"items":   {1, func(t []string) (string, error) { return items(t[0]) }},
	"write":   {2, func(t []string) (string, error) { return "", write(t[0], t[1]) }},
	"stream":  {1, func(t []string) (string, error) { return stream(t[0]) }},
	"kptfile": {1, func(t []string) (string, error) { return kptfile(t[0]) }},
	"results": {1, func(t []string) (string, error) { return results(t[0]) }},
	"ignore":  {3, func(t []string) (string, error) { return ignore(t[0], t[1], t[2]), nil }},
	"glob": {2, func(t []string) (string, error) {
		matched, _ := filepath.Match(t[0], t[1])
		return strconv.FormatBool(matched), nil
	}},
	"image": {1, func(t []string) (string, error) {
		_, err := reference.Parse(t[0])
		return "", err
	}},
}

func main() {
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "krm-oracle:", err)
		os.Exit(1)
	}
}

func serve(in io.Reader, out io.Writer) error {
	r, w := bufio.NewReader(in), bufio.NewWriter(out)
	for {
		mode, texts, err := readRequest(r)
		if err == io.EOF {
			return w.Flush()
		}
		if err != nil {
			return err
		}
		verdict, body := answer(mode, texts)
		fmt.Fprintf(w, "%s %d\n%s", verdict, len(body), body)
		if r.Buffered() == 0 {
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
}

func readRequest(r *bufio.Reader) (string, []string, error) {
	header, err := r.ReadString('\n')
	if err != nil {
		return "", nil, err
	}
	words := strings.Fields(header)
	if len(words) == 0 {
		return "", nil, errors.New("a request has an empty header")
	}
	var texts []string
	for _, word := range words[1:] {
		n, err := strconv.Atoi(word)
		if err != nil || n < 0 || n > 256<<20 {
			return "", nil, fmt.Errorf("a request has the length %q", word)
		}
		text := make([]byte, n)
		if _, err := io.ReadFull(r, text); err != nil {
			return "", nil, err
		}
		texts = append(texts, string(text))
	}
	return words[0], texts, nil
}

func answer(mode string, texts []string) (verdict, body string) {
	defer func() {
		if p := recover(); p != nil {
			verdict, body = "panic", fmt.Sprint(p)
		}
	}()
	m, ok := modes[mode]
	if !ok || len(texts) != m.texts {
		return "usage", "unknown mode or wrong number of texts: " + mode
	}
	text, err := m.do(texts)
	if err != nil {
		return "error", err.Error()
	}
	return "ok", text
}

// everything matches the files that kpt reads.
var everything = append([]string{"Kptfile"}, kio.MatchAll...)

func readWriter(folder string) *kio.LocalPackageReadWriter {
	return &kio.LocalPackageReadWriter{
		PackagePath:        folder,
		PackageFileName:    "Kptfile",
		IncludeSubpackages: true,
		MatchFilesGlob:     everything,
		PreserveSeqIndent:  true,
		WrapBareSeqNode:    true,
	}
}

func roundtrip(folder string) error {
	rw := readWriter(folder)
	nodes, err := rw.Read()
	if err != nil {
		return err
	}
	return rw.Write(nodes)
}

func items(folder string) (string, error) {
	rw := readWriter(folder)
	rw.SetAnnotations = map[string]string{"internal.config.kubernetes.io/package-path": "/pkg"}
	nodes, err := rw.Read()
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	err = kio.ByteWriter{
		Writer:                &out,
		KeepReaderAnnotations: true,
		WrappingKind:          kio.ResourceListKind,
		WrappingAPIVersion:    kio.ResourceListAPIVersion,
	}.Write(nodes)
	return out.String(), err
}

func write(folder, text string) error {
	nodes, err := (&kio.ByteReader{Reader: strings.NewReader(text), OmitReaderAnnotations: true}).Read()
	if err != nil {
		return err
	}
	return kio.LocalPackageWriter{PackagePath: folder}.Write(nodes)
}

func stream(text string) (string, error) {
	var out bytes.Buffer
	rw := &kio.ByteReadWriter{
		Reader:            strings.NewReader(text),
		Writer:            &out,
		PreserveSeqIndent: true,
		WrapBareSeqNode:   true,
	}
	nodes, err := rw.Read()
	if err != nil {
		return "", err
	}
	// A wrapped list keeps what its items say; plain documents lose what the reader put there.
	rw.KeepReaderAnnotations = rw.WrappingKind != ""
	err = rw.Write(nodes)
	return out.String(), err
}

func kptfile(text string) (string, error) {
	decoder := yaml.NewDecoder(strings.NewReader(text))
	decoder.KnownFields(true)
	var file v1.KptFile
	if err := decoder.Decode(&file); err != nil {
		return "", err
	}
	out, err := yaml.MarshalWithOptions(file, &yaml.EncoderOptions{SeqIndent: yaml.WideSequenceStyle})
	return string(out), err
}

func results(text string) (string, error) {
	var list framework.Results
	if err := yaml.Unmarshal([]byte(text), &list); err != nil {
		return "", err
	}
	list.Sort()
	return list.Error(), nil
}

func ignore(patterns, path, kind string) string {
	matcher := gitignore.NewGitIgnoreFromReader("/pkg", strings.NewReader(patterns))
	return strconv.FormatBool(matcher.Match(filepath.Join("/pkg", path), kind == "folder"))
}
