package main_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/escape"
	"github.com/seed62658d38/watchdog/stall"
)

func TestWhatPassesThrough(t *testing.T) {
	t.Parallel()
	for _, flags := range []string{"", "-no-output 5m", "-terminal ^never$"} {
		t.Run("with the flags "+flags, func(t *testing.T) {
			t.Parallel()
			t.Run("input and output, whatever is in it", func(t *testing.T) {
				b := newBed(t)
				sent := make([]byte, 1<<20)
				for i := range sent {
					sent[i] = byte(rand.Uint32())
				}
				cmd := b.guard(flags, b.play("echo")...)
				cmd.Stdin = bytes.NewReader(sent)
				o := finish(t, cmd).must(t, 0)
				assert.True(t, bytes.Equal(sent, []byte(o.stdout)), "%d bytes went in, %d other ones came out", len(sent), len(o.stdout))
				assert.Empty(t, o.stderr)
			})
			t.Run("each output by itself", func(t *testing.T) {
				b := newBed(t)
				o := b.run(flags, b.play("say:out", "warn:err", "say:more")...).must(t, 0)
				assert.Equal(t, outcome{0, "out\nmore\n", "err\n"}, o)
			})
			t.Run("both outputs that are one, in their order", func(t *testing.T) {
				b := newBed(t)
				var both, want bytes.Buffer
				cmd := b.guard(flags, b.play("alternate:1000")...)
				cmd.Stdout, cmd.Stderr = &both, &both
				require.NoError(t, cmd.Run())
				for n := range 1000 {
					want.WriteString(strconv.Itoa(n) + "\n")
				}
				assert.Equal(t, want.String(), both.String())
			})
			t.Run("and a reader that goes ends the command as without the guard", func(t *testing.T) {
				b := newBed(t)
				r, w, err := os.Pipe()
				require.NoError(t, err)
				cmd := b.guard(flags, b.play("alternate:100000000")...)
				cmd.Stdout = w
				require.NoError(t, cmd.Start())
				require.NoError(t, w.Close())
				_, err = r.Read(make([]byte, 1))
				require.NoError(t, err)
				require.NoError(t, r.Close())
				require.Error(t, cmd.Wait())
				assert.Equal(t, 128+int(syscall.SIGPIPE), cmd.ProcessState.ExitCode())
			})
		})
	}
}

func TestExitStatus(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	require.NoError(t, os.WriteFile(b.path("text"), []byte("text\n"), 0o600))
	require.NoError(t, os.WriteFile(b.path("no-program"), []byte("\x00\x01"), 0o700)) //nolint:gosec // it is to be executable
	require.NoError(t, os.Mkdir(b.path("folder"), 0o700))
	for _, c := range []struct {
		name    string
		flags   string
		command []string
		code    int
		says    string
	}{
		{"the command's own", "", b.play("exit:0"), 0, ""},
		{"the command's own failure", "", b.play("exit:7"), 7, ""},
		{"the command's own also where it is one of the guard's", "", b.play("exit:124"), 124, ""},
		{"128 and the signal that ended it", "", b.play("kill:KILL"), 137, ""},
		{"128 and another", "", b.play("kill:TERM"), 143, ""},
		{"125 for a command line that cannot be meant", "-on-stall explode", b.play("touch:started"), 125,
			"guard: -on-stall \"explode\": use one of interrupt, fail, ignore\nguard -h lists the flags\n"},
		{"125 for a step that is a path", "-artifacts state -step ../../x", b.play("touch:started"), 125,
			"guard: run step \"../../x\": invalid stall config: invalid step: \"../../x\" has a slash, a backslash or a colon; use a plain name, such as build or check-2\n"},
		{"125 for artifacts that have no place, which is not a command that is not there", "-artifacts /proc/none", b.play("touch:started"), 125,
			"guard: run step command: open stall artifacts: make the root folder: mkdir /proc/none: no such file or directory\n"},
		{"126 for a file that is no program", "", []string{"./text"}, 126, "guard: run step command: start the command: permission denied\n"},
		{"126 for a program of no known format", "", []string{"./no-program"}, 126, "guard: run step command: start the command: exec format error\n"},
		{"126 for a folder", "", []string{"./folder"}, 126, "guard: run step command: start the command: permission denied\n"},
		{"126 for a path through a file", "", []string{"./text/x"}, 126, "guard: run step command: start the command: not a directory\n"},
		{"127 for a command that is not there", "", []string{"no-such-command"}, 127,
			"guard: run step \"command\": exec: \"no-such-command\": executable file not found in $PATH\n"},
		{"127 for a path that is not there", "", []string{"./no-such-command"}, 127, "guard: run step command: start the command: no such file or directory\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := b.run(c.flags, c.command...).must(t, c.code)
			assert.Equal(t, c.says, o.stderr)
			assert.Empty(t, o.stdout)
			assert.False(t, b.exists("started"), "nothing was started")
			assert.False(t, b.exists("state"), "and nothing written")
		})
	}
	t.Run("0 for help", func(t *testing.T) {
		o := finish(t, b.program("-h")).must(t, 0)
		assert.Contains(t, o.stdout, "guard [FLAGS] -- COMMAND")
		assert.Empty(t, o.stderr)
	})
}

// What is not the same twice.
var (
	lengths = regexp.MustCompile(`(no output for|no output at all in) [0-9.ms]+`)
	counts  = regexp.MustCompile(`the last \d+ of \d+ probes`)
)

func TestReasons(t *testing.T) {
	t.Parallel()
	stays := []string{"say:ready", "stay"}
	cases := []struct {
		name  string
		flags []string
		steps []string
	}{
		{"no more output", []string{"-no-output", "3s"}, stays},
		{"no output at all", []string{"-no-output", "1s"}, []string{"stay"}},
		{"a probe that sees the same", probing("echo '{}'"), stays},
		{"a probe that sees the same and names it", probing(`echo '{"fingerprints": ["k8s/crd/missing:widgets"]}'`), stays},
		{"a probe that sees the end of hope", probing(`echo '{"class": "terminal"}'`), stays},
		{"a line that matches", []string{"-terminal", "^ready$"}, stays},
		{"a budget", []string{"-budget", "1500ms"}, stays},
		{"a command that is killed at once", []string{"-terminal", "^ready$", "-on-stall", "fail"}, stays},
		{"a command that ignores SIGINT", []string{"-terminal", "^ready$", "-grace-int", "0s"}, append([]string{"ignore:INT"}, stays...)},
		{"a command that ignores both", []string{"-terminal", "^ready$", "-grace-int", "50ms", "-grace-term", "50ms"}, append([]string{"ignore:INT", "ignore:TERM"}, stays...)},
		{"artifacts", []string{"-terminal", "^ready$", "-artifacts", "state", "-step", "build"}, stays},
		{
			"a probe that saw nothing, at least once before the command is ended",
			append(probing("test -e first && touch go; touch first; exit 3"), "-terminal", "^ready$"), []string{"await:go", "say:ready", "stay"},
		},
	}
	said := make([]string, len(cases))
	t.Run("of each kind", func(t *testing.T) {
		for i, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				b := newBed(t)
				o := finish(t, b.program(append(append(c.flags, "--"), b.play(c.steps...)...)...)).must(t, 124)
				assert.Empty(t, escape.WithToken(b.token), "nothing is left when the program ends")
				text := counts.ReplaceAllString(lengths.ReplaceAllString(o.stderr, "$1 TIME"), "the last N of N probes")
				said[i] = c.name + "\n\t" + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n\t") + "\n"
			})
		}
	})
	golden(t, "reasons", strings.Join(said, ""))
}

// probing are the flags for a probe that is asked often.
func probing(probe string) []string { return []string{"-probe-interval", "50ms", "-probe", probe} }

func TestAGraceOfNoTimeIsNone(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	began := time.Now()
	b.run("-terminal ^ready$ -grace-int 0s -grace-term 0s", b.play("ignore:INT", "ignore:TERM", "say:ready", "stay")...).must(t, 124)
	assert.Less(t, time.Since(began), stall.DefaultInterruptGrace+stall.DefaultTerminateGrace)
}

func TestArtifacts(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.run("-terminal ^ready$ -artifacts state -step build", b.play("say:ready", "stay")...).must(t, 124)
	text, err := os.ReadFile(b.path("state/build/_stall/event.json"))
	require.NoError(t, err)
	var event struct {
		Trigger  struct{ Kind string }
		Action   struct{ Sent []struct{ Signal string } }
		Complete bool
	}
	require.NoError(t, json.Unmarshal(text, &event))
	assert.Equal(t, "terminal", event.Trigger.Kind)
	require.Len(t, event.Action.Sent, 1)
	assert.Equal(t, "SIGINT", event.Action.Sent[0].Signal)
	assert.True(t, event.Complete)
}

func TestAStallThatIsIgnored(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	event := b.path("state/command/_stall/event.json")
	o := b.run("-on-stall ignore -terminal ^ready$ -artifacts state", b.play("say:ready", "await:"+event, "exit:5")...).must(t, 5)
	assert.Empty(t, o.stderr, "the guard did nothing, and says nothing")
	text, err := os.ReadFile(event)
	require.NoError(t, err)
	assert.Contains(t, string(text), `"ignore"`)
}

func TestWhatACommandLeavesBehind(t *testing.T) {
	t.Parallel()
	t.Run("is ended", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		b.run("", b.play("leave", "exit:3")...).must(t, 3)
	})
	t.Run("stays where it is meant to", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		finish(t, b.guard("-keep-background", b.play("leave", "exit:3")...)).must(t, 3)
		left := escape.WithToken(b.token)
		require.Len(t, left, 1)
		require.NoError(t, syscall.Kill(left[0].PID, syscall.SIGKILL))
		eventually(t, "it ends", func() bool { return len(escape.WithToken(b.token)) == 0 })
	})
	t.Run("does not stay after a stall", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		b.run("-keep-background -terminal ^ready$", b.play("leave", "say:ready", "stay")...).must(t, 124)
	})
}

func TestEveryShapeOfATreeIsEnded(t *testing.T) {
	t.Parallel()
	for _, shape := range escape.Scenarios() {
		if shape.Processes > 100 {
			continue // the sentinel's own tests have them
		}
		t.Run(shape.Name, func(t *testing.T) {
			t.Parallel()
			shape := shape.In(t.TempDir())
			t.Cleanup(shape.End)
			cmd := guardOf(t, shape, "-budget", "2s", "-grace-int", "100ms", "-grace-term", "100ms")
			o := finish(t, cmd)
			assert.Contains(t, []int{0, 124}, o.code, o.stderr)
			assert.Equal(t, shape.LeaderExits, o.code == 0, o.stderr)
			assert.Empty(t, shape.Survivors())
		})
	}
}

// guardOf is the program with a shape of a tree as its command.
func guardOf(t *testing.T, shape escape.Scenario, flags ...string) *exec.Cmd {
	t.Helper()
	path, args, _ := shape.Command()
	b := newBed(t)
	return b.program(append(append(append(flags, "--"), path), args[1:]...)...)
}
