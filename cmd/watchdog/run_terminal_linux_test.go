package main_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
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

const ctrlC = "\x03"

func TestTerminal(t *testing.T) {
	t.Parallel()
	for _, flags := range []string{"", "--no-output 5m"} {
		parallel(t, "with the flags "+flags, func(t *testing.T) {
			withFixture(t, "the command reads from it and gets one interrupt from Ctrl-C", func(t *testing.T, f *fixture) {
				s := onScreen(t, f.cmd(flags, f.child("answer", "count", "exit:5")...))
				s.types("anybody\n")
				s.reads("answer: anybody")
				s.reads("counting")
				s.types(ctrlC)
				s.reads("interrupted")
				s.types("enough\n")
				s.reads("interrupts: 1")
				shown := s.end(5)
				require.NotContains(t, shown, "interrupted")
				require.NotContains(t, shown, "watchdog:", "it stays silent")
			})
			withFixture(t, "Ctrl-C ends a command that does not handle SIGINT", func(t *testing.T, f *fixture) {
				s := onScreen(t, f.cmd(flags, f.child("leave", "say:ready", "stay")...))
				s.reads("ready")
				s.types(ctrlC)
				shown := s.end(128 + int(syscall.SIGINT))
				require.Regexp(t, `the command was interrupted after \d+s by SIGINT\S*: ended by SIGINT`, shown)
				require.Empty(t, escape.WithToken(f.token))
			})
			withFixture(t, "SIGTERM to watchdog ends a command that reads from it", func(t *testing.T, f *fixture) {
				s := onScreen(t, f.cmd(flags, f.child("say:ready", "answer")...))
				s.reads("ready")
				require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
				shown := s.end(128 + int(syscall.SIGTERM))
				require.Contains(t, shown, "by SIGTERM\x1b[0m: ended by SIGINT")
				require.Empty(t, escape.WithToken(f.token))
			})
		})
	}
	inFixture(t, "Ctrl-\\ reaches the command once, and watchdog goes on", func(t *testing.T, f *fixture) {
		s := onScreen(t, f.cmd("", f.child("quit:5")...))
		s.reads("ready")
		s.types("\x1c")
		shown := s.end(5)
		require.NotContains(t, shown, "goroutine")
	})
	inFixture(t, "if only watchdog is on the terminal, it passes Ctrl-C on", func(t *testing.T, f *fixture) {
		cmd := f.cmd("", f.child("say:ready", "stay")...)
		var err error
		cmd.Stdin, err = os.Open(os.DevNull)
		require.NoError(t, err)
		s := onScreen(t, cmd)
		s.reads("ready")
		s.types(ctrlC)
		shown := s.end(128 + int(syscall.SIGINT))
		require.Contains(t, shown, "by SIGINT\x1b[0m: ended by SIGINT")
	})
}

func TestStyle(t *testing.T) {
	t.Parallel()
	for variable, want := range map[string]string{
		"A=b": "\x1b[1mran TIME of 2 s\x1b[0m: ended", "NO_COLOR=1": ": ran TIME of 2 s: ended",
		"NO_COLOR=": "\x1b[1mran", "TERM=dumb": ": ran TIME of 2 s: ended",
	} {
		inFixture(t, "with "+variable, func(t *testing.T, f *fixture) {
			cmd := f.cmd("--wall-clock 2s", f.child("stay")...)
			cmd.Env = append(cmd.Env, variable)
			require.Contains(t, lengths.ReplaceAllString(onScreen(t, cmd).end(124), "$1 TIME of"), want)
		})
	}
}

func TestLiveLine(t *testing.T) {
	t.Parallel()
	inFixture(t, "is on the terminal while the command's output goes elsewhere, and then gone", func(t *testing.T, f *fixture) {
		cmd := f.cmd("--wall-clock 2500ms", f.child("say:ready", "stay")...)
		log, err := os.Create(f.path("log"))
		require.NoError(t, err)
		defer log.Close()
		cmd.Stdout, cmd.Stderr = log, log
		shown := onScreen(t, cmd).end(124)
		require.Regexp(t, `\r\x1b\[K\x1b\[2mwatchdog: running for \d+s, at most \d+s more\x1b\[0m`, shown)
		require.True(t, strings.HasSuffix(shown, "\r\x1b[K"), "%q", shown)
		text, err := os.ReadFile(f.path("log"))
		require.NoError(t, err)
		require.Equal(t, "ready\nwatchdog: ran TIME of 2.5 s: ended by SIGINT\n",
			lengths.ReplaceAllString(string(text), "$1 TIME of"))
	})
	inFixture(t, "is not there beside the command's output", func(t *testing.T, f *fixture) {
		shown := onScreen(t, f.cmd("--wall-clock 1500ms", f.child("say:ready", "stay")...)).end(124)
		require.NotContains(t, shown, "running for")
	})
	inFixture(t, "is not there beside its standard output only", func(t *testing.T, f *fixture) {
		cmd := inShell(f.cmd("--wall-clock 1500ms", f.child("say:ready", "stay")...), `"$@" 2>log`)
		require.NotContains(t, onScreen(t, cmd).end(124), "running for")
	})
}

// A screen is the terminal of a program, as its user sees it.
type screen struct {
	*testing.T
	cmd    *exec.Cmd
	file   *os.File
	line   *os.File // the program's side of the terminal
	lines  *bufio.Reader
	before unix.Termios // how the terminal was set when the program was started
}

// modes returns how a terminal is set.
func modes(t *testing.T, line *os.File) unix.Termios {
	t.Helper()
	modes, err := unix.IoctlGetTermios(int(line.Fd()), unix.TCGETS)
	require.NoError(t, err)
	return *modes
}

// onScreen starts a program on a new terminal, which is also its standard input and output unless these are set.
func onScreen(t *testing.T, cmd *exec.Cmd) *screen {
	t.Helper()
	file, line := openTerminal(t)
	if cmd.Stdin == nil {
		cmd.Stdin = line
	}
	terminal := 0
	if cmd.Stdout == nil {
		cmd.Stdout, cmd.Stderr, terminal = line, line, 1
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: terminal}
	before := modes(t, line)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), line.Close() })
	return &screen{t, cmd, file, line, bufio.NewReader(file), before}
}

func (s *screen) types(text string) {
	s.Helper()
	_, err := s.file.WriteString(text)
	require.NoError(s, err)
}

// reads reads lines until one contains the text.
func (s *screen) reads(text string) {
	s.Helper()
	var seen strings.Builder
	for !strings.Contains(seen.String(), text) {
		line, err := s.lines.ReadString('\n')
		seen.WriteString(line)
		require.NoErrorf(s, err, "waiting for %q, it printed\n%s", text, &seen)
	}
}

// end waits until the program exits with the status, and returns its output since the last read.
func (s *screen) end(code int) string {
	s.Helper()
	require.NoError(s, s.line.Close())
	rest, err := io.ReadAll(s.lines)
	if !errors.Is(err, syscall.EIO) { // EIO: the last writer has closed the terminal
		require.NoError(s, err)
	}
	s.cmd.Wait() // the status is checked below
	require.Equalf(s, code, s.cmd.ProcessState.ExitCode(), "exit status; it printed\n%s", rest)
	return string(rest)
}

// endKept waits until the program exits with the status, and keeps the terminal.
func (s *screen) endKept(code int) {
	s.Helper()
	s.cmd.Wait() // the status is checked below
	require.Equal(s, code, s.cmd.ProcessState.ExitCode())
}

// openTerminal opens a pseudo-terminal: what a program writes to line is read from screen.
func openTerminal(t *testing.T) (screen, line *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { screen.Close() })
	fd := int(screen.Fd())
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	line, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	return screen, line
}

const ctrlZ, ctrlS, ctrlQ = "\x1a", "\x13", "\x11"

// TestTTY checks the terminal of a command whose output is listened to.
func TestTTY(t *testing.T) {
	t.Parallel()
	inFixture(t, "a command that buffers lines only on a terminal lives", func(t *testing.T, f *fixture) {
		s := onScreen(t, f.cmd("--no-output 5s", f.child("tick:30")...)) // 6 s, and the machine may be busy
		printed := s.end(0)
		require.Equal(t, 30, strings.Count(printed, "\r\n"))
		require.True(t, strings.HasPrefix(printed, "0\r\n1\r\n2\r\n"), printed)
	})
	inFixture(t, "in a pipe it does not", func(t *testing.T, f *fixture) {
		onScreen(t, f.cmd("--no-tty --no-output 1s", f.child("tick:100")...)).end(124)
	})
	inFixture(t, "has the size of the real one, and is resized with it", func(t *testing.T, f *fixture) {
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
	inFixture(t, "passes every key to a program that takes them all", func(t *testing.T, f *fixture) {
		s := onScreen(t, f.cmd("--no-output 5m", f.child("type")...))
		s.reads("ready")
		s.types(ctrlC + ctrlZ + ctrlS + "\x1cq")
		for _, key := range []string{"3", "26", "19", "28"} {
			s.reads("key " + key)
		}
		s.end(0)
	})
	inFixture(t, "keeps a file a file", func(t *testing.T, f *fixture) {
		shown := onScreen(t, inShell(f.cmd("--no-output 5m", f.child("say:ready", "warn:careful")...), `"$@" 2>log`)).end(0)
		require.Equal(t, "ready\r\n", shown)
		text, err := os.ReadFile(f.path("log"))
		require.NoError(t, err)
		require.Equal(t, "careful\n", string(text))
	})
	inFixture(t, "loses nothing at the end, and joins both outputs", func(t *testing.T, f *fixture) {
		shown := onScreen(t, f.cmd("--no-output 5m", f.child("alternate:20000")...)).end(0)
		var want strings.Builder
		for n := range 20000 {
			want.WriteString(strconv.Itoa(n) + "\r\n")
		}
		require.Equal(t, want.String(), shown)
	})
	inFixture(t, "ends no line twice, however early it comes", func(t *testing.T, f *fixture) {
		const often = `for n in $(seq 60); do "$@" || exit; done`
		shown := onScreen(t, inShell(f.cmd("--no-output 5m", "echo", "line"), often)).end(0)
		require.Equal(t, strings.Repeat("line\r\n", 60), shown)
	})
	inFixture(t, "output that a person stopped is no silence", func(t *testing.T, f *fixture) {
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
		inFixture(t, "after "+name, func(t *testing.T, f *fixture) {
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
	inFixture(t, "after SIGKILL of watchdog", func(t *testing.T, f *fixture) {
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
	inFixture(t, "after a shell of the command's that had the foreground was killed", func(t *testing.T, f *fixture) {
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

func (s *screen) resize(columns, rows uint16) {
	s.Helper()
	require.NoError(s, unix.IoctlSetWinsize(int(s.file.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}))
}

// TestTTYInput checks who gets what is typed.
func TestTTYInput(t *testing.T) {
	t.Parallel()
	for _, flags := range []string{"", "--no-output 5m"} {
		inFixture(t, "a command in a pipe reads from the terminal, with the flags "+flags, func(t *testing.T, f *fixture) {
			cmd := f.cmd(flags, "sh", "-c", "echo ready; read answer </dev/tty; echo said $answer; cat")
			cmd.Stdin = strings.NewReader("piped\n")
			s := onScreen(t, cmd)
			s.reads("ready")
			s.types("yes\n")
			s.reads("said yes")
			require.Equal(t, "piped\r\n", s.end(0))
		})
	}
	inFixture(t, "what comes after the end is for the next program", func(t *testing.T, f *fixture) {
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
		inFixture(t, "with the flags "+flags, func(t *testing.T, f *fixture) {
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
	inFixture(t, "Ctrl-Z does nothing", func(t *testing.T, f *fixture) {
		s := onScreen(t, f.cmd("--no-output 5m", f.child("say:ready", "answer")...))
		s.reads("ready")
		s.types(ctrlZ + "on\n")
		s.reads("answer: on")
		s.end(0)
	})
	inFixture(t, "a terminal that hangs up ends all", func(t *testing.T, f *fixture) {
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
