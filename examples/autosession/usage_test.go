package main_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	autosession "github.com/seed62658d38/watchdog/examples/autosession"
)

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
		t.Run("refused: "+want, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			refused := f.run(flags...).must(t, 2)
			assert.Contains(t, refused.stderr, want)
			assert.Contains(t, refused.stderr, "autosession -h")
			assert.Empty(t, refused.stdout)
			assert.NoDirExists(t, f.state, "nothing was done")
		})
	}
	t.Run("-h prints the help and succeeds", func(t *testing.T) {
		t.Parallel()
		help := newFixture(t).run("-h").must(t, 0)
		assert.Contains(t, help.stdout, "-budget DURATION")
		assert.Empty(t, help.stderr)
	})
	t.Run("the default state directory is printed", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		temporary := t.TempDir()
		cmd := f.command()
		cmd.Args = cmd.Args[:1]
		cmd.Env = append(cmd.Env, "TMPDIR="+temporary, "TMP="+temporary, "HOME=/nonexistent")
		assert.Contains(t, finish(t, cmd).must(t, 0).stdout, "state   "+temporary)
	})
}

func TestFirstScreen(t *testing.T) {
	t.Parallel()
	said := newFixture(t).run("-budget", "3s", "-hang", "vet").must(t, 3).stdout
	assert.Less(t, strings.Count(said, "\n"), 24, said)
	assert.Contains(t, said, "if the limit comes first, the session is BLOCKED")
	assert.Contains(t, said, "to go on:")
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
			assert.Equal(t, word, string(got))
		})
	}
}
