// Package golden compares what tests get with files that go test -update writes. It chooses no folder, and replaces
// nothing that differs from run to run.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// Updating reports whether golden files are written.
func Updating() bool { return *update }

// Compare fails the test if a text is not that of the file, and says from which line on. With -update it writes the
// file.
func Compare(tb testing.TB, file, text string) {
	tb.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	if text == string(want) {
		return
	}
	wanted, got := strings.SplitAfter(string(want), "\n"), strings.SplitAfter(text, "\n")
	line := 0
	for line < min(len(wanted), len(got)) && wanted[line] == got[line] {
		line++
	}
	tb.Fatalf("%s differs from line %d on; go test -update writes it\n--- the file has\n%s\n--- the test got\n%s",
		file, line+1, strings.Join(wanted[line:], ""), strings.Join(got[line:], ""))
}
