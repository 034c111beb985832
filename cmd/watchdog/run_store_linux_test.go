package main_test

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// events returns the types of the events of a run, and the note or the reason of the last one.
func (f *fixture) events(run string) (types []string, last map[string]any) {
	f.Helper()
	ctx := context.Background()
	store, err := sqlite.Open(ctx, f.path("runs.db"))
	require.NoError(f, err)
	defer store.Close()
	events, err := store.Read(ctx, watchdog.AggregateType, run)
	require.NoError(f, err)
	for _, event := range events {
		types = append(types, strings.TrimPrefix(event.Type, "runtime.watchdog."))
		last = nil
		require.NoError(f, json.Unmarshal(event.Payload, &last))
	}
	return types, last
}

func TestRunStore(t *testing.T) {
	t.Parallel()
	t.Run("has the stop of the run and of its command, and the last line says where", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		o := f.run("--store sqlite:runs.db --terminal ^ready$ --id nightly --step build", f.child("say:ready", "stay")...)
		o.must(t, 124)
		assert.Equal(t, "watchdog: the output has a line of terminal pattern 1: ended by SIGINT; "+
			"see: watchdog why --store sqlite:runs.db nightly\n", o.stderr)
		for _, run := range []string{"nightly", "nightly/build"} {
			types, last := f.events(run)
			assert.Equal(t, []string{"cancel"}, types)
			assert.Equal(t, "terminal", last["reason"])
		}
	})
	t.Run("has an interrupt, after which the run can go on", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		p := start(t, f.cmd("--store sqlite:runs.db --id nightly", f.child("say:ready", "stay")...))
		p.signal(syscall.SIGTERM)
		o := p.end().must(t, 143)
		assert.Regexp(t, `^watchdog: run nightly was interrupted after \d+s by SIGTERM: ended by SIGINT; see: `, o.stderr)
		types, last := f.events("nightly")
		assert.Equal(t, []string{"interrupt"}, types)
		assert.Equal(t, "SIGTERM", last["signal"])
		f.run("--store sqlite:runs.db --id nightly", f.child("exit:0")...).must(t, 0)
		types, _ = f.events("nightly")
		assert.Equal(t, []string{"interrupt", "complete"}, types)
	})
	t.Run("has a run without a name under a random one, which the last line names", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		o := f.run("--store sqlite:runs.db --wall-clock 2s", f.child("stay")...).must(t, 124)
		name := regexp.MustCompile(`see: watchdog why --store sqlite:runs.db (\S{16})\n$`).FindStringSubmatch(o.stderr)
		require.NotNil(t, name, o.stderr)
		types, _ := f.events(name[1])
		assert.Equal(t, []string{"cancel"}, types)
	})
	t.Run("has a run under its name with the time in it", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		o := f.run("--json --store sqlite:runs.db --id job-{time}", "true").must(t, 0)
		name := regexp.MustCompile(`^{"run":"(job-\d{8}T\d{6}Z)",`).FindStringSubmatch(o.stderr)
		require.NotNil(t, name, o.stderr)
		types, _ := f.events(name[1])
		assert.Equal(t, []string{"complete"}, types)
	})
	t.Run("that cannot be opened starts no command, and its password is nowhere", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		require.NoError(t, os.WriteFile(f.path("no-database"), []byte(strings.Repeat("no database\n", 100)), 0o600))
		for _, store := range []string{
			"sqlite:none/runs.db", "sqlite:no-database", "postgres://somebody:canary@127.0.0.1:1/none?password=canary",
			"mysql://somebody:canary@127.0.0.1/none",
		} {
			o := f.run("--store "+store, f.child("touch:"+f.path("started"))...).must(t, 125)
			assert.NotEmpty(t, o.stderr)
			assert.NotContains(t, o.stderr, "canary")
			assert.False(t, f.exists("started"), store)
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
			t.Run(line, func(t *testing.T) {
				t.Parallel()
				f := newFixture(t)
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
	golden(t, "run_json", strings.Join(said, ""))
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
		assert.Empty(t, files(t, home), flags)
		assert.Empty(t, files(t, temp), flags)
		written := files(t, f.dir)
		if !strings.Contains(flags, "artifacts") {
			assert.Empty(t, written, flags)
			continue
		}
		assert.Equal(t, []string{"state/command/_stall/event.json"}, written)
		text, err := os.ReadFile(f.path(written[0]))
		require.NoError(t, err)
		assert.NotContains(t, string(text), "canary")
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
