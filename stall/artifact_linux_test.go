package stall_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

// What differs from run to run.
var variable = regexp.MustCompile(`("(?:observed_at_unix|sent_at_unix_ms|at_unix_ms|duration_ms|decided_at_unix)": ?)\d+|("event_id": ")[0-9a-f-]+`)

func normal(text string) string { return variable.ReplaceAllString(text, "${1}${2}0") }

func TestTheArtifactsOfATrip(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.cfg.CheckID, b.cfg.Workflow, b.cfg.Iteration, b.cfg.AsIncomplete = "tests-pass", "release", 3, true
	b.cfg.Probe = &stall.Probe{
		Command: []string{self(t), actor, `print:{"class": "terminal", "fingerprints": ["k8s/crd/missing:widgets"], "reasons": ["waits"]}`}, Publish: true, Timeout: patient,
	}
	b.cfg.Tail = &stall.Tail{Bytes: 1000, Redact: func(p []byte) []byte { return bytes.ReplaceAll(p, []byte("hunter2"), []byte("***")) }}
	said := filepath.Join(t.TempDir(), "said")
	b.cfg.Probe.Command = append(b.cfg.Probe.Command[:2:2], "await:"+said, b.cfg.Probe.Command[2])
	result, err := b.run(play(t, "obey:INT:7", "warn:password hunter2", "touch:"+said, "stay"))
	require.NoError(t, err, "an incomplete check is no error")
	require.True(t, result.Incomplete)
	require.Equal(t, filepath.Join(b.cfg.Artifacts, "step", "_stall"), result.Artifacts)
	require.NoError(t, result.ArtifactErr)
	require.ElementsMatch(t, words("event.json decision.json probe.jsonl stderr.tail.log"), b.artifacts())
	require.Equal(t, "password ***\n", b.artifact("stderr.tail.log"))
	for _, name := range words("event.json decision.json probe.jsonl") {
		golden(t, name, normal(b.artifact(name)))
	}
}

func TestTheEventIsThereBeforeTheFirstSignal(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.cfg.Terminal = readyLine
	seen := filepath.Join(t.TempDir(), "seen")
	event := filepath.Join(b.cfg.Artifacts, "step", "_stall", "event.json")
	result, _ := b.stalled(play(t, "copy:"+event+":"+seen, "print:"+ready, "stay"))
	require.Zero(t, result.ExitCode, "its handler found the file")
	text, err := os.ReadFile(seen)
	require.NoError(t, err)
	var before record
	require.NoError(t, json.Unmarshal(text, &before))
	require.False(t, before.Complete)
	require.Equal(t, words("SIGINT SIGTERM SIGKILL"), before.Action.Requested)
	require.Empty(t, before.Action.Sent)
	require.NotEmpty(t, before.EventID)
	after := b.record()
	require.True(t, after.Complete)
	require.Equal(t, before.EventID, after.EventID)
	require.Len(t, after.Action.Sent, 1)
}

func TestTheTail(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, tail *stall.Tail, one bool) (*bed, *stall.Result) {
		t.Helper()
		b := newBed(t)
		b.cfg.Terminal, b.cfg.Tail = readyLine, tail
		cmd := play(t, "warn:oops", "print:"+ready, "stay")
		if one {
			var out strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &out
		}
		result, _ := b.stalled(cmd)
		return b, result
	}
	same := func(p []byte) []byte { return p }
	t.Run("is off unless asked for", func(t *testing.T) {
		t.Parallel()
		b, _ := run(t, nil, false)
		require.Equal(t, []string{"event.json"}, b.artifacts())
	})
	t.Run("is of standard error", func(t *testing.T) {
		t.Parallel()
		b, _ := run(t, &stall.Tail{Bytes: 100, Redact: same}, false)
		require.Equal(t, "oops\n", b.artifact("stderr.tail.log"))
		require.Equal(t, map[string]string{"stderr_tail": "stderr.tail.log"}, b.record().Pointers)
	})
	t.Run("is of both where they are one writer", func(t *testing.T) {
		t.Parallel()
		b, _ := run(t, &stall.Tail{Bytes: 100, Redact: same}, true)
		require.Equal(t, "oops\nready\n", b.artifact("stderr.tail.log"))
	})
	t.Run("is not written where it could not be redacted", func(t *testing.T) {
		t.Parallel()
		b, result := run(t, &stall.Tail{Bytes: 100, Redact: func(p []byte) []byte { panic(string(p)) }}, false)
		require.Equal(t, []string{"event.json"}, b.artifacts())
		require.ErrorContains(t, result.ArtifactErr, "Redact panicked")
		require.NotContains(t, result.ArtifactErr.Error(), "oops")
		require.True(t, b.record().Complete)
	})
}

func TestTailRedactThatExits(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.cfg.Terminal, b.cfg.RecordTimeout = readyLine, patient
	b.cfg.Tail = &stall.Tail{Bytes: 100, Redact: func([]byte) []byte { runtime.Goexit(); return nil }}
	began := time.Now()
	result, _ := b.stalled(play(t, "warn:oops", "print:"+ready, "stay"))
	within(t, late+late, began)
	require.ErrorContains(t, result.ArtifactErr, "Tail.Redact ended its goroutine; the tail was not written")
	require.Equal(t, []string{"event.json"}, b.artifacts())
}

func TestADiskThatIsFullDoesNotKeepACommandAlive(t *testing.T) {
	t.Parallel()
	out, err := play(t, "full:"+filepath.Join(t.TempDir(), "state")).CombinedOutput()
	require.NoError(t, err, string(out))
}

// full:ROOT runs a command in a host that may write no file of more than 100 bytes.
func fullDisk(root string) error {
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 100, Max: 100}); err != nil {
		return err
	}
	cmd := exec.Command(os.Args[0], actor, "print:"+ready, "stay")
	cfg := stall.Config{Step: "step", Store: &watchdog.Memory{}, Logger: quiet, Terminal: readyLine, Artifacts: root}
	result, _ := stall.Run(context.Background(), cmd, cfg)
	if result == nil || !result.Terminated || result.EndedBy != syscall.SIGINT {
		return fmt.Errorf("the command was not ended: %+v", result)
	}
	if result.ArtifactErr == nil || !strings.Contains(result.ArtifactErr.Error(), "file too large") {
		return fmt.Errorf("the error is %w", result.ArtifactErr)
	}
	if result.Artifacts != "" || exists(filepath.Join(root, "step", "_stall", "event.json")) {
		return fmt.Errorf("there are artifacts: %s", result.Artifacts)
	}
	return nil
}

func TestARedactionThatHangsDoesNotKeepRun(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.cfg.Terminal = readyLine
	b.cfg.RecordTimeout = 300 * time.Millisecond
	release := make(chan struct{})
	defer close(release)
	b.cfg.Tail = &stall.Tail{Bytes: 10, Redact: func(p []byte) []byte { <-release; return p }}
	began := time.Now()
	result, _ := b.stalled(play(t, "print:"+ready, "stay"))
	within(t, late+late, began)
	require.ErrorContains(t, result.ArtifactErr, "Tail.Redact did not return")
	require.True(t, b.record().Complete, "and nothing else is missing")
	require.Equal(t, []string{"event.json"}, b.artifacts())
}
