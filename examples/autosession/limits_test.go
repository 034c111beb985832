package main_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.env = append(f.env, c.env)
			assert.Regexp(t, c.want, f.run(c.flags...).must(t, 0).stdout)
		})
	}
	t.Run("a window keeps its limits until a flag or file changes them", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		f.env = append(f.env, goFails+"=build")
		f.run("-config", file).must(t, 1)
		kept := f.run("-session", f.session().ID).must(t, 1).stdout
		assert.Regexp(t, `session_wall_clock_seconds +2h0m0s +session`, kept)
		assert.Regexp(t, `reserve_seconds +1m0s +session`, kept)
		assert.Regexp(t, `warn_at +0.8 +session`, kept)
		longer := f.run("-session", f.session().ID, "-budget", "3h").must(t, 1).stdout
		assert.Regexp(t, `reserve_seconds +1m0s +session`, longer)
		assert.Regexp(t, `session_wall_clock_seconds +3h0m0s +session`, f.run("-session", f.session().ID).must(t, 1).stdout)
	})
	t.Run("a resume reads the limits again, and an attach to its window keeps them", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		f.env = append(f.env, goFails+"=build")
		f.run("-config", short, "-hang", "plan").must(t, 3)
		f.run("-session", f.session().ID).must(t, 3)
		assert.Regexp(t, `session_wall_clock_seconds +4h0m0s +default`, f.run("-resume").must(t, 1).stdout)
		assert.Regexp(t, `session_wall_clock_seconds +4h0m0s +session`, f.run("-session", f.session().ID).must(t, 1).stdout)
	})
	t.Run("a resume of a session that is not blocked keeps its window and so its limits", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		f.env = append(f.env, goFails+"=build")
		f.run("-config", file).must(t, 1)
		assert.Regexp(t, `session_wall_clock_seconds +2h0m0s +session`, f.run("-resume").must(t, 1).stdout)
	})
	t.Run("the resume command names the limits file", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		blocked := f.run("-config", short, "-hang", "plan").must(t, 3)
		assert.Contains(t, printed(t, blocked.stdout, "to go on:"), "-resume -config "+short)
	})
	t.Run("without a limit it prints that nothing stops it, also after an attach", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		f.env = append(f.env, goFails+"=build")
		for _, flags := range [][]string{{"-budget", "0"}, {"-session"}} {
			if len(flags) == 1 {
				flags = append(flags, f.session().ID)
			}
			assert.Contains(t, f.run(flags...).must(t, 1).stdout, "nothing stops this session")
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
		t.Run(name+" is an error before anything is created", func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.env = append(f.env, c.env)
			assert.Contains(t, f.run(c.flags...).must(t, 1).stderr, c.want)
			assert.NoDirExists(t, f.state)
		})
	}
}
