package main_test

import (
	"bytes"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/escape"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/stall"
	"github.com/seed62658d38/watchdog/sweep"
)

func TestPassThrough(t *testing.T) {
	t.Parallel()
	for _, flags := range []string{"", "--no-output 5m", "--terminal ^never$"} {
		parallel(t, "with the flags "+flags, func(t *testing.T) {
			withFixture(t, "input and output pass unchanged", func(t *testing.T, f *fixture) {
				sent := make([]byte, 1<<20)
				for i := range sent {
					sent[i] = byte(rand.Uint32())
				}
				cmd := f.cmd(flags, f.child("echo")...)
				cmd.Stdin = bytes.NewReader(sent)
				o := finish(t, cmd).must(t, 0)
				const differ = "%d bytes of input and %d bytes of output differ"
				require.True(t, bytes.Equal(sent, []byte(o.stdout)), differ, len(sent), len(o.stdout))
				require.Empty(t, o.stderr)
			})
			t.Run("two outputs in one file of a shell keep their order", func(t *testing.T) {
				for _, mode := range []int{0, os.O_APPEND} {
					f := newFixture(t)
					file, err := os.OpenFile(f.path("out"), os.O_CREATE|os.O_WRONLY|mode, 0o600)
					require.NoError(t, err)
					defer file.Close()
					var want strings.Builder
					cmd := f.cmd(flags+" --terminal nothing", f.child("alternate:1000")...)
					cmd.Stdout, cmd.Stderr = file, file
					require.NoError(t, cmd.Run())
					for n := range 1000 {
						want.WriteString(strconv.Itoa(n) + "\n")
					}
					text, err := os.ReadFile(file.Name())
					require.NoError(t, err)
					require.Equal(t, want.String(), string(text))
				}
			})
			withFixture(t, "a full disk is an error", func(t *testing.T, f *fixture) {
				full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
				require.NoError(t, err)
				defer full.Close()
				var stderr strings.Builder
				cmd := f.cmd(flags+" --terminal nothing", f.child("say:out")...)
				cmd.Stdout, cmd.Stderr = full, &stderr
				require.Error(t, cmd.Run())
				require.Equal(t, 125, cmd.ProcessState.ExitCode())
				require.Contains(t, stderr.String(), "watchdog: output was lost: ")
				require.Contains(t, stderr.String(), "no space left on device")
			})
			withFixture(t, "a file that may not grow is an error, and ends what writes on", func(t *testing.T, f *fixture) {
				log, err := os.Create(f.path("log"))
				require.NoError(t, err)
				defer log.Close()
				var stderr strings.Builder
				cmd := inShell(f.cmd(flags+" --terminal nothing", f.child("alternate:100000000")...), `ulimit -f 1; exec "$@"`)
				cmd.Stdout, cmd.Stderr = log, &stderr
				require.Error(t, cmd.Run())
				require.Equal(t, 128+int(syscall.SIGPIPE), cmd.ProcessState.ExitCode(), stderr.String())
				require.Contains(t, stderr.String(), "watchdog: output was lost: ")
				require.Contains(t, stderr.String(), "file too large")
			})
			withFixture(t, "a closed reader ends the command as without it", func(t *testing.T, f *fixture) {
				r, w, err := os.Pipe()
				require.NoError(t, err)
				cmd := f.cmd(flags, f.child("alternate:100000000")...)
				cmd.Stdout = w
				require.NoError(t, cmd.Start())
				require.NoError(t, w.Close())
				_, err = r.Read(make([]byte, 1))
				require.NoError(t, err)
				require.NoError(t, r.Close())
				require.Error(t, cmd.Wait())
				require.Equal(t, 128+int(syscall.SIGPIPE), cmd.ProcessState.ExitCode())
			})
		})
	}
}

// TestSharedLog checks that a hung command is ended also where its log has other writers.
func TestSharedLog(t *testing.T) {
	t.Parallel()
	const told = "watchdog: the command has the file itself as output: what others write to it counts as its own\n"
	for _, c := range []struct {
		flags  string
		status int
		stderr string
	}{
		{"--no-output 2s", 124, "watchdog: no output for 2.0 s of 2 s: ended by SIGINT\n"},
		{"--no-output 2s --file-itself --wall-clock 6s", 124, told + "watchdog: ran 6.0 s of 6 s: ended by SIGINT\n"},
		{"--no-output 2s --keep-background --wall-clock 6s", 124, told + "watchdog: ran 6.0 s of 6 s: ended by SIGINT\n"},
		{"--no-output 2s --file-itself --terminal never", 124, "watchdog: no output for 2.0 s of 2 s: ended by SIGINT\n"},
	} {
		inFixture(t, c.flags, func(t *testing.T, f *fixture) {
			log, err := os.OpenFile(f.path("jobs.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
			require.NoError(t, err)
			defer log.Close()
			stop := make(chan struct{})
			var writer sync.WaitGroup
			defer writer.Wait()
			defer close(stop)
			writer.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(50 * time.Millisecond):
						_, _ = log.WriteString("other\n")
					}
				}
			})
			cmd := f.cmd(c.flags, f.child("say:own", "stay")...)
			var stderr strings.Builder
			cmd.Stdout, cmd.Stderr = log, &stderr
			require.Error(t, cmd.Run())
			require.Equal(t, c.status, cmd.ProcessState.ExitCode())
			require.Equal(t, c.stderr, numbers.ReplaceAllString(stderr.String(), "$1.0 s"))
			text, err := os.ReadFile(log.Name())
			require.NoError(t, err)
			require.Equal(t, 1, strings.Count(string(text), "own\n"))
		})
	}
}

// numbers are the tenths of a second that a stop came late.
var numbers = regexp.MustCompile(`(\d+)\.\d s`)

// TestExitStatus has the cases of GNU timeout's manual, and those of a shell.
func TestExitStatus(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	require.NoError(t, os.WriteFile(f.path("text"), []byte("text\n"), 0o600))
	require.NoError(t, os.Mkdir(f.path("folder"), 0o700))
	const step = "watchdog: run step command: "
	const wallClock = "watchdog: ran TIME of 2 s: ended by "
	const fatal, line = "--terminal ^fatal$ ", "fatal\nwatchdog: the output has a line of terminal pattern 1: ended by "
	for _, c := range []struct {
		name    string
		flags   string
		command []string
		status  int
		says    string
	}{
		{"the command's own", "", f.child("exit:0"), 0, ""},
		{"the command's own with a limit", "--wall-clock 1h", f.child("exit:0"), 0, ""},
		{"the command's own failure", "--wall-clock 1h", f.child("exit:7"), 7, ""},
		{"the command's own even if it equals one of the program's", "", f.child("exit:124"), 124, ""},
		{"128 and the signal that ended it", "--wall-clock 1h", f.child("kill:KILL"), 137, ""},
		{"128 and another signal", "--wall-clock 1h", f.child("kill:TERM"), 143, ""},
		{"the command's own if a time of 0 switches the limit off", "--wall-clock 0", f.child("exit:3"), 3, ""},
		{
			"124 if the time is used up", "--wall-clock 2s --signal TERM",
			f.child("stay"), 124, wallClock + "SIGTERM\n",
		},
		{
			"124 if the command succeeds after the stop", fatal + "--signal TERM",
			f.child("obey:TERM:0", "warn:fatal", "stay"), 124, line + "SIGTERM\n",
		},
		{
			"124 if the command fails after the stop", fatal,
			f.child("obey:INT:7", "warn:fatal", "stay"), 124, line + "SIGINT\n",
		},
		{"124 after the signal that was chosen", "--wall-clock 2s -s hup", f.child("stay"), 124, wallClock + "SIGHUP\n"},
		{
			"124 after a second one", fatal + "-s HUP --grace-int 0s",
			f.child("ignore:HUP", "obey:TERM:0", "warn:fatal", "stay"), 124, line + "SIGTERM\n",
		},
		{"137 if SIGKILL was chosen", "--wall-clock 2s --signal 9", f.child("stay"), 137, wallClock + "SIGKILL\n"},
		{
			"137 if it took SIGKILL", fatal + "--signal TERM --grace-term 100ms",
			f.child("ignore:TERM", "warn:fatal", "stay"), 137, line + "SIGKILL\n",
		},
		{
			"124 if it took SIGKILL for something that the command had started only", fatal + "--grace-int 5s --grace-term 0s",
			f.child("leave:stubborn", "stay"), 124, line + "SIGKILL\n",
		},
		{"125 for a length of time that no clock counts", "--wall-clock 99999999999h", f.child("touch:started"), 125,
			"watchdog: --wall-clock: \"99999999999h\" is no length of time; write one such as 30s, 5m or 1h30m\n" +
				"watchdog run --help says how it is used\n"},
		{"125 for an impossible artifacts folder, not 127", "--artifacts /proc/none", f.child("touch:started"), 125,
			step + "open stall artifacts: make the root folder: mkdir /proc/none: no such file or directory\n"},
		{"126 for a file that is no program", "--wall-clock 1h", []string{"./text"}, 126,
			`watchdog: cannot run "./text": permission denied` + "\n"},
		{"126 for a folder", "", []string{"./folder"}, 126, `watchdog: cannot run "./folder": permission denied` + "\n"},
		{"126 for the root", "", []string{"/"}, 126, `watchdog: cannot run "/": is a directory` + "\n"},
		{
			"126 for a path through a file", "", []string{"./text/x"}, 126,
			`watchdog: cannot run "./text/x": not a directory` + "\n",
		},
		{"127 for a missing command", "--wall-clock 1h", []string{"no-such-command"}, 127,
			`watchdog: cannot run "no-such-command": executable file not found in $PATH` + "\n"},
		{"127 for a missing path", "", []string{"./no-such-command"}, 127,
			`watchdog: cannot run "./no-such-command": no such file or directory` + "\n"},
	} {
		parallel(t, c.name, func(t *testing.T) {
			own := newFixture(t)
			own.dir = f.dir
			if len(c.command) > 1 {
				c.command[1] = own.token
			}
			o := own.run(c.flags, c.command...).must(t, c.status)
			require.Equal(t, c.says, lengths.ReplaceAllString(o.stderr, "$1 TIME of"))
			require.Empty(t, o.stdout)
			require.False(t, f.exists("started"), "the command started")
			require.False(t, f.exists("state"), "artifacts were written")
		})
	}
}

// TestTimeUpAtOnce has the time be used up before the command can start.
func TestTimeUpAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	o := f.run("--wall-clock 1ns", f.child("touch:started")...).must(t, 124)
	require.Equal(t, "watchdog: the wall clock of 1ns was used up before the command started\n", o.stderr)
	require.False(t, f.exists("started"))
	o = f.run("--json --wall-clock 1ns", f.child("touch:started")...).must(t, 124)
	require.JSONEq(t, `{"run":"","status":124,"stopped":true,"elapsed_seconds":0,
		"reason":"the wall clock of 1ns was used up before the command started"}`, o.stderr)
}

// What differs from run to run.
var (
	lengths = regexp.MustCompile(`(no output for|no output at all for|ran) [0-9.]+ m?s of`)
	counts  = regexp.MustCompile(`the last \d+ of \d+ probes`)
)

func TestRunReasons(t *testing.T) {
	t.Parallel()
	newFixture(t) // or skip the test
	stays := []string{"say:ready", "stay"}
	cases := []struct {
		name  string
		flags []string
		steps []string
	}{
		{"no more output", []string{"--no-output", "3s"}, stays},
		{"no output at all", []string{"--no-output", "1s"}, []string{"stay"}},
		{"a probe that sees the same", probing("echo '{}'"), stays},
		{"a probe that sees the same and names it", probing(`echo '{"fingerprints": ["k8s/crd/missing:widgets"]}'`), stays},
		{"a probe of class terminal", probing(`echo '{"class": "terminal"}'`), stays},
		{"a line that matches", []string{"--terminal", "^ready$"}, stays},
		{"a wall clock", []string{"--wall-clock", "1500ms"}, stays},
		{"a command that is killed at once", []string{"--terminal", "^ready$", "--on-terminal", "fail"}, stays},
		{
			"a command that ignores SIGINT", []string{"--terminal", "^ready$", "--grace-int", "0s"},
			append([]string{"ignore:INT"}, stays...),
		},
		{
			"a command that ignores both", []string{"--terminal", "^ready$", "--grace-int", "50ms", "--grace-term", "50ms"},
			append([]string{"ignore:INT", "ignore:TERM"}, stays...),
		},
		{"artifacts", []string{"--terminal", "^ready$", "--artifacts", "state", "--step", "build"}, stays},
		{
			"a probe that failed at least once",
			append(probing("test -e first && touch go; touch first; exit 3"), "--terminal", "^ready$"),
			[]string{"await:go", "say:ready", "stay"},
		},
	}
	said := make([]string, len(cases))
	t.Run("of each kind", func(t *testing.T) {
		for i, c := range cases {
			inFixture(t, c.name, func(t *testing.T, f *fixture) {
				o := finish(t, f.program(append(append(c.flags, "--"), f.child(c.steps...)...)...))
				require.Contains(t, []int{124, 137}, o.status)
				require.Equal(t, strings.Contains(o.stderr, "SIGKILL"), o.status == 137)
				require.Empty(t, escape.WithToken(f.token), "a process outlives the program")
				text := counts.ReplaceAllString(lengths.ReplaceAllString(o.stderr, "$1 TIME of"), "the last N of N probes")
				said[i] = c.name + "\n\t" + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n\t") + "\n"
			})
		}
	})
	compare(t, "run_reasons", strings.Join(said, ""))
}

// probing returns the flags of a probe with a short interval.
func probing(probe string) []string { return []string{"--probe-interval", "50ms", "--probe", probe} }

func TestZeroGrace(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	began := time.Now()
	steps := []string{"ignore:INT", "ignore:TERM", "say:ready", "stay"}
	f.run("--terminal ^ready$ --grace-int 0s --grace-term 0s", f.child(steps...)...).must(t, 137)
	require.Less(t, time.Since(began), stall.DefaultInterruptGrace+stall.DefaultTerminateGrace)
}

func TestIgnoredStall(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	e := f.path("state/command/_stall/event.json")
	steps := []string{"say:ready", "await:" + e, "exit:5"}
	o := f.run("--on-terminal ignore --terminal ^ready$ --artifacts state", f.child(steps...)...).must(t, 5)
	require.Empty(t, o.stderr, "the program prints nothing")
	text, err := os.ReadFile(e)
	require.NoError(t, err)
	require.Contains(t, string(text), `"ignore"`)
}

// TestBackground has a process that stays.
func TestBackground(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	finish(t, f.cmd("--keep-background", f.child("leave", "exit:3")...)).must(t, 3)
	require.Len(t, escape.WithToken(f.token), 1)
	f.kill()
	eventually(t, "it ends", func() bool { return len(escape.WithToken(f.token)) == 0 })
}

func TestRunConfig(t *testing.T) {
	t.Parallel()
	const stallBlock = "stall:\n  no_output_timeout: 1s\n  first_signal: TERM\n  fingerprint_prefix: ci\n"
	const steps = "steps:\n  build:\n    stall:\n      terminal_patterns: ['^ready$']\n  test: {}\n"
	for _, c := range []struct {
		name, file, flags, variable string
		status                      int
		says                        string
	}{
		{"the stall block counts", stallBlock, "", "", 124, " TIME of 1 s: ended by SIGTERM"},
		{"a variable wins over the file", stallBlock, "", "WATCHDOG_STALL_FIRST_SIGNAL=INT", 124, "ended by SIGINT"},
		{"a signal of a flag wins over the file", stallBlock, "--signal HUP", "", 124, "ended by SIGHUP"},
		{"a flag that switches off wins over the file", stallBlock, "--no-output 0 --wall-clock 2s", "", 124,
			"ran TIME of 2 s: ended"},
		{"a flag wins over a variable", "", "--no-output 0 --wall-clock 2s", "WATCHDOG_STALL_NO_OUTPUT_TIMEOUT=1s", 124,
			"ran TIME of 2 s: ended"},
		{"a variable counts without a file", "", "", "WATCHDOG_STALL_NO_OUTPUT_TIMEOUT=1s", 124,
			" TIME of 1 s: ended by SIGINT"},
		{"patterns on the command line replace those of the file", "stall:\n  terminal_patterns: [never, ready]\n",
			"--terminal ^ready$", "", 124, "terminal pattern 1"},
		{"the wall clock of sessions counts if it is set", "runtime_controls:\n  session_wall_clock_seconds: 1\n", "", "", 124,
			"ran TIME of 1 s: ended"},
		{"a step of a workflow is chosen by its name", steps, "--step build", "", 124, "terminal pattern 1"},
		{"a step that is not in the file is an error", steps, "--step built", "", 125,
			`--step "built": limits.yaml has the steps build, test; name one of them`},
		{"a file that is wrong is an error", "stall:\n  no_output: 1s\n", "", "", 125, "limits.yaml:2: stall.no_output"},
		{"a variable that is wrong is an error", "", "", "WATCHDOG_STALL_NO_OUTPUT_TIMOUT=1s", 125,
			"did you mean WATCHDOG_STALL_NO_OUTPUT_TIMEOUT?"},
		{"the one switch switches everything off", stallBlock, "--wall-clock 500ms", "WATCHDOG_DISABLED=true", 5, ""},
	} {
		inFixture(t, c.name, func(t *testing.T, f *fixture) {
			command := []string{"sh", "-c", "echo ready; sleep 20"}
			if c.status == 5 {
				command = []string{"sh", "-c", "echo ready; sleep 2; exit 5"}
			}
			flags := c.flags
			if c.file != "" {
				require.NoError(t, os.WriteFile(f.path("limits.yaml"), []byte(c.file), 0o600))
				flags += " --config limits.yaml"
			}
			cmd := f.cmd(flags, command...)
			cmd.Env = append(cmd.Env, c.variable)
			o := finish(t, cmd).must(t, c.status)
			stderr := lengths.ReplaceAllString(strings.ReplaceAll(o.stderr, f.dir+"/", ""), "$1 TIME of")
			require.Contains(t, stderr, c.says)
			require.Equal(t, c.says == "", stderr == "")
		})
	}
}

// TestRunSurvivors checks that no process of a command survives the kill of this program, or the command's own exit,
// however it tries to escape. In proctree and stall each tree ends in every way.
func TestRunSurvivors(t *testing.T) {
	t.Parallel()
	for _, shape := range escape.Scenarios() {
		parallel(t, shape.Name, func(t *testing.T) {
			shape := shape.In(t.TempDir())
			t.Cleanup(shape.End)
			path, args, _ := shape.Command()
			graces := []string{"--grace-int", "100ms", "--grace-term", "100ms", "--", path}
			cmd := newFixture(t).program(append(graces, args[1:]...)...)
			if shape.LeaderExits {
				finish(t, cmd).must(t, 0)
				require.Empty(t, shape.Survivors())
				return
			}
			require.NoError(t, cmd.Start())
			require.NoError(t, shape.Ready(patience))
			require.NoError(t, cmd.Process.Kill())
			_ = cmd.Wait() // it was killed
			none := 0      // how often in a row, because a process that is just starting is invisible for a moment
			eventually(t, "all of it ends", func() bool {
				if none++; len(shape.Survivors()) > 0 {
					none = 0
				}
				return none == 5
			})
		})
	}
}

func TestSignals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sig  syscall.Signal
		says string
	}{
		{syscall.SIGINT, "by SIGINT: ended by SIGINT\n"},
		{syscall.SIGTERM, "by SIGTERM: ended by SIGINT\n"},
		{syscall.SIGHUP, "by SIGHUP: ended by SIGINT\n"},
	} {
		inFixture(t, "the command ends with "+c.sig.String(), func(t *testing.T, f *fixture) {
			p := start(t, f.cmd("--no-output 5m", f.child("leave", "say:ready", "stay")...))
			p.signal(c.sig)
			o := p.end().must(t, 128+int(c.sig))
			require.Regexp(t, `^watchdog: the command was interrupted after \d+s `+c.says+"$", o.stderr)
			require.Empty(t, escape.WithToken(f.token))
		})
	}
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		inFixture(t, "a second "+sig.String()+" ends watchdog and every process of the command", func(t *testing.T, f *fixture) {
			p := start(t, f.cmd("--grace-int 5m", f.child("leave", "ignore:INT", "ignore:TERM", "say:ready", "stay")...))
			p.signal(sig)
			eventually(t, "nothing is left, once it is no repeat any more", func() bool {
				p.signal(sig)
				return len(escape.WithToken(f.token)) == 0
			})
			p.end()
			require.Equal(t, sig, p.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
		})
	}
	inFixture(t, "SIGQUIT is passed on, and the command decides what it means", func(t *testing.T, f *fixture) {
		p := start(t, f.cmd("--no-output 5m", f.child("quit:7")...))
		p.signal(syscall.SIGQUIT)
		o := p.end().must(t, 7)
		require.Equal(t, "quit\n", o.stdout)
		require.Empty(t, o.stderr)
	})
}

// GNU timeout sends its signal to its child and then to its group: watchdog gets it twice in one instant. So it
// does with a signal that it gets itself.
func TestUnderTimeout(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("timeout"); err != nil {
		t.Skip(err)
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		parallel(t, sig.String()+" ends the command in its grace", func(t *testing.T) {
			for range 20 {
				f := newFixture(t)
				p := start(t, under(f.cmd("", f.child("say:ready", "stay")...), "timeout", "1h"))
				p.signal(sig)
				says := `^watchdog: the command was interrupted after \d+s by ` + unix.SignalName(sig) + `: ended by SIGINT\n$`
				require.Regexp(t, says, p.end().stderr)
			}
		})
	}
}

func TestNohup(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	command := f.child("kill:HUP", "say:ready", "await:"+f.path("go"), "exit:4")
	p := start(t, under(f.cmd("--no-output 5m", command...), "nohup"))
	p.signal(syscall.SIGHUP)
	require.NoError(t, stepFuncs["touch"](f.path("go")))
	o := p.end().must(t, 4)
	require.NotContains(t, o.stderr, "watchdog:")
}

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
			require.Equal(t, []string{event.Cancel}, f.runs().kinds(t, run))
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
		require.Equal(t, []string{event.Interrupt, event.Complete}, f.runs().kinds(t, "nightly"))
	})
	inFixture(t, "has a run without a name under a random one, which the last line names", func(t *testing.T, f *fixture) {
		o := f.run("--store sqlite:runs.db --wall-clock 2s", f.child("stay")...).must(t, 124)
		name := regexp.MustCompile(`see: watchdog why --store sqlite:runs.db (\S{16})\n$`).FindStringSubmatch(o.stderr)
		require.NotNil(t, name, o.stderr)
		require.Equal(t, []string{event.Cancel}, f.runs().kinds(t, name[1]))
	})
	inFixture(t, "has a run under its name with the time in it", func(t *testing.T, f *fixture) {
		o := f.run("--json --store sqlite:runs.db --id job-{time}", "true").must(t, 0)
		name := regexp.MustCompile(`^{"run":"(job-\d{8}T\d{6}Z)",`).FindStringSubmatch(o.stderr)
		require.NotNil(t, name, o.stderr)
		require.Equal(t, []string{event.Complete}, f.runs().kinds(t, name[1]))
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
		parallel(t, "for the end of a command "+name, func(t *testing.T) {
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
	parallel(t, "for the stop of a command that was stuck", func(t *testing.T) {
		s := sqliteStore(t)
		f := newFixture(t)
		steps := []string{"say:ready", "await:" + f.path("go"), "say:fatal", "stay"}
		p := start(t, f.stored(s, "--id job --record-timeout 3s --terminal ^fatal$", f.child(steps...)...))
		s.exec("BEGIN EXCLUSIVE")
		require.NoError(t, stepFuncs["touch"](f.path("go")))
		eventually(t, "it says what it waits for", func() bool { return strings.HasPrefix(p.stderr.String(), waits) })
		s.exec("ROLLBACK")
		o := p.end().must(t, 124).says(t, "\nwatchdog: the output has a line of terminal pattern 1: ended by SIGINT; see: ")
		require.NotContains(t, o.stderr, "record the end")
		code := string(watchdog.CommandTerminal)
		require.Equal(t, []string{"cancelled", code, code}, s.end(t, "job"))
	})
	parallel(t, "and corrects what a sweeper said of a command that had ended by itself", func(t *testing.T) {
		s := sqliteStore(t)
		f := newFixture(t)
		cmd := f.stored(s, "--id job", f.child("say:ready", "await:"+f.path("go"), "exit:0")...)
		cmd.Env = append(cmd.Env, "WATCHDOG_KEEPER_POLL_MS=3600000", "WATCHDOG_KEEPER_PROMISE_MS=60000")
		p := start(t, cmd)
		row := s.row(t, "job")
		stalled := sweep.StalledRun{
			RunID: "job", StartedAt: row.StartedAt, DecidedAt: time.Now(), Silence: time.Hour, Threshold: time.Minute,
		}
		s.cancel(t, row, session.CancelRequest{
			By: "pass", Reason: watchdog.SessionIdleTimeout, Events: stalled.CancelEvents(),
		})
		require.NoError(t, stepFuncs["touch"](f.path("go")))
		o := p.end().must(t, 0)
		require.Equal(t, "watchdog: record the end: run job was stopped by another process, with watchdog_idle_timeout, when its "+
			"command had ended by itself: its events say so\n", o.stderr)
		require.Equal(t, []string{event.Warning, event.Cancel, event.Correction}, s.kinds(t, "job"))
		require.Contains(t, s.program(t, "why", "job").stdout, "it had finished by itself, and the stop came too late")
		require.Equal(t, session.Cancelled, s.row(t, "job").Status)
	})
}
