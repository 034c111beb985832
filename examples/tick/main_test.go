package main

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTicks(t *testing.T) {
	for call, says := range map[string][]string{
		"ignores": {
			`first tick: layer hard after 800ms, result "", overran true`, "released what the call held",
			"; last noted: fetch the page", "abandoned: tick, since", ", in: fetch the page",
			`second tick: layer none after 0s, result "done", overran false`,
			"ended 1.2s after its caller left; its result was dropped",
		},
		"obeys":    {`first tick: layer soft after 500ms, result "partial", overran true`, "overran its limit of 500ms"},
		"finishes": {`first tick: layer none after 0s, result "done", overran false`},
		"panics":   {"layer hard", "its panic was dropped: after the caller left"},
	} {
		t.Run(call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out, errs bytes.Buffer
				require.Zero(t, run(t.Context(), []string{"-call", call}, &out, &errs), errs.String())
				for _, line := range says {
					require.Contains(t, out.String(), line)
				}
			})
		})
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"-call", "other"}, {"-limit", "0s"}, {"-unknown"}, {"argument"}} {
		var out, errs bytes.Buffer
		require.Equal(t, 2, run(t.Context(), args, &out, &errs), args)
		require.Contains(t, errs.String(), "tick -h lists the flags")
	}
}

func TestHelp(t *testing.T) {
	var out, errs bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"-h"}, &out, &errs))
	require.Contains(t, out.String(), "usage: tick [FLAGS]")
	require.Contains(t, out.String(), "Exit status: 0")
	require.Empty(t, errs.String())
}

func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(900*time.Millisecond, cancel) // while the abandoned call goes on
		var out, errs bytes.Buffer
		require.Equal(t, 1, run(ctx, nil, &out, &errs))
		require.Contains(t, errs.String(), "interrupted")
		time.Sleep(time.Minute) // the abandoned call ends
	})
}
