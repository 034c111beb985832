package main_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	autosession "github.com/seed62658d38/watchdog/examples/autosession"
	"github.com/seed62658d38/watchdog/internal/golden"
)

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
