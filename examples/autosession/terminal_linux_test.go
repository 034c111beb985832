package main_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const eraseLine = "\r\x1b[K"

func TestTerminal(t *testing.T) {
	t.Parallel()
	const width = 40
	f := newFixture(t)
	f.env = append(f.env, "TERM=xterm")
	shown := onTerminal(t, f, width, "-budget", "2500ms", "-hang", "plan")

	t.Run("the live line shows the phase, the elapsed and the remaining time each second", func(t *testing.T) {
		drawn := drawings(shown)
		assert.GreaterOrEqual(t, len(drawn), 3)
		assert.Regexp(t, `^plan +1 of 4, 0s elapsed, [1-3]s left`, drawn[0])
		assert.Regexp(t, `^plan +1 of 4, \ds elapsed, (1s|nothing)`, drawn[len(drawn)-1])
	})
	t.Run("it is never as wide as the terminal", func(t *testing.T) {
		for _, line := range drawings(shown) {
			assert.Less(t, utf8.RuneCountInString(line), width)
		}
	})
	t.Run("it is erased at the end, and the permanent lines remain", func(t *testing.T) {
		stays := onScreen(shown)
		assert.NotContains(t, stays, "1 of 4")
		assert.Contains(t, stays, "\nwarning: 80% of the budget of 2.5s is used")
		assert.Contains(t, stays, "\nBLOCKED in phase plan: watchdog_wall_clock_exceeded\n")
	})
	t.Run("a terminal without a cursor gets plain lines", func(t *testing.T) {
		f.env = append(f.env, "TERM=dumb")
		assert.NotContains(t, onTerminal(t, f, width, "-resume", "-budget", "1h"), "\x1b")
	})
}

// drawings returns the live lines: the text before each erase.
func drawings(shown string) []string {
	var drawn []string
	for part := range strings.SplitSeq(shown, eraseLine) {
		if line := part[strings.LastIndexByte(part, '\n')+1:]; line != "" {
			drawn = append(drawn, line)
		}
	}
	return drawn
}

// onScreen returns the text that remains on the screen, without erased lines.
func onScreen(shown string) string {
	var left strings.Builder
	for line := range strings.Lines(shown) {
		left.WriteString(line[strings.LastIndex(line, eraseLine)+1:])
	}
	return strings.ReplaceAll(left.String(), "\x1b[K", "")
}

// onTerminal runs the program on a terminal and returns everything it wrote there.
func onTerminal(t *testing.T, f *fixture, width uint16, flags ...string) string {
	t.Helper()
	screen, line := openTerminal(t, width)
	cmd := f.command(flags...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = line, line, line
	require.NoError(t, cmd.Start())
	require.NoError(t, line.Close())
	var shown bytes.Buffer
	if _, err := io.Copy(&shown, screen); !errors.Is(err, syscall.EIO) { // EIO: the last writer has closed the terminal
		require.NoError(t, err)
	}
	cmd.Wait() // a blocked session exits with 3
	return strings.ReplaceAll(shown.String(), "\r\n", "\n")
}

// openTerminal opens a pseudo-terminal: what the program writes to line is read from screen.
func openTerminal(t *testing.T, width uint16) (screen, line *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { screen.Close() })
	fd := int(screen.Fd())
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: width}))
	line, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	return screen, line
}
