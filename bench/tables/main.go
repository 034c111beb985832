// Tables writes the tables of bench/README.md from the results of benchmarks in bench/results.txt.
//
//	go run ./bench/tables                writes them anew
//	go run ./bench/tables -add new.txt   first takes output of go test -bench into the results
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
	folder := flag.String("bench", "bench", "the folder of README.md, tables.tmpl and results.txt")
	added := flag.String("add", "", "a file with output of go test -bench, which replaces the results of its benchmarks")
	flag.Parse()
	if err := write(*folder, *added); err != nil {
		fmt.Fprintln(os.Stderr, "tables:", err)
		os.Exit(1)
	}
}

func write(folder, added string) error {
	document, templates := filepath.Join(folder, "README.md"), filepath.Join(folder, "tables.tmpl")
	kept := filepath.Join(folder, "results.txt")
	var texts [4]string
	for i, name := range []string{document, templates, kept, added} {
		if name == "" {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		texts[i] = string(text)
	}
	results := tables.Parse(texts[2]).Replace(tables.Parse(texts[3]))
	written, err := tables.Write(texts[0], texts[1], results)
	if err != nil {
		return err
	}
	if err := os.WriteFile(kept, []byte(results.String()), 0o644); err != nil {
		return err
	}
	return os.WriteFile(document, []byte(written), 0o644)
}
