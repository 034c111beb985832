package relay_test

import (
	"bytes"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/relay"
)

// TestIdle checks that streams of silent children hold no buffers, before and after an output.
func TestIdle(t *testing.T) {
	const streams = 200
	before := heap()
	var open []*relay.Stream
	seen := make(chan struct{}, streams)
	for range streams {
		s, err := relay.Open(relay.Config{To: &bytes.Buffer{}, Seen: func(int) { seen <- struct{}{} }})
		require.NoError(t, err)
		fd, err := syscall.Dup(int(s.Child().Fd()))
		require.NoError(t, err)
		writer := os.NewFile(uintptr(fd), "writer")
		s.Start()
		_, err = writer.WriteString("x")
		require.NoError(t, err)
		t.Cleanup(func() { _ = writer.Close() })
		open = append(open, s)
	}
	for range streams {
		<-seen
	}
	require.Eventually(t, func() bool { return heap() < before+streams*(64<<10) }, time.Minute, 10*time.Millisecond)
	for _, s := range open {
		require.NoError(t, s.Finish(time.Minute))
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC() // a pool keeps what it has for one collection
	var is runtime.MemStats
	runtime.ReadMemStats(&is)
	return is.HeapAlloc
}
