package main_test

import (
	"cmp"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkRun is the time of a command that does nothing: under the built program, under GNU timeout, and by itself.
func BenchmarkRun(b *testing.B) {
	built := build(b)
	nothing, err := exec.LookPath("true")
	require.NoError(b, err)
	db := "sqlite:" + filepath.Join(b.TempDir(), "runs.db")
	for _, way := range []struct {
		name string
		line []string
	}{
		{"bare", []string{nothing}},
		{"timeout", []string{"timeout", "1", nothing}},
		{"version", []string{built, "version"}},
		{"watchdog", []string{built, "run", "--", nothing}},
		{"watchdog with a limit", []string{built, "run", "--no-output", "1m", "--wall-clock", "1m", "--", nothing}},
		{"watchdog with sqlite", []string{built, "run", "--store", db, "--wall-clock", "1m", "--", nothing}},
	} {
		b.Run(way.name, func(b *testing.B) {
			if _, err := exec.LookPath(way.line[0]); err != nil {
				b.Skip(err)
			}
			var took, used []time.Duration
			for b.Loop() {
				cmd := exec.Command(way.line[0], way.line[1:]...)
				began := time.Now()
				require.NoError(b, cmd.Run())
				took = append(took, time.Since(began))
				used = append(used, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
			}
			slices.Sort(took)
			slices.Sort(used)
			b.ReportMetric(milliseconds(took[len(took)/2]), "median-ms")
			b.ReportMetric(milliseconds(took[0]), "least-ms")
			b.ReportMetric(milliseconds(used[len(used)/2]), "median-cpu-ms") // without the guard, which ends after it
		})
	}
}

// build builds the program as it is released: with CGO_ENABLED=1 a linker takes a millisecond at each of two starts.
func build(b *testing.B, flags ...string) string {
	b.Helper()
	built := filepath.Join(b.TempDir(), "watchdog")
	cmd := exec.Command("go", slices.Concat([]string{"build", "-trimpath", "-o", built}, flags, []string{"."})...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cmp.Or(os.Getenv("CGO_ENABLED"), "0"))
	out, err := cmd.CombinedOutput()
	require.NoError(b, err, "%s", out)
	return built
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

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
