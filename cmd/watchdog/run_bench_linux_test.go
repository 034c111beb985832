package main_test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkRun is the time of a command that does nothing: under the built program, under GNU timeout, and by itself.
func BenchmarkRun(b *testing.B) {
	built := filepath.Join(b.TempDir(), "watchdog")
	out, err := exec.Command("go", "build", "-trimpath", "-o", built, ".").CombinedOutput()
	require.NoError(b, err, "%s", out)
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
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				require.NoError(b, exec.Command(way.line[0], way.line[1:]...).Run())
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "median-ms")
		})
	}
}
