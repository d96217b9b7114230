// Yaml-oracle answers, for any text, what kyaml and go-yaml v3 make of it. Loggia's tests hold crates/yaml against
// its answers.
//
//	yaml-oracle                    serve requests on stdin, one answer each on stdout
//	yaml-oracle suite DIR OUT      turn the YAML test suite's data in DIR into one file of cases
//
// README.md has the frame and the modes.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// maxBlob bounds one part of a request, so that a broken frame cannot ask for all memory.
const maxBlob = 256 << 20

// request is one question: a mode, its arguments, and the texts it is about.
type request struct {
	mode  string
	args  []string
	blobs [][]byte
}

func main() {
	var err error
	switch {
	case len(os.Args) == 1:
		err = serve(os.Stdin, os.Stdout)
	case len(os.Args) == 4 && os.Args[1] == "suite":
		err = writeSuite(os.Args[2], os.Args[3])
	default:
		err = errors.New("usage: yaml-oracle [suite DIR OUT]")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "yaml-oracle:", err)
		os.Exit(1)
	}
}

// serve answers requests until the input ends. Answers are flushed when no further request is waiting, so a caller
// may ask one by one or send many ahead.
func serve(in io.Reader, out io.Writer) error {
	r := bufio.NewReaderSize(in, 1<<20)
	w := bufio.NewWriterSize(out, 1<<20)
	for {
		req, err := readRequest(r)
		if err == io.EOF {
			return w.Flush()
		}
		if err != nil {
			return err
		}
		verdict, body := answer(req)
		fmt.Fprintf(w, "%s %d\n", verdict, len(body))
		w.WriteString(body)
		if r.Buffered() == 0 {
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
}

// readRequest reads `mode[:arg...] len...\n` and the texts of those lengths.
func readRequest(r *bufio.Reader) (request, error) {
	header, err := r.ReadString('\n')
	if err != nil {
		if header != "" {
			err = io.ErrUnexpectedEOF
		}
		return request{}, err
	}
	words := strings.Fields(header)
	if len(words) == 0 {
		return request{}, errors.New("a request has an empty header")
	}
	mode := strings.Split(words[0], ":")
	req := request{mode: mode[0], args: mode[1:]}
	for _, word := range words[1:] {
		n, err := strconv.Atoi(word)
		if err != nil || n < 0 || n > maxBlob {
			return request{}, fmt.Errorf("a request has the length %q", word)
		}
		blob := make([]byte, n)
		if _, err := io.ReadFull(r, blob); err != nil {
			return request{}, err
		}
		req.blobs = append(req.blobs, blob)
	}
	return req, nil
}

// answer runs one request. A panic of the code under observation is an answer too.
func answer(req request) (verdict, body string) {
	defer func() {
		if p := recover(); p != nil {
			verdict, body = "panic", fmt.Sprint(p)
		}
	}()
	run, ok := modes[req.mode]
	if !ok {
		return "usage", "unknown mode " + req.mode
	}
	if len(req.blobs) < run.blobs || len(req.args) < run.args {
		return "usage", fmt.Sprintf("%s takes %d texts and %d arguments", req.mode, run.blobs, run.args)
	}
	text, err := run.do(req)
	if err != nil {
		return "error", err.Error()
	}
	return "ok", text
}
