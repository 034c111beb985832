package stall_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

// canary is a text that stands for a secret of a command or a probe.
const canary = "canary-7c1e9f"

// A syncBuffer is a buffer that several goroutines can log to.
type syncBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

// A secretsFixture collects every text that is written about a command, by the name of its place.
type secretsFixture struct {
	*fixture
	logs  syncBuffer
	texts map[string]string
}

func newSecretsFixture(t *testing.T) *secretsFixture {
	c := &secretsFixture{fixture: newFixture(t), texts: map[string]string{}}
	c.cfg.Logger = slog.New(slog.NewTextHandler(&c.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	c.cfg.WallClock = longTime
	c.cfg.NoOutput = longTime
	c.cfg.Terminal = readyLine
	c.cfg.AsIncomplete = true
	return c
}

// runWithSecrets runs a command with canaries in its arguments, environment, input and outputs.
func (c *secretsFixture) runWithSecrets(steps ...string) {
	c.Helper()
	all := []string{"print:" + canary, "warn:" + canary, "touch:" + filepath.Join(c.TempDir(), canary)}
	cmd := command(c, append(all, steps...)...)
	cmd.Env = append([]string{"PASSWORD=" + canary}, cmd.Env...)
	cmd.Stdin = strings.NewReader(canary)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, failing{}
	if c.cfg.Tail != nil {
		cmd.Stderr = &strings.Builder{}
	}
	c.collect(stall.Run(c.Context(), cmd, c.cfg))
}

func (c *secretsFixture) collect(result *stall.Result, err error) {
	c.Helper()
	c.texts["the error"] = fmt.Sprintf("%v %+v", err, err)
	c.texts["the log"] = c.logs.String()
	if result != nil {
		c.texts["the result"] = fmt.Sprintf("%+v %+v %v %v", result, result.Trip, result.ArtifactErr, result.OutputErr) +
			fmt.Sprintf("%+v", result.AlsoEnded)
	}
	for _, id := range []string{"run", "run/step"} {
		events, readErr := c.store.Read(context.Background(), watchdog.AggregateType, id)
		require.NoError(c, readErr)
		for i, e := range events {
			c.texts[fmt.Sprintf("event %d of %s", i, id)] = fmt.Sprintf("%+v %s", e, e.Payload)
		}
	}
	_ = filepath.WalkDir(c.cfg.Artifacts, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			text, _ := os.ReadFile(path)
			c.texts[entry.Name()] = path + string(text)
		}
		return nil
	})
}

// leaks returns the names of the texts that contain the canary.
func (c *secretsFixture) leaks() (names []string) {
	for name, text := range c.texts {
		if strings.Contains(text, canary) {
			names = append(names, name)
		}
	}
	return names
}

// secretProbe prints canaries in every field but its fingerprints.
var secretProbe = "print:" + strings.ReplaceAll(
	`{"class": "stalled", "digest": "SECRET", "summary": "SECRET", "reasons": ["SECRET"], "SECRET": "SECRET"}`,
	"SECRET", canary)

// TestSecrets checks that no place holds a secret.
func TestSecrets(t *testing.T) {
	t.Parallel()
	probe := func(t *testing.T, steps ...string) *stall.Probe {
		return &stall.Probe{Command: childCommand(t, steps...), Interval: time.Millisecond, Timeout: longTime}
	}
	for _, c := range []struct {
		name  string
		run   func(*secretsFixture)
		finds string // in one of the places, to show that there is something to search
	}{
		{"after a terminal line", func(c *secretsFixture) { c.runWithSecrets("print:"+ready, "stay") }, "terminal pattern 1"},
		{"after a probe's trip", func(c *secretsFixture) {
			c.cfg.Probe = probe(t, secretProbe)
			c.runWithSecrets("stay")
		}, "3 probes in a row saw the same"},
		{"after probes that fail and print no object", func(c *secretsFixture) {
			c.cfg.Probe = probe(t, "print:"+canary, "warn:"+canary)
			c.cfg.Probe.OnError = stall.ErrorStall
			c.runWithSecrets("stay")
		}, "probe_blind:output"},
		{"after a probe that cannot be started", func(c *secretsFixture) {
			c.cfg.Probe = &stall.Probe{
				Command: []string{"/no/such/" + canary, canary}, Interval: time.Millisecond, OnError: stall.ErrorTerminal,
			}
			c.runWithSecrets("stay")
		}, "probe_blind:start"},
		{"after an AlsoEnd that fails", func(c *secretsFixture) {
			c.cfg.AlsoEnd = &stall.AlsoEnd{Command: childCommand(t, "print:"+canary, "warn:"+canary, "env:PASSWORD", "exit:3")}
			c.runWithSecrets("print:"+ready, "stay")
		}, "its exit status is 3"},
		{"after an AlsoEnd that cannot be started", func(c *secretsFixture) {
			c.cfg.AlsoEnd = &stall.AlsoEnd{Command: []string{"/no/such/" + canary, canary}}
			c.runWithSecrets("print:"+ready, "stay")
		}, "it cannot be started"},
		{"before an AlsoEnd that is not there", func(c *secretsFixture) {
			c.cfg.AlsoEnd = &stall.AlsoEnd{Command: []string{canary, canary}}
			c.runWithSecrets("stay")
		}, "AlsoEnd.Command"},
		{"after a failure", func(c *secretsFixture) { c.runWithSecrets("exit:3") }, "exit status 3"},
		{"after a failed start", func(c *secretsFixture) {
			cmd := command(c, canary)
			cmd.Path, cmd.Dir = "/no/such/"+canary, "/no/such/"+canary
			c.collect(stall.Run(c.Context(), cmd, c.cfg))
		}, "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newSecretsFixture(t)
			c.run(f)
			require.Empty(t, f.leaks())
			require.Contains(t, fmt.Sprint(f.texts), c.finds)
		})
	}
}

// TestSecretsOptIn checks that a secret is only in places for which that was turned on.
func TestSecretsOptIn(t *testing.T) {
	t.Parallel()
	keep := func(p []byte) []byte { return p }
	clean := func(p []byte) []byte { return bytes.ReplaceAll(p, []byte(canary), []byte("***")) }
	t.Run("the tail, if the redaction leaves it there", func(t *testing.T) {
		c := newSecretsFixture(t)
		c.cfg.Tail = &stall.Tail{Bytes: 1000, Redact: keep}
		c.runWithSecrets("print:"+ready, "stay")
		require.Equal(t, []string{"stderr.tail.log"}, c.leaks())
	})
	t.Run("not even the tail, if the redaction removes it", func(t *testing.T) {
		c := newSecretsFixture(t)
		c.cfg.Tail = &stall.Tail{Bytes: 1000, Redact: clean}
		c.runWithSecrets("print:"+ready, "stay")
		require.Empty(t, c.leaks())
		require.Contains(t, c.texts["stderr.tail.log"], "***")
	})
	t.Run("what a probe publishes", func(t *testing.T) {
		c := newSecretsFixture(t)
		c.cfg.Probe = &stall.Probe{
			Command: childCommand(t, secretProbe), Interval: time.Millisecond, Timeout: longTime, Publish: true,
		}
		c.runWithSecrets("stay")
		require.ElementsMatch(t, []string{"probe.jsonl", "event.json", "decision.json", "the result"}, c.leaks())
	})
}
