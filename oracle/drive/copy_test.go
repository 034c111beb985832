package drive_test

import (
	"bytes"
	"flag"
	"go/format"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write package frozendrive anew")

var ofLive = regexp.MustCompile(`"github\.com/seed62658d38/watchdog(?:/oracle)?("|/loop"|/inside")`)

// TestCopy checks that both packages are driven by the same text.
func TestCopy(t *testing.T) {
	files, err := filepath.Glob("[a-z]*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text = ofLive.ReplaceAll(text, []byte(`"github.com/seed62658d38/watchdog/oracle/frozen$1`))
		if text, err = format.Source(text); err != nil { // other paths, in another order
			t.Fatal(err)
		}
		to := filepath.Join("../frozendrive", filepath.Base(file))
		if *update {
			if err := os.WriteFile(to, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if copied, err := os.ReadFile(to); err != nil || !bytes.Equal(copied, text) {
			t.Errorf("%s is no copy of %s (%v); write it with -update", to, file, err)
		}
	}
}
