package main_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	autosession "github.com/seed62658d38/watchdog/examples/autosession"
	"github.com/seed62658d38/watchdog/internal/golden"
)

func TestComplete(t *testing.T) {
	t.Parallel()
	parallel(t, "the built-in project passes all phases of the real go command", func(t *testing.T, f *fixture) {
		f.withRealGo()
		done := f.run().must(t, 0)
		require.Contains(t, done.stdout, "COMPLETE: plan, build, vet, test")
		require.Contains(t, done.stdout, f.state, "the state directory")
		require.Equal(t, []string{"complete"}, kinds(f.events()))
		require.Contains(t, f.log("plan"), "autosession/demo/rpn")
		require.Contains(t, f.log("test"), "ok")
	})
	parallel(t, "a complete session stays complete, and says how to run it once more", func(t *testing.T, f *fixture) {
		f.run().must(t, 0)
		first := f.session()
		require.Equal(t, "complete", first.Status)
		again := f.run("-session", first.ID).must(t, 0)
		require.Contains(t, again.stdout, "COMPLETE: plan, build, vet, test")
		require.Equal(t, first, f.session())
		require.Equal(t, []string{"list", "build", "vet", "test"}, f.commands())

		finish(t, f.shell(printed(t, again.stdout, "once more:"))).must(t, 0)
		require.Equal(t, []string{"list", "build", "vet", "test", "list", "build", "vet", "test"}, f.commands())
		require.Equal(t, []string{"complete", "resume", "complete"}, kinds(f.events()))
		require.True(t, f.session().StartedAt.After(first.StartedAt), "the window is a fresh one")
	})
	parallel(t, "a session that was killed before its file said that it is complete is complete", func(t *testing.T, f *fixture) {
		f.run().must(t, 0)
		first := f.session()
		f.overwrite(`{"id":"ID","session_started_at":"` + first.StartedAt.Format(time.RFC3339Nano) + `",` +
			`"status":"running","phase":"test","completed_phases":["plan","build","vet"],` +
			`"budget":{"wall_clock_seconds":0.001}}`)
		require.Contains(t, f.run("-session", first.ID).must(t, 0).stdout, "COMPLETE: plan, build, vet, test")
		require.Equal(t, "complete", f.session().Status)
		require.Equal(t, first.Completed, f.session().Completed)
		require.Equal(t, []string{"list", "build", "vet", "test"}, f.commands())
		require.Equal(t, []string{"complete"}, kinds(f.events()), "the budget is used up, and no cancel came")
	})
	parallel(t, "the phases of a user's project run in its directory", func(t *testing.T, f *fixture) {
		f.withRealGo()
		f.run("-project", "demo/rpn").must(t, 0)
		require.Contains(t, f.log("plan"), "examples/autosession/demo/rpn")
		require.NoDirExists(t, filepath.Join(f.state, "sessions", f.session().ID, "demo"))
	})
}

func TestBlocked(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	blocked := f.run("-budget", "5s", "-hang", "test").must(t, 3)
	stopped := f.session()

	t.Run("a session whose last phase hangs is blocked with its reason", func(t *testing.T) {
		require.Contains(t, blocked.stdout, "BLOCKED in phase test: watchdog_wall_clock_exceeded")
		require.Equal(t, "blocked", stopped.Status)
		require.Equal(t, "test", stopped.Phase)
		require.Equal(t, []string{"plan", "build", "vet"}, stopped.Completed)
		require.Equal(t, "watchdog_wall_clock_exceeded", stopped.StopReason)
		require.GreaterOrEqual(t, stopped.ElapsedSeconds, 5)
	})
	t.Run("a warning came first", func(t *testing.T) {
		require.Contains(t, blocked.stdout, "warning: 80% of the budget of 5s is used")
		require.Equal(t, []string{"warning", "cancel"}, kinds(f.events()))
	})
	t.Run("the command that ignores interrupts has ended", func(t *testing.T) {
		assertGone(t, f.hung("test"))
	})
	t.Run("attaching again prints the same and records nothing", func(t *testing.T) {
		before := f.events()
		again := f.run("-session", stopped.ID).must(t, 3)
		require.Contains(t, again.stdout, "BLOCKED in phase test: watchdog_wall_clock_exceeded")
		require.Equal(t, stopped, f.session())
		require.Equal(t, before, f.events())
	})
	t.Run("a larger budget alone does not undo the stop", func(t *testing.T) {
		f.run("-session", stopped.ID, "-budget", "1h").must(t, 3)
	})
	t.Run("the printed commands show the events and resume the session", func(t *testing.T) {
		events := finish(t, f.shell(printed(t, blocked.stdout, "its events:"))).must(t, 0)
		require.Contains(t, events.stdout, "runtime.watchdog.cancel")

		resumed := finish(t, f.shell(printed(t, blocked.stdout, "to go on:"))).must(t, 0)
		require.Contains(t, resumed.stdout, "COMPLETE: plan, build, vet, test")
		require.Equal(t, []string{"list", "build", "vet", "test"}, f.commands(), "only the unfinished phases run")
		require.Equal(t, []string{"warning", "cancel", "resume"}, kinds(f.events())[:3])
		after := f.session()
		require.Equal(t, "complete", after.Status)
		require.Empty(t, after.StopReason)
		require.True(t, after.StartedAt.After(stopped.StartedAt), "the window is a fresh one")
	})
}

func TestWindows(t *testing.T) {
	t.Parallel()
	parallel(t, "each window that ends has its own cancel", func(t *testing.T, f *fixture) {
		f.run("-budget", "50ms", "-hang", "plan").must(t, 3)
		f.run("-resume", "-budget", "50ms", "-hang", "plan").must(t, 3)
		f.run("-resume", "-budget", "50ms", "-hang", "plan").must(t, 3)
		require.Equal(t, []string{"cancel", "resume", "cancel", "resume", "cancel"}, f.controlEvents())
	})
	parallel(t, "a resume opens a fresh window if the old one ended while no process ran", func(t *testing.T, f *fixture) {
		f.start("plan   1 of 4", "-budget", "30m", "-hang", "plan").signal(syscall.SIGKILL)
		f.backdate(time.Hour)
		f.run("-resume").must(t, 0)
		require.Equal(t, []string{"cancel", "resume", "complete"}, f.controlEvents())
	})
	parallel(t, "two sessions share a directory, and the last one is the default", func(t *testing.T, f *fixture) {
		f.run("-budget", "50ms", "-hang", "plan").must(t, 3)
		first := f.session()
		f.run().must(t, 0)
		require.NotEqual(t, first.ID, f.session().ID)
		f.run("-session", first.ID, "-resume", "-budget", "1h").must(t, 0)
		require.Equal(t, first.ID, f.session().ID)
		require.Equal(t, f.events("-session", first.ID), f.events())
	})
}

// printed returns the rest of the line after a label.
func printed(t *testing.T, text, label string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^ *` + label + ` +(.*)$`).FindStringSubmatch(text)
	require.Len(t, found, 2, "%q in\n%s", label, text)
	return found[1]
}

// shell runs a line as a person pastes it into a shell.
func (f *fixture) shell(line string) *exec.Cmd {
	cmd := exec.CommandContext(f.t.Context(), "sh", "-c", line)
	cmd.Env = f.command().Env
	return cmd
}

func TestLimits(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "limits.yaml")
	text := "runtime_controls:\n  session_wall_clock_seconds: 7200\n  reserve_seconds: 60\n"
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	short := filepath.Join(t.TempDir(), "short.yaml")
	require.NoError(t, os.WriteFile(short, []byte("runtime_controls:\n  session_wall_clock_seconds: 0.05\n"), 0o600))
	const variable = "WATCHDOG_SESSION_WALL_CLOCK_SECONDS"

	for _, c := range []struct {
		name, env string
		flags     []string
		want      string
	}{
		{"the default applies without a setting", "", nil, `session_wall_clock_seconds +4h0m0s +default`},
		{"a file sets the limit", "", []string{"-config", file}, `session_wall_clock_seconds +2h0m0s +.*limits\.yaml:2`},
		{
			"the environment overrides the file", variable + "=3600", []string{"-config", file},
			`session_wall_clock_seconds +1h0m0s +environment ` + variable,
		},
		{
			"the flag overrides both", variable + "=3600", []string{"-config", file, "-budget", "90m"},
			`session_wall_clock_seconds +1h30m0s +flag -budget`,
		},
		{
			"0 in the flag is no limit", variable + "=3600", []string{"-budget", "0"},
			`session_wall_clock_seconds +off +flag -budget`,
		},
		{
			"the flag overrides no other limit of the file", "", []string{"-config", file, "-budget", "90m"},
			`reserve_seconds +1m0s +.*limits\.yaml:3`,
		},
	} {
		parallel(t, c.name, func(t *testing.T, f *fixture) {
			f.env = append(f.env, c.env)
			require.Regexp(t, c.want, f.run(c.flags...).must(t, 0).stdout)
		})
	}
	parallel(t, "a window keeps its limits until a flag or file changes them", func(t *testing.T, f *fixture) {
		f.env = append(f.env, goFails+"=build")
		f.run("-config", file).must(t, 1)
		kept := f.run("-session", f.session().ID).must(t, 1).stdout
		require.Regexp(t, `session_wall_clock_seconds +2h0m0s +session`, kept)
		require.Regexp(t, `reserve_seconds +1m0s +session`, kept)
		require.Regexp(t, `warn_at +0.8 +session`, kept)
		longer := f.run("-session", f.session().ID, "-budget", "3h").must(t, 1).stdout
		require.Regexp(t, `reserve_seconds +1m0s +session`, longer)
		require.Regexp(t, `session_wall_clock_seconds +3h0m0s +session`, f.run("-session", f.session().ID).must(t, 1).stdout)
	})
	parallel(t, "a resume reads the limits again, and an attach to its window keeps them", func(t *testing.T, f *fixture) {
		f.env = append(f.env, goFails+"=build")
		f.run("-config", short, "-hang", "plan").must(t, 3)
		f.run("-session", f.session().ID).must(t, 3)
		require.Regexp(t, `session_wall_clock_seconds +4h0m0s +default`, f.run("-resume").must(t, 1).stdout)
		require.Regexp(t, `session_wall_clock_seconds +4h0m0s +session`, f.run("-session", f.session().ID).must(t, 1).stdout)
	})
	parallel(t, "a resume of a session that is not blocked keeps its window and so its limits", func(t *testing.T, f *fixture) {
		f.env = append(f.env, goFails+"=build")
		f.run("-config", file).must(t, 1)
		require.Regexp(t, `session_wall_clock_seconds +2h0m0s +session`, f.run("-resume").must(t, 1).stdout)
	})
	parallel(t, "the resume command names the limits file", func(t *testing.T, f *fixture) {
		blocked := f.run("-config", short, "-hang", "plan").must(t, 3)
		require.Contains(t, printed(t, blocked.stdout, "to go on:"), "-resume -config "+short)
	})
	parallel(t, "without a limit it prints that nothing stops it, also after an attach", func(t *testing.T, f *fixture) {
		f.env = append(f.env, goFails+"=build")
		for _, flags := range [][]string{{"-budget", "0"}, {"-session"}} {
			if len(flags) == 1 {
				flags = append(flags, f.session().ID)
			}
			require.Contains(t, f.run(flags...).must(t, 1).stdout, "nothing stops this session")
		}
	})
	for name, c := range map[string]struct {
		env   string
		flags []string
		want  string
	}{
		"a missing file":                  {"", []string{"-config", "nowhere.yaml"}, "nowhere.yaml"},
		"a variable that is not a number": {variable + "=soon", nil, variable},
		"a budget below the reserve": {
			"", []string{"-config", file, "-budget", "30s"}, "Reserve of 1m0s leaves nothing",
		},
	} {
		parallel(t, name+" is an error before anything is created", func(t *testing.T, f *fixture) {
			f.env = append(f.env, c.env)
			require.Contains(t, f.run(c.flags...).must(t, 1).stderr, c.want)
			require.NoDirExists(t, f.state)
		})
	}
}

func TestResult(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	for _, c := range []struct {
		name  string
		code  int
		fails string
		flags []string
	}{
		{"complete", 0, "", nil},
		{"complete, without a limit", 0, "", []string{"-budget", "0"}},
		{"blocked", 3, "", []string{"-budget", "10ms", "-hang", "plan"}},
		{"failed", 1, "build", []string{"-budget", "1h30m"}},
		{"no session", 1, "", []string{"-session", "none"}},
	} {
		f := newFixture(t)
		f.env = append(f.env, goFails+"="+c.fails)
		o := f.run(append(c.flags, "-json")...).must(t, c.code)
		require.Equal(t, 1, strings.Count(o.stdout, "\n"), "%s: one line and nothing else on standard output", c.name)
		require.NotEmpty(t, o.stderr, "%s: progress is on standard error", c.name)
		got.WriteString("# " + c.name + "\n" + normalize(o.stdout))
	}
	golden.Compare(t, "testdata/result.golden", got.String())
}

func TestBlockedResult(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run("-budget", "10ms", "-hang", "plan").must(t, 3)
	before := f.run("-resume", "-budget", "20ms", "-hang", "plan", "-json").must(t, 3).result(t)

	t.Run("it stays the same after an attach with another budget", func(t *testing.T) {
		require.Equal(t, before, f.run("-session", f.session().ID, "-budget", "2h", "-json").must(t, 3).result(t))
	})
	t.Run("it says what the session file and the events say", func(t *testing.T) {
		require.Equal(t, f.session().ID, before["auto_session_id"])
		require.Equal(t, f.session().StartedAt.Format("2006-01-02T15:04:05.000000Z"), before["session_started_at"])
		events := f.events()
		last := events[len(events)-1].Payload
		require.Equal(t, before["session_started_at"], last["session_started_at"])
		require.Equal(t, before["budget_seconds"], last["configured_budget_seconds"])
	})
}

var (
	anyID    = regexp.MustCompile(`\d{8}-\d{6}-[0-9a-f]{8}`)
	anyStart = regexp.MustCompile(`\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}Z`)
	anyTime  = regexp.MustCompile(`"elapsed_seconds":( ?)\d+`)
)

// normalize replaces what differs from run to run.
func normalize(text string) string {
	text = anyStart.ReplaceAllString(anyID.ReplaceAllString(text, "ID"), "START")
	return anyTime.ReplaceAllString(text, `"elapsed_seconds":${1}0`)
}

func TestSessionFile(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run("-budget", "10ms", "-hang", "plan").must(t, 3)
	text, err := os.ReadFile(filepath.Join(f.state, "session.json"))
	require.NoError(t, err)
	require.True(t, json.Valid(text))
	golden.Compare(t, "testdata/session.golden", normalize(string(text)))
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for want, flags := range map[string][]string{
		"write a duration such as 90s":            {"-budget", "5"},
		"it is negative; write 0 for no limit":    {"-budget", "-5s"},
		"flag needs an argument":                  {"-budget"},
		"-hang \"deploy\" is not a phase":         {"-hang", "deploy"},
		"is not a valid ID":                       {"-session", "../elsewhere"},
		"-session is empty":                       {"-session", ""},
		"-project is empty":                       {"-project", ""},
		"-config is empty":                        {"-config", ""},
		"unexpected argument \"test\"; use flags": {"test"},
		"flag provided but not defined: -budgte":  {"-budgte", "5s"},
		"does nothing else; leave out -resume":    {"-events", "-resume"},
		"does nothing else; leave out -json":      {"-events", "-json"},
		"does nothing else; leave out -budget":    {"-events", "-budget", "5s"},
	} {
		parallel(t, "refused: "+want, func(t *testing.T, f *fixture) {
			refused := f.run(flags...).must(t, 2)
			require.Contains(t, refused.stderr, want)
			require.Contains(t, refused.stderr, "autosession -h")
			require.Empty(t, refused.stdout)
			require.NoDirExists(t, f.state, "nothing was done")
		})
	}
	t.Run("-h prints the help and succeeds", func(t *testing.T) {
		t.Parallel()
		help := newFixture(t).run("-h").must(t, 0)
		require.Contains(t, help.stdout, "-budget DURATION")
		require.Empty(t, help.stderr)
	})
	parallel(t, "the default state directory is printed", func(t *testing.T, f *fixture) {
		temporary := t.TempDir()
		cmd := f.command()
		cmd.Args = cmd.Args[:1]
		cmd.Env = append(cmd.Env, "TMPDIR="+temporary, "TMP="+temporary, "HOME=/nonexistent")
		require.Contains(t, finish(t, cmd).must(t, 0).stdout, "state   "+temporary)
	})
}

func TestFirstScreen(t *testing.T) {
	t.Parallel()
	said := newFixture(t).run("-budget", "3s", "-hang", "vet").must(t, 3).stdout
	require.Less(t, strings.Count(said, "\n"), 24, said)
	require.Contains(t, said, "if the limit comes first, the session is BLOCKED")
	require.Contains(t, said, "to go on:")
}

func TestQuote(t *testing.T) {
	t.Parallel()
	for _, word := range []string{
		"plain", "", "two words", "it's", `"`, `a\b`, "$HOME", "`id`", "new\nline", "*", "~", "#", "!!",
		"-x", "ü", "a;b", "=x",
	} {
		t.Run("a shell gives back "+word, func(t *testing.T) {
			t.Parallel()
			got, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+autosession.Quote(word)).Output()
			require.NoError(t, err)
			require.Equal(t, word, string(got))
		})
	}
}
