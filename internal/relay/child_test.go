package relay_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/internal/relay"
)

// role names the environment variable that makes the test binary a child with one of the roles.
const role = "RELAY_TEST_ROLE"

// gib is a variable because 10*gib as a constant does not fit into a 32-bit int.
var gib = 1 << 30

var roles = map[string]func(n int){
	"count":           func(n int) { count(n, 64<<10) },
	"smallWrites":     func(n int) { count(n, 61) },
	"line":            line,
	"wait":            func(int) { io.Copy(io.Discard, os.Stdin) },
	"background":      func(int) { background("wait") },
	"backgroundFlood": func(int) { background("flood") },
	"flood":           flood,
}

func TestMain(m *testing.M) {
	if do, ok := roles[os.Getenv(role)]; ok {
		n, _ := strconv.Atoi(os.Args[1])
		do(n)
		return
	}
	goleak.VerifyTestMain(m)
}

// child returns this test binary in a role. It is killed when the test ends.
func child(tb testing.TB, name string, n int) *exec.Cmd {
	tb.Helper()
	self, err := os.Executable()
	require.NoError(tb, err)
	cmd := exec.CommandContext(tb.Context(), self, strconv.Itoa(n))
	cmd.Env = append(os.Environ(), role+"="+name, "GORACE=atexit_sleep_ms=0") // or a race build sleeps a second at exit
	cmd.Stderr = os.Stderr
	return cmd
}

// startRelayed starts a child whose output goes through a stream.
func startRelayed(tb testing.TB, cmd *exec.Cmd, cfg relay.Config) *relay.Stream {
	tb.Helper()
	s := stream(tb, cfg)
	cmd.Stdout = s.Child()
	require.NoError(tb, cmd.Start())
	s.Start()
	return s
}

// stream opens a stream.
func stream(tb testing.TB, cfg relay.Config) *relay.Stream {
	tb.Helper()
	s, err := relay.Open(cfg)
	require.NoError(tb, err)
	return s
}

// finishes waits for the child of a stream and for the stream, neither of which fails.
func finishes(t *testing.T, cmd *exec.Cmd, s *relay.Stream) {
	t.Helper()
	require.NoError(t, cmd.Wait())
	require.NoError(t, s.Finish(timeout))
}

// period is no round number, so that the checker notices a lost or moved block of a round size.
const period = 1<<20 - 3

// pattern returns two periods of the random bytes that count writes, so that a period from any offset is one slice.
var pattern = sync.OnceValue(func() []byte {
	once := make([]byte, period)
	rand.NewChaCha8([32]byte{}).Read(once)
	return append(once, once...)
})

// count writes n bytes of the pattern, size at a time.
func count(n, size int) {
	for at := 0; at < n; at += size {
		begin := at % period
		write(pattern()[begin : begin+min(size, n-at)])
	}
}

// line writes one line of n bytes, its newline included.
func line(n int) {
	block := bytes.Repeat([]byte{'x'}, 1<<20)
	for n--; n > 0; n -= len(block) {
		write(block[:min(len(block), n)])
	}
	write([]byte{'\n'})
}

func flood(int) {
	for block := make([]byte, 1<<20); ; {
		write(block)
	}
}

func write(p []byte) {
	if _, err := os.Stdout.Write(p); err != nil {
		os.Exit(3)
	}
}

// background starts a process with the same output, and leaves it behind.
func background(name string) {
	self, _ := os.Executable()
	cmd := exec.Command(self, "0")
	cmd.Env = append(os.Environ(), role+"="+name)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		os.Exit(4)
	}
	write([]byte("left behind\n"))
}

// A checker checks that it gets the bytes that count writes.
type checker struct {
	at  int
	err error
}

func (c *checker) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0 && c.err == nil; {
		begin, n := c.at%period, min(len(rest), period)
		if !bytes.Equal(rest[:n], pattern()[begin:begin+n]) {
			c.err = fmt.Errorf("wrong bytes from %d to %d", c.at, c.at+n)
		}
		c.at, rest = c.at+n, rest[n:]
	}
	return len(p), c.err
}

// A reader reads a whole file in its own goroutine.
type reader struct {
	done sync.WaitGroup
	err  error
}

func read(from io.Reader, to io.Writer) *reader {
	r := &reader{}
	r.done.Go(func() {
		_, r.err = io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, 256<<10))
	})
	return r
}

func (r *reader) wait(tb testing.TB) {
	tb.Helper()
	r.done.Wait()
	require.NoError(tb, r.err)
}

// eventually waits for a condition in another process.
func eventually(tb testing.TB, condition func() bool, what string) {
	tb.Helper()
	require.Eventually(tb, condition, 30*time.Second, time.Millisecond, what)
}

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
	r, w := pipe(tb)
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
