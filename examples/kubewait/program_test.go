package main_test

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	kubewait "github.com/seed62658d38/watchdog/examples/kubewait"
)

// What differs from run to run, and its replacement in the golden files.
var volatile = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "127.0.0.1:PORT"},
	{regexp.MustCompile(`after \d+\.\d\ds`), "after TIME"},
	{regexp.MustCompile(`printed \d+ lines`), "printed N lines"},
}

func normalize(text string) string {
	for _, n := range volatile {
		text = n.pattern.ReplaceAllString(text, n.with)
	}
	return text
}

func TestProgram(t *testing.T) {
	t.Parallel()
	t.Run("a definition that never appears is given up", func(t *testing.T) {
		t.Parallel()
		cmd := program(t, "-artifacts", "state")
		o := finish(t, cmd)
		require.Equal(t, 3, o.code, o.stderr)
		golden(t, "given_up", normalize(o.stdout))
		assert.Empty(t, o.stderr)
		for _, attempt := range []string{"attempt-1", "attempt-2", "attempt-3", "attempt-4"} {
			text, err := os.ReadFile(filepath.Join(cmd.Dir, "state", attempt, "_stall", "event.json"))
			require.NoError(t, err)
			assert.Contains(t, string(text), "k8s/crd/missing:widgets.example.com")
		}
	})
	t.Run("-attempts limits the attempts", func(t *testing.T) {
		t.Parallel()
		o := finish(t, program(t, "-attempts", "1", "-threshold", "2", "-kind", "deployment", "-name", "shop"))
		require.Equal(t, 3, o.code, o.stderr)
		assert.Contains(t, o.stdout, "2 probes in a row saw the same")
		assert.Contains(t, o.stdout, "GIVEN UP after attempt 1: k8s/deployment/missing:shop stall/no-progress\n")
		assert.NotContains(t, o.stdout, "attempt 2")
	})
	t.Run("the wait ends when the definition appears", func(t *testing.T) {
		t.Parallel()
		o := finish(t, program(t, "-appears-after", "1ns"))
		require.Equal(t, 0, o.code, o.stderr)
		golden(t, "ready", normalize(o.stdout))
	})
	t.Run("the wait ends when the deployment has its replicas", func(t *testing.T) {
		t.Parallel()
		o := finish(t, program(t, "-kind", "deployment", "-name", "shop", "-appears-after", "1ns",
			"-interval", "50ms", "-threshold", "100"))
		require.Equal(t, 0, o.code, o.stderr)
		assert.Contains(t, o.stdout, "READY in attempt 1")
		assert.NotContains(t, o.stdout, "tripped")
	})
	t.Run("an interrupt ends it", func(t *testing.T) {
		t.Parallel()
		if runtime.GOOS == "windows" {
			t.Skip("a test cannot send an interrupt here")
		}
		cmd := program(t, "-threshold", "1000000")
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		require.NoError(t, cmd.Start())
		lines := bufio.NewReader(out)
		for range 2 { // the lines before the first attempt
			_, err := lines.ReadString('\n')
			require.NoError(t, err)
		}
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		require.Error(t, cmd.Wait())
		assert.Equal(t, 1, cmd.ProcessState.ExitCode())
		assert.Contains(t, stderr.String(), "kubewait: interrupted in attempt 1, ")
	})
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	t.Run("an invalid one is refused with a reason", func(t *testing.T) {
		var said strings.Builder
		for _, line := range []string{
			"crd", "-names a", "-kind pod", "-name Widgets", "-name a/b", "-name " + strings.Repeat("a", 101),
			"-interval 0s", "-interval -1s", "-threshold 1", "-attempts -1", "-appears-after -1s",
			"wait", "probe", "wait -server http://localhost -attempts 1", "probe -server http://localhost -kind pod",
		} {
			var out, errs strings.Builder
			assert.Equal(t, 2, kubewait.Run(t.Context(), strings.Fields(line), &out, &errs), line)
			assert.Empty(t, out.String(), "nothing was done")
			text := strings.ReplaceAll(strings.TrimSpace(errs.String()), "\n", "\n\t")
			said.WriteString("kubewait " + line + "\n\t" + text + "\n")
		}
		golden(t, "refused", said.String())
	})
	t.Run("-h prints the help and succeeds", func(t *testing.T) {
		var out, errs strings.Builder
		assert.Equal(t, 0, kubewait.Run(t.Context(), []string{"-h"}, &out, &errs))
		assert.Empty(t, errs.String())
		golden(t, "usage", out.String())
	})
	t.Run("an impossible artifacts folder is an error before anything runs", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		o := finish(t, program(t, "-artifacts", file))
		assert.Equal(t, 1, o.code)
		assert.Contains(t, o.stderr, file)
	})
	t.Run("a write error is an error", func(t *testing.T) {
		var errs strings.Builder
		assert.Equal(t, 1, kubewait.Run(t.Context(), []string{"-h"}, brokenWriter{}, &errs))
		assert.Equal(t, "kubewait: gone\n", errs.String())
	})
}

// brokenWriter is a writer whose reader has gone.
type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("gone") }
