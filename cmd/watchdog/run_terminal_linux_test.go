package main_test

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed62658d38/watchdog/internal/escape"
)

const ctrlC = "\x03"

func TestTerminal(t *testing.T) {
	t.Parallel()
	for _, flags := range []string{"", "--no-output 5m"} {
		t.Run("with the flags "+flags, func(t *testing.T) {
			t.Parallel()
			t.Run("the command reads from it and gets one interrupt from Ctrl-C", func(t *testing.T) {
				f := newFixture(t)
				s := onScreen(t, f.cmd(flags, f.child("answer", "count", "exit:5")...))
				s.types("anybody\n")
				s.reads("answer: anybody")
				s.reads("counting")
				s.types(ctrlC)
				s.reads("interrupted")
				s.types("enough\n")
				s.reads("interrupts: 1")
				shown := s.end(5)
				assert.NotContains(t, shown, "interrupted")
				assert.NotContains(t, shown, "watchdog:", "it stays silent")
			})
			t.Run("Ctrl-C ends a command that does not handle SIGINT", func(t *testing.T) {
				f := newFixture(t)
				s := onScreen(t, f.cmd(flags, f.child("leave", "say:ready", "stay")...))
				s.reads("ready")
				s.types(ctrlC)
				shown := s.end(128 + int(syscall.SIGINT))
				assert.Regexp(t, `the command was interrupted after \d+s by SIGINT\S*: ended by SIGINT`, shown)
				assert.Empty(t, escape.WithToken(f.token))
			})
			t.Run("SIGTERM to watchdog ends a command that reads from it", func(t *testing.T) {
				f := newFixture(t)
				s := onScreen(t, f.cmd(flags, f.child("say:ready", "answer")...))
				s.reads("ready")
				require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
				shown := s.end(128 + int(syscall.SIGTERM))
				assert.Contains(t, shown, "by SIGTERM\x1b[0m: ended by SIGINT")
				assert.Empty(t, escape.WithToken(f.token))
			})
		})
	}
	t.Run("Ctrl-\\ reaches the command once, and watchdog goes on", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		s := onScreen(t, f.cmd("", f.child("quit:5")...))
		s.reads("ready")
		s.types("\x1c")
		shown := s.end(5)
		assert.NotContains(t, shown, "goroutine")
	})
	t.Run("if only watchdog is on the terminal, it passes Ctrl-C on", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		cmd := f.cmd("", f.child("say:ready", "stay")...)
		var err error
		cmd.Stdin, err = os.Open(os.DevNull)
		require.NoError(t, err)
		s := onScreen(t, cmd)
		s.reads("ready")
		s.types(ctrlC)
		shown := s.end(128 + int(syscall.SIGINT))
		assert.Contains(t, shown, "by SIGINT\x1b[0m: ended by SIGINT")
	})
}

func TestStyle(t *testing.T) {
	t.Parallel()
	for variable, want := range map[string]string{
		"A=b": "\x1b[1mran TIME of 2 s\x1b[0m: ended", "NO_COLOR=1": ": ran TIME of 2 s: ended",
		"NO_COLOR=": "\x1b[1mran", "TERM=dumb": ": ran TIME of 2 s: ended",
	} {
		t.Run("with "+variable, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			cmd := f.cmd("--wall-clock 2s", f.child("stay")...)
			cmd.Env = append(cmd.Env, variable)
			assert.Contains(t, lengths.ReplaceAllString(onScreen(t, cmd).end(124), "$1 TIME of"), want)
		})
	}
}

func TestLiveLine(t *testing.T) {
	t.Parallel()
	t.Run("is on the terminal while the command's output goes elsewhere, and then gone", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		cmd := f.cmd("--wall-clock 2500ms", f.child("say:ready", "stay")...)
		log, err := os.Create(f.path("log"))
		require.NoError(t, err)
		defer log.Close()
		cmd.Stdout, cmd.Stderr = log, log
		shown := onScreen(t, cmd).end(124)
		assert.Regexp(t, `\r\x1b\[K\x1b\[2mwatchdog: running for \d+s, at most \d+s more\x1b\[0m`, shown)
		assert.True(t, strings.HasSuffix(shown, "\r\x1b[K"), "%q", shown)
		text, err := os.ReadFile(f.path("log"))
		require.NoError(t, err)
		assert.Equal(t, "ready\nwatchdog: ran TIME of 2.5 s: ended by SIGINT\n",
			lengths.ReplaceAllString(string(text), "$1 TIME of"))
	})
	t.Run("has above it why the command's calls wait, once", func(t *testing.T) {
		t.Parallel()
		f, m := newFixture(t), serveModels(t, waiting)
		cmd := f.metered(m, "--tokens 1500", "askAll:anthropic+stream", "stay")
		cmd.Stdout, cmd.Stderr = io.Discard, io.Discard
		s := onScreen(t, cmd)
		const says = "watchdog: a call of a model waits for others that are under way"
		s.reads(says)
		close(m.wait)
		assert.NotContains(t, s.end(124), says)
	})
	t.Run("is not there beside the command's output", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		shown := onScreen(t, f.cmd("--wall-clock 1500ms", f.child("say:ready", "stay")...)).end(124)
		assert.NotContains(t, shown, "running for")
	})
	t.Run("is not there beside its standard output only", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		line := strings.Join(f.cmd("--wall-clock 1500ms", f.child("say:ready", "stay")...).Args, "' '")
		cmd := f.cmd("")
		cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", "'" + line + "' 2>log"}
		assert.NotContains(t, onScreen(t, cmd).end(124), "running for")
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
