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
	for _, c := range []struct {
		name    string
		outcome probe.Outcome
		anyExit bool
		want    probe.Blind
		says    string
	}{
		{"a probe that exits with 0 sees", probe.Outcome{Output: saw}, false, "", ""},
		{"a probe that exits with 1 is blind", probe.Outcome{ExitStatus: 1, Output: saw}, false, probe.BlindExit, "the probe failed: exit status 1"},
		{"a probe that exits with 1 sees if any exit will do", probe.Outcome{ExitStatus: 1, Output: saw}, true, "", ""},
		{"a probe that a signal ended is blind", probe.Outcome{ExitStatus: -1, Output: saw}, false, probe.BlindExit, "the probe failed: a signal ended it"},
		{"also if any exit will do", probe.Outcome{ExitStatus: -1, Output: saw}, true, probe.BlindExit, "a signal"},
		{
			"a probe that printed all before its timeout is blind", probe.Outcome{TimedOut: true, ExitStatus: -1, Output: saw}, true,
			probe.BlindTimeout, "the probe did not end within its timeout",
		},
		{
			"a probe that is not there is blind", probe.Outcome{StartErr: fmt.Errorf("start: %w", notFound)}, true,
			probe.BlindStart, "the probe could not be started: there is no such program or folder",
		},
		{
			"a probe that may not be run is blind", probe.Outcome{StartErr: &exec.Error{Name: canary, Err: fs.ErrPermission}}, false,
			probe.BlindStart, "the probe could not be started: its program may not be run",
		},
		{
			"a probe that did not start for another reason is blind", probe.Outcome{StartErr: &exec.Error{Name: canary, Err: errors.ErrUnsupported}}, false,
			probe.BlindStart, "the probe could not be started",
		},
		{"a probe that prints something else is blind", probe.Outcome{Output: []byte(canary)}, false, probe.BlindOutput, "the probe's output is no observation: the probe did"},
		{"also if any exit will do and it failed", probe.Outcome{ExitStatus: 2, Output: []byte(canary)}, true, probe.BlindOutput, "no observation"},
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

func TestAnOutputThatCannotBeReadKeepsItsReason(t *testing.T) {
	_, _, err := probe.Read(probe.Outcome{Output: []byte(`{"a":1,"a":1}`)}, false)
	require.ErrorIs(t, err, probe.ErrDuplicateKey)
}

func TestEveryBlindHasATextOfItsOwn(t *testing.T) {
	texts := map[string]bool{}
	for _, b := range []probe.Blind{"", probe.BlindStart, probe.BlindTimeout, probe.BlindExit, probe.BlindOutput, "another"} {
		require.NotEmpty(t, b.String())
		texts[b.String()] = true
	}
	require.Len(t, texts, 6)
}
