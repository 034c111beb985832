package main_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// TestRunWaits protects that the end of a command is on record though the store is away for a moment when it ends:
// a command that succeeded would be told as stalled.
func TestRunWaits(t *testing.T) {
	t.Parallel()
	const waits = "watchdog: waiting for the store to take how run job ended: "
	for name, c := range map[string]struct {
		flags, step string
		status      int
		row, reason string
	}{
		"that succeeded": {"", "exit:0", 0, "finished", "complete"},
		"that failed":    {"--no-output 5m", "exit:7", 7, "finished", "complete"},
	} {
		t.Run("for the end of a command "+name, func(t *testing.T) {
			t.Parallel()
			s := sqliteStore(t)
			f := newFixture(t)
			p := start(t, f.stored(s, c.flags+" --id job", f.child("say:ready", "await:"+f.path("go"), c.step)...))
			s.exec("BEGIN EXCLUSIVE")
			require.NoError(t, stepFuncs["touch"](f.path("go")))
			eventually(t, "it says what it waits for", func() bool { return strings.HasPrefix(p.stderr.String(), waits) })
			s.exec("ROLLBACK")
			o := p.end().must(t, c.status)
			assert.Equal(t, 1, strings.Count(o.stderr, "\n"), o.stderr)
			row, reason, stored := s.end(t, "job")
			assert.Equal(t, []string{c.row, c.reason, c.reason}, []string{string(row), reason, stored})
			assert.Contains(t, s.swept(t).stdout, "0 cancelled")
			assert.Empty(t, s.leases(t))
		})
	}
	t.Run("for the stop of a command that was stuck", func(t *testing.T) {
		t.Parallel()
		s := sqliteStore(t)
		f := newFixture(t)
		steps := []string{"say:ready", "await:" + f.path("go"), "say:fatal", "stay"}
		p := start(t, f.stored(s, "--id job --record-timeout 3s --terminal ^fatal$", f.child(steps...)...))
		s.exec("BEGIN EXCLUSIVE")
		require.NoError(t, stepFuncs["touch"](f.path("go")))
		eventually(t, "it says what it waits for", func() bool { return strings.HasPrefix(p.stderr.String(), waits) })
		s.exec("ROLLBACK")
		o := p.end().must(t, 124)
		assert.Contains(t, o.stderr, "\nwatchdog: the output has a line of terminal pattern 1: ended by SIGINT; see: ")
		assert.NotContains(t, o.stderr, "record the end")
		row, reason, stored := s.end(t, "job")
		code := string(watchdog.CommandTerminal)
		assert.Equal(t, []string{"cancelled", code, code}, []string{string(row), reason, stored})
	})
	t.Run("and corrects what a sweeper said of a command that had ended by itself", func(t *testing.T) {
		t.Parallel()
		s := sqliteStore(t)
		f := newFixture(t)
		cmd := f.stored(s, "--id job", f.child("say:ready", "await:"+f.path("go"), "exit:0")...)
		cmd.Env = append(cmd.Env, "WATCHDOG_KEEPER_POLL_MS=3600000", "WATCHDOG_KEEPER_PROMISE_MS=60000")
		p := start(t, cmd)
		row := s.row(t, "job")
		stalled := sweep.StalledRun{
			RunID: "job", StartedAt: row.StartedAt, DecidedAt: time.Now(), Silence: time.Hour, Threshold: time.Minute,
		}
		outcome, err := s.Cancel(t.Context(), row, session.CancelRequest{
			By: "pass", Reason: watchdog.SessionIdleTimeout, Events: stalled.CancelEvents(),
		})
		require.NoError(t, err)
		require.Equal(t, session.Done, outcome)
		require.NoError(t, stepFuncs["touch"](f.path("go")))
		o := p.end().must(t, 0)
		assert.Equal(t, "watchdog: record the end: run job was stopped by another process, with watchdog_idle_timeout, when its "+
			"command had ended by itself: its events say so\n", o.stderr)
		assert.Equal(t, []string{watchdog.EventWarning, watchdog.EventCancel, watchdog.EventCorrection}, s.kinds(t, "job"))
		assert.Contains(t, s.program(t, "why", "job").stdout, "it had finished by itself, and the stop came too late")
		assert.Equal(t, session.Cancelled, s.row(t, "job").Status)
	})
}
