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
	require.NoError(t, os.WriteFile(file, []byte("runtime_controls:\n  session_wall_clock_seconds: 7200\n  reserve_seconds: 60\n"), 0o600))
	short := filepath.Join(t.TempDir(), "short.yaml")
	require.NoError(t, os.WriteFile(short, []byte("runtime_controls:\n  session_wall_clock_seconds: 0.05\n"), 0o600))
	const variable = "WATCHDOG_SESSION_WALL_CLOCK_SECONDS"

	for _, c := range []struct {
		name, env string
		flags     []string
		want      string
	}{
		{"without anything the default is in force", "", nil, `session_wall_clock_seconds +4h0m0s +default`},
		{"a file sets the limit", "", []string{"-config", file}, `session_wall_clock_seconds +2h0m0s +.*limits\.yaml:2`},
		{"the environment overrides the file", variable + "=3600", []string{"-config", file}, `session_wall_clock_seconds +1h0m0s +environment ` + variable},
		{"the flag overrides both", variable + "=3600", []string{"-config", file, "-budget", "90m"}, `session_wall_clock_seconds +1h30m0s +flag -budget`},
		{"0 in the flag is no limit", variable + "=3600", []string{"-budget", "0"}, `session_wall_clock_seconds +off +flag -budget`},
		{"what is not overridden stays the file's", "", []string{"-config", file, "-budget", "90m"}, `reserve_seconds +1m0s +.*limits\.yaml:3`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			b.env = append(b.env, c.env)
			assert.Regexp(t, c.want, b.run(c.flags...).must(t, 0).stdout)
		})
	}
	t.Run("a window keeps its limits until something else is said", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		b.env = append(b.env, goFails+"=build")
		b.run("-config", file).must(t, 1)
		kept := b.run("-session", b.session().ID).must(t, 1).stdout
		assert.Regexp(t, `session_wall_clock_seconds +2h0m0s +session`, kept)
		assert.Regexp(t, `reserve_seconds +1m0s +session`, kept)
		assert.Regexp(t, `warn_at +0.8 +session`, kept)
		assert.Regexp(t, `reserve_seconds +1m0s +session`, b.run("-session", b.session().ID, "-budget", "3h").must(t, 1).stdout)
		assert.Regexp(t, `session_wall_clock_seconds +3h0m0s +session`, b.run("-session", b.session().ID).must(t, 1).stdout)
	})
	t.Run("a resume takes the limits anew, and who attaches to its window keeps those", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		b.env = append(b.env, goFails+"=build")
		b.run("-config", short, "-hang", "plan").must(t, 3)
		b.run("-session", b.session().ID).must(t, 3)
		assert.Regexp(t, `session_wall_clock_seconds +4h0m0s +default`, b.run("-resume").must(t, 1).stdout)
		assert.Regexp(t, `session_wall_clock_seconds +4h0m0s +session`, b.run("-session", b.session().ID).must(t, 1).stdout)
	})
	t.Run("a resume of a session that is not blocked keeps its window and so its limits", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		b.env = append(b.env, goFails+"=build")
		b.run("-config", file).must(t, 1)
		assert.Regexp(t, `session_wall_clock_seconds +2h0m0s +session`, b.run("-resume").must(t, 1).stdout)
	})
	t.Run("the command that resumes names the file of limits", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		blocked := b.run("-config", short, "-hang", "plan").must(t, 3)
		assert.Contains(t, printed(t, blocked.stdout, "to go on:"), "-resume -config "+short)
	})
	t.Run("without a limit it says that nothing stops it, also when attached", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		b.env = append(b.env, goFails+"=build")
		for _, flags := range [][]string{{"-budget", "0"}, {"-session"}} {
			if len(flags) == 1 {
				flags = append(flags, b.session().ID)
			}
			assert.Contains(t, b.run(flags...).must(t, 1).stdout, "nothing stops this session")
		}
	})
	for name, c := range map[string]struct {
		env   string
		flags []string
		want  string
	}{
		"a file that is not there":                 {"", []string{"-config", "nowhere.yaml"}, "nowhere.yaml"},
		"a variable that is no number":             {variable + "=soon", nil, variable},
		"a budget that the reserve leaves nothing": {"", []string{"-config", file, "-budget", "30s"}, "Reserve of 1m0s leaves nothing"},
	} {
		t.Run(name+" is an error before anything is made", func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			b.env = append(b.env, c.env)
			assert.Contains(t, b.run(c.flags...).must(t, 1).stderr, c.want)
			assert.NoDirExists(t, b.state)
		})
	}
}
