package probe_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/stall/internal/probe"
)

func TestRead(t *testing.T) {
	saw := []byte(`{"class":"terminal"}`)
	_, notFound := exec.LookPath("/" + canary)
	notStarted := func(err error) probe.Outcome {
		return probe.Outcome{StartErr: &exec.Error{Name: canary, Err: err}}
	}
	for _, c := range []struct {
		name    string
		outcome probe.Outcome
		anyExit bool
		want    probe.Blind
		says    string
	}{
		{"exit status 0", probe.Outcome{Output: saw}, false, "", ""},
		{
			"exit status 1", probe.Outcome{ExitStatus: 1, Output: saw}, false,
			probe.BlindExit, "the probe failed: exit status 1",
		},
		{"exit status 1 with anyExit", probe.Outcome{ExitStatus: 1, Output: saw}, true, "", ""},
		{
			"a signal", probe.Outcome{ExitStatus: -1, Output: saw}, false,
			probe.BlindExit, "the probe failed: a signal ended it",
		},
		{"a signal with anyExit", probe.Outcome{ExitStatus: -1, Output: saw}, true, probe.BlindExit, "a signal"},
		{
			"a timeout after the output", probe.Outcome{TimedOut: true, ExitStatus: -1, Output: saw}, true,
			probe.BlindTimeout, "the probe did not end within its timeout",
		},
		{
			"no such program", probe.Outcome{StartErr: fmt.Errorf("start: %w", notFound)}, true,
			probe.BlindStart, "the probe could not be started: there is no such program or folder",
		},
		{
			"a program that may not be run", notStarted(fs.ErrPermission), false,
			probe.BlindStart, "the probe could not be started: its program may not be run",
		},
		{
			"another error at the start", notStarted(errors.ErrUnsupported), false,
			probe.BlindStart, "the probe could not be started",
		},
		{
			"an output that is no object", probe.Outcome{Output: []byte(canary)}, false,
			probe.BlindOutput, "the probe's output is no observation: the probe did",
		},
		{
			"an output that is no object, with anyExit", probe.Outcome{ExitStatus: 2, Output: []byte(canary)}, true,
			probe.BlindOutput, "no observation",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen, blind, err := probe.Read(c.outcome, c.anyExit)
			require.Equal(t, c.want, blind)
			if blind == "" {
				require.NoError(t, err)
				require.Equal(t, digest(t, string(saw)), seen.Digest)
				return
			}
			assert.ErrorContains(t, err, c.says)
			assert.NotContains(t, err.Error(), letter)
			assert.Zero(t, seen)
		})
	}
}

// TestReadReason checks that Read wraps the error of Parse.
func TestReadReason(t *testing.T) {
	_, _, err := probe.Read(probe.Outcome{Output: []byte(`{"a":1,"a":1}`)}, false)
	require.ErrorIs(t, err, probe.ErrDuplicateKey)
}

// TestBlindString checks that every Blind has a text of its own.
func TestBlindString(t *testing.T) {
	texts := map[string]bool{}
	all := []probe.Blind{"", probe.BlindStart, probe.BlindTimeout, probe.BlindExit, probe.BlindOutput, "another"}
	for _, b := range all {
		require.NotEmpty(t, b.String())
		texts[b.String()] = true
	}
	require.Len(t, texts, 6)
}
