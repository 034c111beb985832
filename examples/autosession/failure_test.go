package main_test

import (
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestKilled(t *testing.T) {
	t.Parallel()
	parallel(t, "a session that was killed in a phase goes on with that phase in the same window", func(t *testing.T, f *fixture) {
		p := f.start("build  2 of 4", "-budget", "1h", "-hang", "build")
		hung := f.hung("build")
		p.signal(syscall.SIGKILL)
		left := f.session()
		require.Equal(t, "running", left.Status)
		require.Equal(t, []string{"plan"}, left.Completed)
		assertGone(t, hung)

		on := f.run("-session", left.ID).must(t, 0)
		require.Regexp(t, `session_wall_clock_seconds +1h0m0s +session`, on.stdout, "it keeps its budget")
		after := f.session()
		require.Equal(t, left.StartedAt, after.StartedAt)
		require.Equal(t, []string{"list", "build", "vet", "test"}, f.commands())
		require.Equal(t, []string{"complete"}, kinds(f.events()))
	})
	parallel(t, "the time until the next attach counts", func(t *testing.T, f *fixture) {
		f.start("plan   1 of 4", "-budget", "30m", "-hang", "plan").signal(syscall.SIGKILL)
		f.backdate(time.Hour)
		f.run("-session", f.session().ID).must(t, 3)
		require.Equal(t, []string{"cancel"}, f.controlEvents())
		require.GreaterOrEqual(t, f.session().ElapsedSeconds, 3600)
	})
	t.Run("a session killed at any moment can be attached again and finishes", killedAtAnyMoment)
}

// killedAtAnyMoment kills sessions at random moments until each one completes.
func killedAtAnyMoment(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	f, kills, sessions := newFixture(t), 0, 0
	for ; kills < 60; sessions++ {
		f.start("plan   1 of 4").signal(syscall.SIGKILL)
		first := f.session()
		kills += 1 + f.killUntilComplete(first.ID, random)
		last := f.session()
		require.Equal(t, first.ID, last.ID)
		require.Equal(t, []string{"plan", "build", "vet", "test"}, last.Completed)
		require.Equal(t, first.StartedAt, last.StartedAt)
		require.Equal(t, []string{"complete"}, kinds(f.events()), "once, however often it was killed")
	}
	t.Logf("%d sessions were killed %d times", sessions, kills)
}

// killUntilComplete attaches to the session and kills the program again and again, until a run finishes before the
// kill. It returns the number of kills.
func (f *fixture) killUntilComplete(id string, random *rand.Rand) (kills int) {
	f.t.Helper()
	for longest := 50 * time.Millisecond; ; longest += 10 * time.Millisecond {
		cmd := f.command("-session", id)
		require.NoError(f.t, cmd.Start())
		kill := time.AfterFunc(time.Duration(random.Int64N(int64(longest))), func() { cmd.Process.Kill() })
		cmd.Wait() // the status is checked below
		if kill.Stop(); cmd.ProcessState.Exited() {
			require.Zero(f.t, cmd.ProcessState.ExitCode())
			return kills
		}
		kills++
	}
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	for signal, name := range map[syscall.Signal]string{
		syscall.SIGINT: "SIGINT", syscall.SIGTERM: "SIGTERM", syscall.SIGHUP: "SIGHUP",
	} {
		parallel(t, name+" ends the session, which can be attached again", func(t *testing.T, f *fixture) {
			p := f.start("build  2 of 4", "-hang", "build")
			hung := f.hung("build")
			ended := p.signal(signal).must(t, 1)
			require.Contains(t, ended.stdout, "INTERRUPTED by "+name+" in phase build")
			assertGone(t, hung)

			left := f.session()
			require.Equal(t, "interrupted", left.Status)
			require.Empty(t, left.StopReason)
			events := f.events()
			require.Equal(t, []string{"interrupt"}, kinds(events))
			require.Equal(t, name, events[0].Payload["signal"])

			finish(t, f.shell(printed(t, ended.stdout, "to go on:"))).must(t, 0)
			require.Equal(t, left.StartedAt, f.session().StartedAt)
			require.Equal(t, []string{"list", "build", "vet", "test"}, f.commands())
		})
	}
}

func TestNoHup(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	cmd := f.command("-hang", "plan")
	shell := f.shell(`trap "" HUP; exec "$@"`)
	shell.Args = append(shell.Args, append([]string{"sh"}, cmd.Args...)...)
	p := f.follow(shell, "plan   1 of 4")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGHUP))
	ended := p.signal(syscall.SIGTERM).must(t, 1)
	require.Contains(t, ended.stdout, "INTERRUPTED by SIGTERM", "a signal ignored at the start stays ignored")
}

func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.start("plan   1 of 4", "-hang", "plan")
	id := f.session().ID

	t.Run("a second process on one session fails and names the first", func(t *testing.T) {
		refused := f.run("-session", id).must(t, 1)
		require.Contains(t, refused.stderr, "is being run by process")
		require.Contains(t, refused.stderr, strconv.Itoa(p.cmd.Process.Pid))
	})
	t.Run("-events works while the session runs", func(t *testing.T) {
		require.Empty(t, f.events("-session", id))
	})
	t.Run("another session runs beside it", func(t *testing.T) {
		f.run().must(t, 0)
	})
	t.Run("killing the process frees the session", func(t *testing.T) {
		p.signal(syscall.SIGKILL)
		f.run("-session", id).must(t, 0)
	})
}

func TestFailed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	healthy := f.env
	f.env = append(f.env, goFails+"=vet")
	failed := f.run().must(t, 1)

	t.Run("a failing phase ends the session and shows its command's output", func(t *testing.T) {
		require.Contains(t, failed.stdout, "FAILED in phase vet: go vet ./...: exit status 1")
		require.Contains(t, failed.stdout, "undefined: everything")
		require.Equal(t, "failed", f.session().Status)
		require.Equal(t, "vet", f.session().Phase)
	})
	t.Run("the output is in the log and nowhere else", func(t *testing.T) {
		logs := 0
		for path, text := range filesIn(t, f.state) {
			if filepath.Ext(path) == ".log" {
				logs++
				continue
			}
			require.NotContains(t, text, canary, path)
		}
		require.Equal(t, 3, logs)
	})
	t.Run("attaching tries the phase again", func(t *testing.T) {
		f.env = healthy
		finish(t, f.shell(printed(t, failed.stdout, "to go on:"))).must(t, 0)
		require.Equal(t, []string{"list", "build", "vet", "vet", "test"}, f.commands())
	})
	t.Run("a project that does not build fails in the real build", func(t *testing.T) {
		genuine, project := newFixture(t).withRealGo(), t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(project, "go.mod"), []byte("module broken\n"), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(project, "a.go"), []byte("package broken\n\nvar A = B\n"), 0o600))
		require.Contains(t, genuine.run("-project", project).must(t, 1).stdout, "undefined: B")
		require.Equal(t, "build", genuine.session().Phase)
	})
	t.Run("a missing go command is named in the error", func(t *testing.T) {
		lost := newFixture(t)
		lost.env = append(lost.env, "PATH=")
		require.Contains(t, lost.run().must(t, 1).stdout, `FAILED in phase plan: go list ./...: exec: "go"`)
	})
}

// filesIn returns the contents of all files under root by path.
func filesIn(t *testing.T, root string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		files[path] = string(text)
		return err
	}))
	return files
}

func TestRefused(t *testing.T) {
	t.Parallel()
	parallel(t, "a missing session", func(t *testing.T, f *fixture) {
		for _, flags := range [][]string{{"-resume"}, {"-events"}, {"-session", "none"}, {"-session", "none", "-events"}} {
			require.Contains(t, f.run(flags...).must(t, 1).stderr, "no such session")
		}
		require.NoDirExists(t, f.state, "nothing was created")
		f.run().must(t, 0)
		require.Contains(t, f.run("-session", "none").must(t, 1).stderr, f.session().ID, "it names the existing sessions")
	})
	parallel(t, "a damaged session file", func(t *testing.T, f *fixture) {
		f.run().must(t, 0)
		id := f.session().ID
		f.overwrite(`{"id": "`)
		require.Contains(t, f.run("-session", id).must(t, 1).stderr, "corrupt session file")
		require.Equal(t, []string{"complete"}, kinds(f.events("-session", id)), "its events can be printed all the same")
		f.run().must(t, 0) // a new session is not affected
	})
	parallel(t, "a state directory that cannot be created", func(t *testing.T, f *fixture) {
		require.NoError(t, os.WriteFile(f.state, nil, 0o600))
		said := f.run().must(t, 1).stderr
		require.Contains(t, said, "create state directory")
		require.Contains(t, said, "name another one with -state")
	})
	parallel(t, "a state directory that everybody can write to", func(t *testing.T, f *fixture) {
		require.NoError(t, os.Mkdir(f.state, 0o700))
		require.NoError(t, os.Chmod(f.state, 0o777)) //nolint:gosec // that is what is refused
		require.Contains(t, f.run().must(t, 1).stderr, "everybody can write to")
		require.NoFileExists(t, filepath.Join(f.state, "events.db"))
	})
	parallel(t, "an invalid database file", func(t *testing.T, f *fixture) {
		require.NoError(t, os.Mkdir(f.state, 0o700))
		notADatabase := []byte("this is not a database, it is a text")
		require.NoError(t, os.WriteFile(filepath.Join(f.state, "events.db"), notADatabase, 0o600))
		require.Contains(t, f.run().must(t, 1).stderr, "events.db")
		require.NoFileExists(t, filepath.Join(f.state, "session.json"))
	})
	parallel(t, "a missing project, or not the session's", func(t *testing.T, f *fixture) {
		require.Contains(t, f.run("-project", "nowhere").must(t, 1).stderr, "find project")
		require.NoDirExists(t, f.state)
		f.run().must(t, 0)
		const another = "belongs to another project, the built-in demo"
		require.Contains(t, f.run("-resume", "-project", "demo").must(t, 1).stderr, another)
	})
}

// overwrite replaces the content of the last session's file.
func (f *fixture) overwrite(text string) {
	f.t.Helper()
	id := f.session().ID
	text = strings.ReplaceAll(text, `"ID"`, strconv.Quote(id))
	require.NoError(f.t, os.WriteFile(filepath.Join(f.state, "session.json"), []byte(text), 0o600))
}
