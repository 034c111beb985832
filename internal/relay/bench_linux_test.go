package relay_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/relay"
)

// BenchmarkOutput relays 1 GiB, in blocks of 1 MiB, from a child to /dev/null and to a process that reads a pipe.
func BenchmarkOutput(b *testing.B) {
	ways := []struct {
		name string
		run  func(*testing.B, *exec.Cmd, *os.File)
	}{
		{"relay", spliced},
		{"relay with Look", withLook},
		{"relay to a writer", written},
		{"cmd.Stdout = io.Writer", assigned},
		{"splice alone", spliceAlone},
	}
	for _, way := range ways {
		b.Run("to null/"+way.name, func(b *testing.B) {
			null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
			require.NoError(b, err)
			defer null.Close()
			outputs(b, func(cmd *exec.Cmd) { way.run(b, cmd, null) })
		})
		b.Run("to a pipe/"+way.name, func(b *testing.B) {
			r, w := blockingPipe(b)
			drain := child(b, "drain", 0)
			drain.Stdin = r
			require.NoError(b, drain.Start())
			require.NoError(b, r.Close())
			outputs(b, func(cmd *exec.Cmd) { way.run(b, cmd, w) })
			require.NoError(b, w.Close())
			require.NoError(b, drain.Wait())
		})
	}
}

func outputs(b *testing.B, run func(cmd *exec.Cmd)) {
	b.Helper()
	const size = 1 << 30
	b.SetBytes(size)
	before := used(b)
	for b.Loop() {
		run(child(b, "blocks", size))
	}
	b.ReportMetric(float64((used(b)-before).Milliseconds())/float64(b.N), "own-cpu-ms/op")
}

// used returns the CPU time of this process. Unlike the throughput, it does not depend on other load.
func used(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func stream(b *testing.B, cmd *exec.Cmd, cfg relay.Config) {
	b.Helper()
	s := startRelayed(b, cmd, cfg)
	require.NoError(b, cmd.Wait())
	require.NoError(b, s.Finish(timeout))
}

func spliced(b *testing.B, cmd *exec.Cmd, to *os.File) {
	b.Helper()
	stream(b, cmd, relay.Config{To: to})
}

func withLook(b *testing.B, cmd *exec.Cmd, to *os.File) {
	b.Helper()
	stream(b, cmd, relay.Config{To: to, Look: func([]byte) {}})
}

func written(b *testing.B, cmd *exec.Cmd, to *os.File) {
	b.Helper()
	stream(b, cmd, relay.Config{To: struct{ io.Writer }{to}})
}

func assigned(b *testing.B, cmd *exec.Cmd, to *os.File) {
	b.Helper()
	cmd.Stdout = struct{ io.Writer }{to}
	require.NoError(b, cmd.Run())
}

// spliceAlone is the upper bound: the same pipe, and a loop that only splices.
func spliceAlone(b *testing.B, cmd *exec.Cmd, to *os.File) {
	b.Helper()
	r, w := blockingPipe(b)
	const setPipeSize = 1031
	_, _, errno := syscall.Syscall(syscall.SYS_FCNTL, r.Fd(), setPipeSize, 1<<20)
	require.Zero(b, errno)
	cmd.Stdout = w
	require.NoError(b, cmd.Start())
	require.NoError(b, w.Close())
	for {
		n, err := syscall.Splice(int(r.Fd()), nil, int(to.Fd()), nil, 1<<20, 0)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		require.NoError(b, err)
		if n == 0 {
			break
		}
	}
	require.NoError(b, cmd.Wait())
	require.NoError(b, r.Close())
}

// BenchmarkStream measures a stream without output.
func BenchmarkStream(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		s, err := relay.Open(relay.Config{})
		require.NoError(b, err)
		s.Start()
		require.NoError(b, s.Finish(timeout))
	}
}
