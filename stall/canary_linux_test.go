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

// canary is planted wherever a command or a probe could have a secret.
const canary = "canary-7c1e9f"

// A lockedBuffer is one that several goroutines log to.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

// A cage gathers all that is written and said about a command, by its name.
type cage struct {
	*bed
	logs lockedBuffer
	said map[string]string
}

func newCage(t *testing.T) *cage {
	c := &cage{bed: newBed(t), said: map[string]string{}}
	c.cfg.Logger = slog.New(slog.NewTextHandler(&c.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	c.cfg.WallClock = patient
	c.cfg.NoOutput = patient
	c.cfg.Terminal = readyLine
	c.cfg.AsIncomplete = true
	return c
}

// plant is a command with canaries in its arguments, environment, input and outputs.
func (c *cage) plant(steps ...string) {
	c.Helper()
	all := []string{"print:" + canary, "warn:" + canary, "touch:" + filepath.Join(c.TempDir(), canary)}
	cmd := play(c, append(all, steps...)...)
	cmd.Env = append([]string{"PASSWORD=" + canary}, cmd.Env...)
	cmd.Stdin = strings.NewReader(canary)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, failing{}
	if c.cfg.Tail != nil {
		cmd.Stderr = &strings.Builder{}
	}
	c.note(stall.Run(c.Context(), cmd, c.cfg))
}

func (c *cage) note(result *stall.Result, err error) {
	c.Helper()
	c.said["the error"] = fmt.Sprintf("%v %+v", err, err)
	c.said["the log"] = c.logs.String()
	if result != nil {
		c.said["the result"] = fmt.Sprintf("%+v %+v %v %v", result, result.Trip, result.ArtifactErr, result.OutputErr)
	}
	for _, id := range []string{"run", "run/step"} {
		events, readErr := c.store.Read(context.Background(), watchdog.AggregateType, id)
		require.NoError(c, readErr)
		for i, e := range events {
			c.said[fmt.Sprintf("event %d of %s", i, id)] = fmt.Sprintf("%+v %s", e, e.Payload)
		}
	}
	_ = filepath.WalkDir(c.cfg.Artifacts, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			text, _ := os.ReadFile(path)
			c.said[entry.Name()] = path + string(text)
		}
		return nil
	})
}

// holds are the names of what has the canary.
func (c *cage) holds() (names []string) {
	for name, text := range c.said {
		if strings.Contains(text, canary) {
			names = append(names, name)
		}
	}
	return names
}

// A talkative probe prints canaries in every field but its fingerprints.
var talkative = `print:{"class": "stalled", "digest": "` + canary + `", "summary": "` + canary + `", "reasons": ["` + canary + `"], "` + canary + `": "` + canary + `"}`

func TestNoCanaryIsFoundAnywhere(t *testing.T) {
	probe := func(t *testing.T, steps ...string) *stall.Probe {
		return &stall.Probe{Command: append([]string{self(t), actor}, steps...), Interval: time.Millisecond, Timeout: patient}
	}
	for _, c := range []struct {
		name  string
		plant func(*cage)
		finds string // in one of the places, to show that something was there to look at
	}{
		{"after a terminal line", func(c *cage) { c.plant("print:"+ready, "stay") }, "terminal pattern 1"},
		{"after a probe's trip", func(c *cage) {
			c.cfg.Probe = probe(t, talkative)
			c.plant("stay")
		}, "3 probes in a row saw the same"},
		{"after probes that fail and print no object", func(c *cage) {
			c.cfg.Probe = probe(t, "print:"+canary, "warn:"+canary)
			c.cfg.Probe.OnError = stall.ErrorStall
			c.plant("stay")
		}, "probe_blind:output"},
		{"after a probe that cannot be started", func(c *cage) {
			c.cfg.Probe = &stall.Probe{Command: []string{"/no/such/" + canary, canary}, Interval: time.Millisecond, OnError: stall.ErrorTerminal}
			c.plant("stay")
		}, "probe_blind:start"},
		{"after a failure", func(c *cage) { c.plant("exit:3") }, "exit status 3"},
		{"after a failed start", func(c *cage) {
			cmd := play(c, canary)
			cmd.Path, cmd.Dir = "/no/such/"+canary, "/no/such/"+canary
			c.note(stall.Run(c.Context(), cmd, c.cfg))
		}, "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cage := newCage(t)
			c.plant(cage)
			require.Empty(t, cage.holds())
			require.Contains(t, fmt.Sprint(cage.said), c.finds)
		})
	}
}

func TestACanaryIsFoundOnlyWhereThatWasTurnedOn(t *testing.T) {
	keep := func(p []byte) []byte { return p }
	clean := func(p []byte) []byte { return bytes.ReplaceAll(p, []byte(canary), []byte("***")) }
	t.Run("the tail, where the redaction leaves it", func(t *testing.T) {
		c := newCage(t)
		c.cfg.Tail = &stall.Tail{Bytes: 1000, Redact: keep}
		c.plant("print:"+ready, "stay")
		require.Equal(t, []string{"stderr.tail.log"}, c.holds())
	})
	t.Run("not even the tail, where the redaction removes it", func(t *testing.T) {
		c := newCage(t)
		c.cfg.Tail = &stall.Tail{Bytes: 1000, Redact: clean}
		c.plant("print:"+ready, "stay")
		require.Empty(t, c.holds())
		require.Contains(t, c.said["stderr.tail.log"], "***")
	})
	t.Run("what a probe publishes", func(t *testing.T) {
		c := newCage(t)
		c.cfg.Probe = &stall.Probe{Command: []string{self(t), actor, talkative}, Interval: time.Millisecond, Timeout: patient, Publish: true}
		c.plant("stay")
		require.ElementsMatch(t, []string{"probe.jsonl", "event.json", "decision.json", "the result"}, c.holds())
	})
}
