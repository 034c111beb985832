package stall_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/converge"
	"github.com/seed62658d38/watchdog/stall"
)

// variable matches what differs from run to run.
var variable = regexp.MustCompile(
	`("(?:observed_at_unix|sent_at_unix_ms|at_unix_ms|duration_ms|decided_at_unix)": ?)\d+|("event_id": ")[0-9a-f-]+`)

func normal(text string) string { return variable.ReplaceAllString(text, "${1}${2}0") }

// terminalProbe is the output of a probe that trips at once.
const terminalProbe = `{"class": "terminal", "fingerprints": ["k8s/crd/missing:widgets"], "reasons": ["waits"]}`

// TestArtifacts compares the artifacts of a trip with golden files.
func TestArtifacts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.cfg.CheckID, f.cfg.Workflow, f.cfg.Iteration, f.cfg.AsIncomplete = "tests-pass", "release", 3, true
	f.cfg.Tail = &stall.Tail{Bytes: 1000, Redact: func(p []byte) []byte {
		return bytes.ReplaceAll(p, []byte("hunter2"), []byte("***"))
	}}
	f.cfg.StepLog = "context/step/_logs/worker.log"
	printed := filepath.Join(t.TempDir(), "printed")
	f.cfg.Probe = &stall.Probe{
		Command: childCommand(t, "await:"+printed, "print:"+terminalProbe), Publish: true, Timeout: longTime,
	}
	f.cfg.AlsoEnd = &stall.AlsoEnd{Command: childCommand(t, "exit:0"), Timeout: longTime}
	result, err := f.run(command(t, "obey:INT:7", "warn:password hunter2", "touch:"+printed, "stay"))
	require.NoError(t, err, "an incomplete check is no error")
	require.True(t, result.Incomplete)
	require.Equal(t, filepath.Join(f.cfg.Artifacts, "step", "_stall"), result.Artifacts)
	require.NoError(t, result.ArtifactErr)
	require.ElementsMatch(t, words("event.json decision.json probe.jsonl stderr.tail.log"), f.artifacts())
	require.Equal(t, "password ***\n", f.artifact("stderr.tail.log"))
	for _, name := range words("event.json decision.json probe.jsonl") {
		golden(t, name, strings.ReplaceAll(normal(f.artifact(name)), f.cfg.Artifacts, "context"))
	}
}

// TestEventBeforeSignal checks that event.json is there before the first signal.
func TestEventBeforeSignal(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.cfg.Terminal = readyLine
	copied := filepath.Join(t.TempDir(), "copied")
	event := filepath.Join(f.cfg.Artifacts, "step", "_stall", "event.json")
	result, _ := f.stalled(command(t, "copy:"+event+":"+copied, "print:"+ready, "stay"))
	require.Zero(t, result.ExitCode, "its signal handler found the file")
	text, err := os.ReadFile(copied)
	require.NoError(t, err)
	var before record
	require.NoError(t, json.Unmarshal(text, &before))
	require.False(t, before.Complete)
	require.Equal(t, words("SIGINT SIGTERM SIGKILL"), before.Action.Requested)
	require.Empty(t, before.Action.Sent)
	require.NotEmpty(t, before.EventID)
	after := f.record()
	require.True(t, after.Complete)
	require.Equal(t, before.EventID, after.EventID)
	require.Len(t, after.Action.Sent, 1)
}

func TestTail(t *testing.T) {
	t.Parallel()
	for want, one := range map[string]bool{"oops\n": false, "oops\nready\n": true} {
		t.Run(fmt.Sprint("is the end of standard error, and of both outputs if they are one writer: ", one), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.cfg.Terminal, f.cfg.Tail = readyLine, &stall.Tail{Bytes: 100, Redact: func(p []byte) []byte { return p }}
			cmd := command(t, "warn:oops", "print:"+ready, "stay")
			if one {
				cmd.Stdout = new(strings.Builder)
				cmd.Stderr = cmd.Stdout
			}
			f.stalled(cmd)
			require.Equal(t, want, f.artifact("stderr.tail.log"))
			require.Equal(t, map[string]string{"stderr_tail": "stderr.tail.log"}, f.record().Pointers)
		})
	}
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	for says, redact := range map[string]func([]byte) []byte{
		"Tail.Redact panicked":             func(p []byte) []byte { panic(string(p)) },
		"Tail.Redact ended its goroutine":  func([]byte) []byte { runtime.Goexit(); return nil },
		"Tail.Redact did not return in 2s": func(p []byte) []byte { <-hang; return p },
	} {
		t.Run("is not written if "+says, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.cfg.Terminal, f.cfg.RecordTimeout, f.cfg.Tail = readyLine, 2*time.Second, &stall.Tail{Bytes: 100, Redact: redact}
			result, _ := f.stalled(command(t, "warn:oops", "print:"+ready, "stay"))
			require.ErrorContains(t, result.ArtifactErr, says+"; the tail was not written")
			require.NotContains(t, result.ArtifactErr.Error(), "oops")
			require.True(t, f.record().Complete, "and nothing else is missing")
			require.Equal(t, []string{"event.json"}, f.artifacts())
		})
	}
}

// TestFullDisk checks that a full disk does not keep a command alive.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	out, err := command(t, "full:"+filepath.Join(t.TempDir(), "state")).CombinedOutput()
	require.NoError(t, err, string(out))
}

// full:ROOT runs a command in a host that may not write a file of more than 100 bytes.
func fullDisk(root string) error {
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 100, Max: 100}); err != nil {
		return err
	}
	cmd := exec.Command(os.Args[0], childArg, "print:"+ready, "stay")
	cfg := stall.Config{Step: "step", Store: &watchdog.Memory{}, Logger: discard, Terminal: readyLine, Artifacts: root}
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

// TestFingerprints checks that the next attempt can be compared with this one, however it ended.
func TestFingerprints(t *testing.T) {
	t.Parallel()
	t.Run("no progress has one that is the same for all states, also beside the probe's own", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		f.cfg.Probe, f.cfg.FingerprintPrefix = f.probe("a"), "ci"
		result, _ := f.stalled(command(t, "every:20ms:x"))
		require.Len(t, result.Fingerprints(), 2)
		require.Equal(t, "ci/stall/no-progress", result.Fingerprints()[0])
		require.Contains(t, result.Fingerprints()[1], "ci/stall/no_progress:")
		f.cfg.Probe.Command = childCommand(t, `print:{"fingerprints": ["k8s/crd/missing:widgets"]}`)
		result, _ = f.stalled(command(t, "every:20ms:x"))
		require.Equal(t, words("ci/stall/no-progress k8s/crd/missing:widgets"), result.Fingerprints())
	})
	t.Run("no progress has it beside as many as a probe can give", func(t *testing.T) {
		j := stall.NewJudge(stall.Config{Probe: &stall.Probe{StallThreshold: 2}})
		var own []string
		for n := range 32 {
			own = append(own, fmt.Sprintf("a/%02d", n))
		}
		require.Nil(t, j.Probed(stall.Look{Digest: "same", Fingerprints: own}, 0))
		found := j.Probed(stall.Look{Digest: "same", Fingerprints: own}, 0)
		require.Len(t, found.Fingerprints, 32)
		require.Contains(t, found.Fingerprints, "stall/no-progress")
	})
	t.Run("without a trip there are none, also if there is no result", func(t *testing.T) {
		t.Parallel()
		tracker, err := converge.New(converge.Config{})
		require.NoError(t, err)
		f := newFixture(t)
		result, _ := f.run(command(t, "exit:0"))
		for _, result := range []*stall.Result{nil, {}, result} {
			decision, err := tracker.Observe(result.Fingerprints())
			require.NoError(t, err)
			require.Equal(t, converge.Continue, decision.Advice)
		}
	})
}

// TestEarlierAttempt checks that the files of an earlier attempt never pass for those of this one.
func TestEarlierAttempt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.cfg.Probe, f.cfg.AsIncomplete = f.probe("=terminal"), true
	_, err := f.run(command(t, "stay"))
	require.NoError(t, err)
	all := words("decision.json event.json probe.jsonl")
	require.ElementsMatch(t, all, f.artifacts())
	earlier := map[string]string{}
	for _, name := range all {
		earlier[name] = f.artifact(name)
	}
	f.cfg.Probe = nil
	folder := filepath.Join(f.cfg.Artifacts, f.cfg.Step, "_stall")
	cmd := command(t, "exit:0")
	result, err := f.run(cmd)
	require.NoError(t, err)
	require.Empty(t, result.Artifacts)
	for _, name := range all {
		require.False(t, exists(filepath.Join(folder, name)))
		require.Equal(t, earlier[name], f.artifact("previous."+name))
	}
	_, err = f.run(command(t, "exit:0"))
	require.NoError(t, err)
	require.Empty(t, f.artifacts(), "they are of no use any more")
}

// TestIgnored checks that each silence that is ignored is recorded.
func TestIgnored(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.cfg.NoOutput, f.cfg.OnStall = 200*time.Millisecond, stall.ActionIgnore
	trips := filepath.Join(t.TempDir(), "trips")
	f.cfg.Store = &endingStore{f.store, func() { appendLine(t, trips) }}
	result, err := f.run(command(t,
		"lines:"+trips+":1", "print:a", "lines:"+trips+":2", "print:b", "lines:"+trips+":3"))
	require.NoError(t, err)
	require.Len(t, result.Trips, 3)
	require.Len(t, f.events(watchdog.EventWarning), 3)
	require.Equal(t, *result.Trip, result.Trips[0])
	require.Empty(t, result.Fingerprints(), "the command has finished")
}

// appendLine tells a child of one more event.
func appendLine(t *testing.T, path string) {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if assert.NoError(t, err) {
		_, err = file.WriteString("\n")
		assert.NoError(t, errors.Join(err, file.Close()))
	}
}

// TestVolatile checks that a probe which always differs in the same field is noticed.
func TestVolatile(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var log bytes.Buffer
	f.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	f.cfg.Probe = f.probe("1,2,3,4,5,6,7,8")
	lines := filepath.Join(f.cfg.Artifacts, "step", "_stall", "probe.jsonl")
	result, err := stall.Run(context.Background(), command(t, "lines:"+lines+":8"), f.cfg)
	require.NoError(t, err)
	require.Equal(t, []string{"state.at"}, result.Probes.Volatile)
	require.Equal(t, 1, strings.Count(log.String(), "state.at"), log.String())
}
