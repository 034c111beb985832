package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed62658d38/watchdog/internal/escape"
	"github.com/seed62658d38/watchdog/internal/escape/script"
)

const ctrlZ, ctrlS, ctrlQ = "\x1a", "\x13", "\x11"

// TestTTY checks the terminal of a command whose output is listened to.
func TestTTY(t *testing.T) {
	t.Parallel()
	t.Run("a command that buffers lines only on a terminal lives", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		s := onScreen(t, f.cmd("--no-output 5s", f.child("tick:30")...)) // 6 s, and the machine may be busy
		printed := s.end(0)
		require.Equal(t, 30, strings.Count(printed, "\r\n"))
		require.True(t, strings.HasPrefix(printed, "0\r\n1\r\n2\r\n"), printed)
	})
	t.Run("in a pipe it does not", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		onScreen(t, f.cmd("--no-tty --no-output 1s", f.child("tick:100")...)).end(124)
	})
	t.Run("has the size of the real one, and is resized with it", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		cmd := f.cmd("--terminal never", f.child("say:ready", "await:"+f.path("go"), "sizes:44")...)
		s := onScreen(t, cmd)
		s.reads("ready")
		s.resize(120, 33)
		require.NoError(t, stepFuncs["touch"](f.path("go")))
		s.reads("120 columns, 33 rows")
		s.resize(44, 12)
		s.reads("44 columns, 12 rows")
		s.end(0)
	})
	t.Run("passes every key to a program that takes them all", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		s := onScreen(t, f.cmd("--no-output 5m", f.child("type")...))
		s.reads("ready")
		s.types(ctrlC + ctrlZ + ctrlS + "\x1cq")
		for _, key := range []string{"3", "26", "19", "28"} {
			s.reads("key " + key)
		}
		s.end(0)
	})
	t.Run("keeps a file a file", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		shown := onScreen(t, inShell(f.cmd("--no-output 5m", f.child("say:ready", "warn:careful")...), `"$@" 2>log`)).end(0)
		require.Equal(t, "ready\r\n", shown)
		text, err := os.ReadFile(f.path("log"))
		require.NoError(t, err)
		require.Equal(t, "careful\n", string(text))
	})
	t.Run("loses nothing at the end, and joins both outputs", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		shown := onScreen(t, f.cmd("--no-output 5m", f.child("alternate:20000")...)).end(0)
		var want strings.Builder
		for n := range 20000 {
			want.WriteString(strconv.Itoa(n) + "\r\n")
		}
		require.Equal(t, want.String(), shown)
	})
	t.Run("ends no line twice, however early it comes", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		const often = `for n in $(seq 60); do "$@" || exit; done`
		shown := onScreen(t, inShell(f.cmd("--no-output 5m", "echo", "line"), often)).end(0)
		require.Equal(t, strings.Repeat("line\r\n", 60), shown)
	})
	t.Run("output that a person stopped is no silence", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		s := onScreen(t, f.cmd("--no-output 4s", f.child("tick:25")...))
		s.reads("1")
		s.types(ctrlS)
		time.Sleep(6 * time.Second) // longer than the command may be silent
		s.types(ctrlQ)
		s.reads("24")
		s.end(0)
	})
}

// TestTTYRestored checks that the terminal is as before however the command ends, and that nothing is left.
func TestTTYRestored(t *testing.T) {
	t.Parallel()
	ends := map[string]struct {
		flags, steps string
		end          func(f *fixture, watchdog *os.Process)
		code         int
	}{
		"an end":        {"--terminal never", "exit:5", func(*fixture, *os.Process) {}, 5},
		"a trip":        {"--terminal fatal --grace-int 100ms", "prompt:fatal stay", func(*fixture, *os.Process) {}, 124},
		"a kill":        {"--no-output 5m", "stay", func(f *fixture, _ *os.Process) { f.kill() }, 137},
		"a kill, alone": {"--no-tty", "stay", func(f *fixture, _ *os.Process) { f.kill() }, 137},
		"SIGTERM": {"--no-output 5m --grace-int 0", "stay", func(_ *fixture, watchdog *os.Process) {
			_ = watchdog.Signal(syscall.SIGTERM)
		}, 143},
	}
	for name, c := range ends {
		t.Run("after "+name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			steps := append([]string{"ignore:INT", "raw", "say:ready"}, strings.Fields(c.steps)...)
			s := onScreen(t, f.cmd(c.flags, f.child(steps...)...))
			s.reads("ready")
			if c.steps == "stay" { // it has the terminal until it is ended
				require.NotEqual(t, s.before, modes(t, s.line))
			}
			c.end(f, s.cmd.Process)
			s.endKept(c.code)
			require.Equal(t, s.before, modes(t, s.line))
			require.Empty(t, escape.WithToken(f.token))
		})
	}
	t.Run("after SIGKILL of watchdog", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		s := onScreen(t, inShell(f.cmd("--no-output 5m", f.child("leave", "say:ready", "stay")...),
			`sh -c 'echo $$ >pid; exec "$@"' sh "$@"; read end`))
		s.reads("ready")
		eventually(t, "the terminal is raw", func() bool { return modes(t, s.line) != s.before })
		text, err := os.ReadFile(f.path("pid"))
		require.NoError(t, err)
		require.NoError(t, syscall.Kill(script.Number(strings.TrimSpace(string(text))), syscall.SIGKILL))
		eventually(t, "nothing is left", func() bool { return len(escape.WithToken(f.token)) == 0 })
		eventually(t, "the terminal is as before", func() bool { return modes(t, s.line) == s.before })
		s.types("\n")
		s.end(0)
	})
	t.Run("after a shell of the command's that had the foreground was killed", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		child := f.child("ignore:INT", "ignore:TERM", "raw", "say:ready", "stay")
		script := "trap '' INT TERM; " + quoted(child) + "; :" // so that only SIGKILL ends them, however late that is
		s := onScreen(t, f.cmd("--no-tty --terminal ready --grace-int 0 --grace-term 0", "bash", "--norc", "-ic", script))
		s.reads("ready")
		s.endKept(137)
		require.Equal(t, s.before, modes(t, s.line))
	})
}

func (f *fixture) kill() {
	for _, p := range escape.WithToken(f.token) {
		_ = syscall.Kill(p.PID, syscall.SIGKILL)
	}
}

// quoted returns words as a shell takes them.
func quoted(words []string) string { return "'" + strings.Join(words, "' '") + "'" }

// inShell returns a shell that executes a script, in which "$@" is a command.
func inShell(cmd *exec.Cmd, script string) *exec.Cmd {
	shell := exec.Command("sh", append([]string{"-c", script, "sh", cmd.Path}, cmd.Args[1:]...)...)
	shell.Dir, shell.Env = cmd.Dir, cmd.Env
	return shell
}

func (s *screen) resize(columns, rows uint16) {
	s.Helper()
	require.NoError(s, unix.IoctlSetWinsize(int(s.file.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}))
}

// TestTTYInput checks who gets what is typed.
func TestTTYInput(t *testing.T) {
	t.Parallel()
	for _, flags := range []string{"", "--no-output 5m"} {
		t.Run("a command in a pipe reads from the terminal, with the flags "+flags, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			cmd := f.cmd(flags, "sh", "-c", "echo ready; read answer </dev/tty; echo said $answer; cat")
			cmd.Stdin = strings.NewReader("piped\n")
			s := onScreen(t, cmd)
			s.reads("ready")
			s.types("yes\n")
			s.reads("said yes")
			require.Equal(t, "piped\r\n", s.end(0))
		})
	}
	t.Run("what comes after the end is for the next program", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		cmd := f.cmd("--no-output 5m", f.child("answer")...)
		s := onScreen(t, inShell(cmd, `"$@"; echo over; read next; echo next $next`))
		s.types("one\n")
		s.reads("over")
		s.types("two\n")
		s.reads("next two")
		s.end(0)
	})
}

// TestJob checks Ctrl-Z and fg in a shell with job control, with a terminal of the command's own and without.
func TestJob(t *testing.T) {
	t.Parallel()
	for _, flags := range []string{"--no-output 4s", "--wall-clock 5m"} {
		t.Run("with the flags "+flags, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			job := f.cmd(flags, f.child("say:ready", "answer", "tick:3")...)
			s := inBash(t, job)
			s.types(quoted(job.Args) + "\n")
			s.reads("ready\r\n")
			s.types(ctrlZ)
			s.reads("Stopped")
			eventually(t, "the command is stopped", func() bool {
				for _, p := range escape.WithToken(f.token) {
					if stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID)); !strings.Contains(string(stat), ") T ") {
						return false
					}
				}
				return true
			})
			time.Sleep(6 * time.Second) // longer than the command may be silent
			s.goesOn()
		})
	}
}

// goesOn has the shell, which has its terminal, continue the job, which answers what is typed before the shell gets it.
func (s *screen) goesOn() {
	s.Helper()
	s.types("stty -a | grep -o '.icanon'; fg; echo status $?\n")
	s.reads(" icanon\r\n")
	s.types("still here\n")
	s.reads("answer: still here")
	s.reads("status 0")
	s.types("exit\n")
	s.end(0)
}

// TestStoppedJob checks that the terminal is the shell's while watchdog alone is stopped, and the command's after that.
func TestStoppedJob(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	job := f.cmd("--no-output 5m", f.child("say:ready", "answer")...)
	s := inBash(t, job)
	s.types(quoted(job.Args) + "\n")
	s.reads("ready\r\n")
	group, err := unix.IoctlGetInt(int(s.file.Fd()), unix.TIOCGPGRP)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(-group, syscall.SIGTSTP))
	s.reads("Stopped")
	s.goesOn()
}

// TestJobInBackground checks a command that begins in the background: it leaves the terminal to the shell until it is in the
// foreground, and then shows what is typed as a shell's command does.
func TestJobInBackground(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	job := f.cmd("--no-output 5m", f.child("say:ready", "answer")...)
	s := inBash(t, job)
	s.types(quoted(job.Args) + " &\n")
	s.reads("ready\r")
	s.types("echo for the shell | tr a-z A-Z\n")
	s.reads("FOR THE SHELL")
	s.types("fg >/dev/null; echo status $?\n")
	eventually(t, "the job has the terminal", func() bool {
		return modes(t, s.line).Lflag&(unix.ICANON|unix.ISIG) == 0
	})
	s.types("for the job\n")
	s.reads("\nfor the job\r\n")
	s.reads("answer: for the job")
	s.reads("status 0")
	s.types("exit\n")
	s.end(0)
}

// TestNoShell checks Ctrl-Z where nobody could have the job go on, and a terminal that goes away.
func TestNoShell(t *testing.T) {
	t.Parallel()
	t.Run("Ctrl-Z does nothing", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		s := onScreen(t, f.cmd("--no-output 5m", f.child("say:ready", "answer")...))
		s.reads("ready")
		s.types(ctrlZ + "on\n")
		s.reads("answer: on")
		s.end(0)
	})
	t.Run("a terminal that hangs up ends all", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		s := onScreen(t, f.cmd("--no-output 5m --grace-int 0", f.child("ignore:INT", "leave", "say:ready", "stay")...))
		s.reads("ready")
		require.NoError(t, s.line.Close())
		require.NoError(t, s.file.Close())
		s.endKept(128 + int(syscall.SIGHUP))
		require.Empty(t, escape.WithToken(f.token))
	})
}

// inBash starts a shell with job control in the folder and the environment of a command.
func inBash(t *testing.T, cmd *exec.Cmd) *screen {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip(err)
	}
	bash := exec.Command("bash", "--norc", "--noprofile", "-i")
	bash.Dir, bash.Env = cmd.Dir, append(cmd.Env, "TERM=dumb")
	return onScreen(t, bash)
}
