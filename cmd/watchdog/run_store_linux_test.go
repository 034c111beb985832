package main_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// runs is the store in the file runs.db.
func (f *fixture) runs() testStore {
	f.Helper()
	return openStore(f.T, "sqlite:"+f.path("runs.db"))
}

func TestRunStore(t *testing.T) {
	t.Parallel()
	inFixture(t, "has the stop of the run and of its command, and the last line says where", func(t *testing.T, f *fixture) {
		o := f.run("--store sqlite:runs.db --terminal ^ready$ --id nightly --step build", f.child("say:ready", "stay")...)
		o.must(t, 124)
		require.Equal(t, "watchdog: the output has a line of terminal pattern 1: ended by SIGINT; "+
			"see: watchdog why --store sqlite:runs.db nightly\n", o.stderr)
		for _, run := range []string{"nightly", "nightly/build"} {
			require.Equal(t, []string{watchdog.EventCancel}, f.runs().kinds(t, run))
			require.Contains(t, f.runs().lastPayload(t, run), `"reason":"terminal"`)
		}
	})
	inFixture(t, "has an interrupt, after which the run can go on", func(t *testing.T, f *fixture) {
		for _, flags := range []string{"--id nightly", "--id guarded --no-output 5m"} {
			p := start(t, f.cmd("--store sqlite:runs.db "+flags, f.child("say:ready", "stay")...))
			p.signal(syscall.SIGTERM)
			o := p.end().must(t, 143)
			id := strings.Fields(flags)[1]
			require.Regexp(t, "^watchdog: run "+id+` was interrupted after \d+s by SIGTERM: ended by SIGINT; see: `, o.stderr)
			require.Contains(t, f.runs().lastPayload(t, id), `"signal":"SIGTERM"`)
			require.Equal(t, []string{"interrupted", "", "interrupt"}, f.runs().end(t, id))
		}
		f.run("--store sqlite:runs.db --id nightly", f.child("exit:0")...).must(t, 0)
		require.Equal(t, []string{watchdog.EventInterrupt, watchdog.EventComplete}, f.runs().kinds(t, "nightly"))
	})
	inFixture(t, "has a run without a name under a random one, which the last line names", func(t *testing.T, f *fixture) {
		o := f.run("--store sqlite:runs.db --wall-clock 2s", f.child("stay")...).must(t, 124)
		name := regexp.MustCompile(`see: watchdog why --store sqlite:runs.db (\S{16})\n$`).FindStringSubmatch(o.stderr)
		require.NotNil(t, name, o.stderr)
		require.Equal(t, []string{watchdog.EventCancel}, f.runs().kinds(t, name[1]))
	})
	inFixture(t, "has a run under its name with the time in it", func(t *testing.T, f *fixture) {
		o := f.run("--json --store sqlite:runs.db --id job-{time}", "true").must(t, 0)
		name := regexp.MustCompile(`^{"run":"(job-\d{8}T\d{6}Z)",`).FindStringSubmatch(o.stderr)
		require.NotNil(t, name, o.stderr)
		require.Equal(t, []string{watchdog.EventComplete}, f.runs().kinds(t, name[1]))
	})
	inFixture(t, "that cannot be opened starts no command, and its password is nowhere", func(t *testing.T, f *fixture) {
		require.NoError(t, os.WriteFile(f.path("no-database"), []byte(strings.Repeat("no database\n", 100)), 0o600))
		for _, store := range []string{
			"sqlite:none/runs.db", "sqlite:no-database", "postgres://somebody:canary@127.0.0.1:1/none?password=canary",
			"mysql://somebody:canary@127.0.0.1/none",
		} {
			o := f.run("--store "+store, f.child("touch:"+f.path("started"))...).must(t, 125)
			require.NotEmpty(t, o.stderr)
			require.NotContains(t, o.stderr, "canary")
			require.False(t, f.exists("started"), store)
		}
	})
}

func TestRunJSON(t *testing.T) {
	t.Parallel()
	newFixture(t) // or skip the test
	lines := []string{
		"--json", "--json --wall-clock 2s", "--json --wall-clock 2s --artifacts state --id a --step build",
		"--json --wall-clock 2s --store sqlite:runs.db --id b", "--json --store sqlite:runs.db --id c",
	}
	said := make([]string, len(lines))
	t.Run("of each kind", func(t *testing.T) {
		for i, line := range lines {
			inFixture(t, line, func(t *testing.T, f *fixture) {
				steps := []string{"exit:3"}
				if strings.Contains(line, "wall-clock") {
					steps = []string{"stay"}
				}
				o := f.run(line, f.child(steps...)...)
				elapsed := regexp.MustCompile(`"elapsed_seconds":[0-9.e-]+`)
				said[i] = "watchdog run " + line + "\n\t" + elapsed.ReplaceAllString(
					lengths.ReplaceAllString(o.stderr, "$1 TIME of"), `"elapsed_seconds":SECONDS`)
			})
		}
	})
	compare(t, "run_json", strings.Join(said, ""))
}

// TestNothingWritten looks at every folder in which a program might leave something.
func TestNothingWritten(t *testing.T) {
	t.Parallel()
	for _, flags := range []string{"", "--no-output 1s --wall-clock 1m", "--no-output 1s --artifacts state"} {
		f := newFixture(t)
		home, temp := t.TempDir(), t.TempDir()
		cmd := f.cmd(flags, f.child("say:canary", "await:"+f.path("go"))...)
		if flags == "" {
			cmd = f.cmd(flags, f.child("say:canary")...)
		}
		cmd.Env = append(cmd.Env, "HOME="+home, "TMPDIR="+temp, "XDG_CACHE_HOME=", "XDG_STATE_HOME=", "XDG_CONFIG_HOME=")
		finish(t, cmd)
		require.Empty(t, files(t, home), flags)
		require.Empty(t, files(t, temp), flags)
		written := files(t, f.dir)
		if !strings.Contains(flags, "artifacts") {
			require.Empty(t, written, flags)
			continue
		}
		require.Equal(t, []string{"state/command/_stall/event.json"}, written)
		text, err := os.ReadFile(f.path(written[0]))
		require.NoError(t, err)
		require.NotContains(t, string(text), "canary")
	}
}

// files lists the files in a folder, and in those in it.
func files(t *testing.T, dir string) (found []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			name, _ := filepath.Rel(dir, path)
			found = append(found, name)
		}
		return err
	}))
	return found
}

// TestRunWaits protects that the end of a command is on record though the store is away for a moment when it ends:
// a command that succeeded would be told as stalled.
func TestRunWaits(t *testing.T) {
	t.Parallel()
	const waits = "watchdog: waiting for the store to take how run job ended: "
	for name, c := range map[string]struct {
		flags, step string
		status      int
	}{
		"that succeeded": {"", "exit:0", 0},
		"that failed":    {"--no-output 5m", "exit:7", 7},
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
			require.Equal(t, 1, strings.Count(o.stderr, "\n"), o.stderr)
			require.Equal(t, []string{"finished", "complete", "complete"}, s.end(t, "job"))
			require.Contains(t, s.swept(t).stdout, "0 cancelled")
			require.Empty(t, s.leases(t))
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
		require.Contains(t, o.stderr, "\nwatchdog: the output has a line of terminal pattern 1: ended by SIGINT; see: ")
		require.NotContains(t, o.stderr, "record the end")
		code := string(watchdog.CommandTerminal)
		require.Equal(t, []string{"cancelled", code, code}, s.end(t, "job"))
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
		require.Equal(t, "watchdog: record the end: run job was stopped by another process, with watchdog_idle_timeout, when its "+
			"command had ended by itself: its events say so\n", o.stderr)
		require.Equal(t, []string{watchdog.EventWarning, watchdog.EventCancel, watchdog.EventCorrection}, s.kinds(t, "job"))
		require.Contains(t, s.program(t, "why", "job").stdout, "it had finished by itself, and the stop came too late")
		require.Equal(t, session.Cancelled, s.row(t, "job").Status)
	})
}
