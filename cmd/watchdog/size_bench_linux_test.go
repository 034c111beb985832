package main_test

import (
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkSize is the size of the stripped program, and of the machine code in it, by where that comes from.
func BenchmarkSize(b *testing.B) {
	file, err := os.Stat(build(b, "-ldflags=-s -w"))
	require.NoError(b, err)
	sizes := codeOf(b, build(b))
	sizes["file"] = float64(file.Size())
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		b.Run(name, func(b *testing.B) {
			b.ReportMetric(0, "ns/op") // leaves it out
			b.ReportMetric(sizes[name]/1e6, "MB")
		})
	}
}

// origins are what the names of functions have in them, the first that fits. A function that was made for types of ours
// is ours.
var origins = []struct {
	name string
	has  *regexp.Regexp
}{
	{"ours", regexp.MustCompile(`seed62658d38/watchdog|^main\.`)},
	{"SQLite", regexp.MustCompile(`modernc\.org/`)},
	{"PostgreSQL", regexp.MustCompile(`github\.com/jackc/`)},
	{"YAML", regexp.MustCompile(`go\.yaml\.in/`)},
	{"kong", regexp.MustCompile(`alecthomas/kong`)},
	{"templates", regexp.MustCompile(`(html|text)/template`)},
	{"HTTP and TLS", regexp.MustCompile(`^(vendor/|crypto/|net[./])`)},
	{"the rest", regexp.MustCompile(``)},
}

// codeOf returns the bytes of the functions of a program that is not stripped, together as code.
func codeOf(b *testing.B, program string) map[string]float64 {
	b.Helper()
	symbols, err := exec.Command("go", "tool", "nm", "-size", program).Output()
	require.NoError(b, err)
	sizes := map[string]float64{}
	for line := range strings.Lines(string(symbols)) {
		fields := strings.Fields(line) // address, size, kind and name, which may have spaces
		if len(fields) < 4 || strings.ToLower(fields[2]) != "t" {
			continue
		}
		size, err := strconv.ParseFloat(fields[1], 64)
		require.NoError(b, err)
		name := strings.Join(fields[3:], " ")
		for _, from := range origins {
			if from.has.MatchString(name) {
				sizes[from.name] += size
				break
			}
		}
		sizes["code"] += size
	}
	return sizes
}
