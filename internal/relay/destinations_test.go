package relay_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/racing"
)

// A destination is a kind of file or writer that output goes to.
type destination struct {
	name string
	// When finish returns, to has all that was written to w.
	open func(tb testing.TB, to io.Writer) (w io.Writer, finish func())
}

var destinations = []destination{
	{"a writer", func(_ testing.TB, to io.Writer) (io.Writer, func()) { return to, func() {} }},
	{"a pipe", openPipe},
	{"a file", openFile},
	{"a file opened for appending", appendFile},
}

// size returns how many bytes a test passes on.
func (d destination) size() int {
	if strings.Contains(d.name, "file") {
		return racing.Rounds(8<<20, 64<<20) + 5
	}
	return racing.Rounds(32<<20, 10*gib) + 5
}

func openPipe(tb testing.TB, to io.Writer) (io.Writer, func()) {
	tb.Helper()
	r, w, err := os.Pipe()
	require.NoError(tb, err)
	return w, drained(tb, r, w, to)
}

func openFile(tb testing.TB, to io.Writer) (io.Writer, func()) {
	tb.Helper()
	return file(tb, os.O_CREATE|os.O_WRONLY, to)
}

func appendFile(tb testing.TB, to io.Writer) (io.Writer, func()) {
	tb.Helper()
	return file(tb, os.O_CREATE|os.O_WRONLY|os.O_APPEND, to)
}

func drained(tb testing.TB, r, w *os.File, to io.Writer) func() {
	tb.Helper()
	reading := read(r, to)
	return func() {
		require.NoError(tb, w.Close())
		reading.wait(tb)
		require.NoError(tb, r.Close())
	}
}

func file(tb testing.TB, flags int, to io.Writer) (io.Writer, func()) {
	tb.Helper()
	f, err := os.OpenFile(filepath.Join(tb.TempDir(), "output"), flags, 0o600)
	require.NoError(tb, err)
	return f, func() {
		require.NoError(tb, f.Close())
		written, err := os.Open(f.Name())
		require.NoError(tb, err)
		defer written.Close()
		_, err = io.Copy(to, written)
		require.NoError(tb, err)
	}
}
