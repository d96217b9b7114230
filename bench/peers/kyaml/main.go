// Kyaml-bench is the peer of Loggia's YAML benchmarks: the same work done by kyaml.
//
//	kyaml-bench nodes [-n N] [-parse] FILE    decode a stream to nodes and encode them, N times
//	kyaml-bench stream [-n N] [-parse] FILE   the same through kio's reader and writer, annotations and all
//	kyaml-bench package [-n N] DIR            read a package and write it back N times
//
// It prints one line of JSON; times are those of the fastest and of the median run, so that one slow start does not
// count.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"syscall"
	"time"

	"sigs.k8s.io/kustomize/kyaml/kio"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// result is what a run prints.
type result struct {
	Peer         string  `json:"peer"`
	Mode         string  `json:"mode"`
	Runs         int     `json:"runs"`
	Bytes        int64   `json:"bytes"`
	Resources    int     `json:"resources"`
	BestSeconds  float64 `json:"best_seconds"`
	MedianSec    float64 `json:"median_seconds"`
	MBPerSecond  float64 `json:"mb_per_second"`
	PeakRSSBytes int64   `json:"peak_rss_bytes"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "kyaml-bench:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("usage: kyaml-bench nodes|stream|package [-n N] PATH")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	runs := flags.Int("n", 5, "how often to run")
	parseOnly := flags.Bool("parse", false, "nodes, stream: only parse")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if flags.NArg() != 1 || *runs < 1 {
		return errors.New("give one path and a positive -n")
	}
	var once func() (int, error)
	var size int64
	switch args[0] {
	case "nodes", "stream":
		text, err := os.ReadFile(flags.Arg(0))
		if err != nil {
			return err
		}
		size = int64(len(text))
		work := nodes
		if args[0] == "stream" {
			work = stream
		}
		once = func() (int, error) { return work(text, *parseOnly) }
	case "package":
		bytes, err := packageSize(flags.Arg(0))
		if err != nil {
			return err
		}
		size = bytes
		once = func() (int, error) { return readWrite(flags.Arg(0)) }
	default:
		return fmt.Errorf("unknown mode %q", args[0])
	}
	return measure(args[0], *runs, size, once)
}

// nodes decodes a text with one decoder and writes its documents with one encoder.
func nodes(text []byte, parseOnly bool) (int, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var documents []*yaml.Node
	for {
		document := &yaml.Node{}
		err := decoder.Decode(document)
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, err
		}
		documents = append(documents, document)
	}
	if parseOnly {
		return len(documents), nil
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	for _, document := range documents {
		if err := encoder.Encode(document); err != nil {
			return 0, err
		}
	}
	return len(documents), encoder.Close()
}

// stream reads all resources of a text and writes them, each document's sequence style kept, as a package read and
// write would.
func stream(text []byte, parseOnly bool) (int, error) {
	nodes, err := (&kio.ByteReader{
		Reader:            bytes.NewReader(text),
		DisableUnwrapping: true,
		PreserveSeqIndent: true,
		WrapBareSeqNode:   true,
	}).Read()
	if err != nil || parseOnly {
		return len(nodes), err
	}
	var out bytes.Buffer
	err = kio.ByteWriter{Writer: &out}.Write(nodes)
	return len(nodes), err
}

// readWrite reads a package from disk and writes it back where it was.
func readWrite(dir string) (int, error) {
	rw := &kio.LocalPackageReadWriter{
		PackagePath:        dir,
		PackageFileName:    "Kptfile",
		IncludeSubpackages: true,
		MatchFilesGlob:     append([]string{"Kptfile"}, kio.DefaultMatch...),
		PreserveSeqIndent:  true,
		WrapBareSeqNode:    true,
	}
	nodes, err := rw.Read()
	if err != nil {
		return 0, err
	}
	return len(nodes), rw.Write(nodes)
}

func packageSize(dir string) (int64, error) {
	var total int64
	err := filepath.Walk(dir, func(_ string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			total += info.Size()
		}
		return err
	})
	return total, err
}

func measure(mode string, runs int, size int64, once func() (int, error)) error {
	var seconds []float64
	resources := 0
	for range runs {
		start := time.Now()
		n, err := once()
		if err != nil {
			return err
		}
		seconds = append(seconds, time.Since(start).Seconds())
		resources = n
	}
	sort.Float64s(seconds)
	median := seconds[len(seconds)/2]
	return json.NewEncoder(os.Stdout).Encode(result{
		Peer:         "kyaml v0.21.1",
		Mode:         mode,
		Runs:         runs,
		Bytes:        size,
		Resources:    resources,
		BestSeconds:  seconds[0],
		MedianSec:    median,
		MBPerSecond:  float64(size) / 1e6 / median,
		PeakRSSBytes: peakRSS(),
	})
}

// peakRSS is the most memory the process ever held, in bytes; Linux counts it in KiB.
func peakRSS() int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return usage.Maxrss * 1024
}
