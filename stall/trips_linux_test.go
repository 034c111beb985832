package stall_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/converge"
	"github.com/seed62658d38/watchdog/stall"
)

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
