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
	for _, flags := range []string{"", "-no-output 5m"} {
		t.Run("with the flags "+flags, func(t *testing.T) {
			t.Parallel()
			t.Run("the command reads from it, and Ctrl-C reaches it once", func(t *testing.T) {
				b := newBed(t)
				s := onScreen(t, b.guard(flags, b.play("answer", "count", "exit:5")...))
				s.types("anybody\n")
				s.reads("answer: anybody")
				s.reads("counting")
				s.types(ctrlC)
				s.reads("interrupted")
				s.types("enough\n")
				s.reads("interrupts: 1")
				shown := s.end(5)
				assert.NotContains(t, shown, "interrupted")
				assert.NotContains(t, shown, "guard:", "it is the command's own business")
			})
			t.Run("Ctrl-C ends a command that does not heed it", func(t *testing.T) {
				b := newBed(t)
				s := onScreen(t, b.guard(flags, b.play("leave", "say:ready", "stay")...))
				s.reads("ready")
				s.types(ctrlC)
				s.end(128 + int(syscall.SIGINT))
				assert.Empty(t, escape.WithToken(b.token))
			})
			t.Run("SIGTERM to the guard ends a command that reads from it", func(t *testing.T) {
				b := newBed(t)
				s := onScreen(t, b.guard(flags, b.play("say:ready", "answer")...))
				s.reads("ready")
				require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
				assert.Contains(t, s.end(128+int(syscall.SIGTERM)), "guard: the guard got SIGTERM: the command was ended by SIGINT")
				assert.Empty(t, escape.WithToken(b.token))
			})
		})
	}
	t.Run("a terminal that only the guard is at interrupts the command through it", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		cmd := b.guard("", b.play("say:ready", "stay")...)
		var err error
		cmd.Stdin, err = os.Open(os.DevNull)
		require.NoError(t, err)
		s := onScreen(t, cmd)
		s.reads("ready")
		s.types(ctrlC)
		assert.Contains(t, s.end(128+int(syscall.SIGINT)), "guard: the guard got SIGINT: the command was ended by SIGINT")
	})
}

// A screen is a person at the terminal of a program.
type screen struct {
	*testing.T
	cmd   *exec.Cmd
	file  *os.File
	lines *bufio.Reader
}

// onScreen starts a program at a terminal of its own. Its standard input is the terminal where it has no other.
func onScreen(t *testing.T, cmd *exec.Cmd) *screen {
	t.Helper()
	file, line := openTerminal(t)
	if cmd.Stdin == nil {
		cmd.Stdin = line
	}
	cmd.Stdout, cmd.Stderr = line, line
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 1}
	require.NoError(t, cmd.Start())
	require.NoError(t, line.Close())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return &screen{t, cmd, file, bufio.NewReader(file)}
}

func (s *screen) types(text string) {
	s.Helper()
	_, err := s.file.WriteString(text)
	require.NoError(s, err)
}

// reads reads up to a line that has the text.
func (s *screen) reads(text string) {
	s.Helper()
	var seen strings.Builder
	for !strings.Contains(seen.String(), text) {
		line, err := s.lines.ReadString('\n')
		seen.WriteString(line)
		require.NoErrorf(s, err, "waiting for %q, it printed\n%s", text, &seen)
	}
}

// end waits for the program's end with a status and returns what it printed since the last reading.
func (s *screen) end(code int) string {
	s.Helper()
	rest, err := io.ReadAll(s.lines)
	if !errors.Is(err, syscall.EIO) { // which is how a terminal says that no one is left
		require.NoError(s, err)
	}
	s.cmd.Wait() // its error is in the status
	require.Equalf(s, code, s.cmd.ProcessState.ExitCode(), "exit status; it printed\n%s", rest)
	return string(rest)
}

// openTerminal makes a terminal: what a program writes to line is read from the screen.
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
