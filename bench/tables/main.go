// Tables writes the tables of bench/README.md and docs/cost.md from the results of benchmarks in bench/results.txt.
//
//	GOWORK=off go run ./tables                writes them anew
//	GOWORK=off go run ./tables -add new.txt   first takes output of go test -bench into the results
//
// Make bench-tables measures all that the tables show. What a table says stands in bench/tables.tmpl.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed62658d38/watchdog/bench/internal/tables"
)

func main() {
	folder := flag.String("bench", ".", "the folder of README.md, tables.tmpl and results.txt")
	added := flag.String("add", "", "a file with output of go test -bench, which replaces the results of its benchmarks")
	flag.Parse()
	if err := write(*folder, *added); err != nil {
		fmt.Fprintln(os.Stderr, "tables:", err)
		os.Exit(1)
	}
}

func write(folder, added string) error {
	documents := []string{filepath.Join(folder, "README.md"), filepath.Join(folder, "..", "docs", "cost.md")}
	templates, kept := filepath.Join(folder, "tables.tmpl"), filepath.Join(folder, "results.txt")
	texts := make([]string, 5)
	for i, name := range append(documents, templates, kept, added) {
		if name == "" {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		texts[i] = string(text)
	}
	results := tables.Parse(texts[3]).Replace(tables.Parse(texts[4]))
	written, err := tables.WriteAll(texts[:2], texts[2], results)
	if err != nil {
		return err
	}
	for i, name := range documents {
		if err := os.WriteFile(name, []byte(written[i]), 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(kept, []byte(results.String()), 0o644)
}
