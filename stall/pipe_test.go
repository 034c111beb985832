package stall_test

import (
	"io"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/stall"
)

// TestOutputPipe checks what a pipe holds for a host that does not read.
func TestOutputPipe(t *testing.T) {
	t.Parallel()
	const held, last = 64 << 10, 2 << 20
	t.Run("after the end of the command 2 MiB in all, and the writer is told that the rest is dropped", func(t *testing.T) {
		t.Parallel()
		p := stall.NewOutputPipe()
		n, err := p.Write(make([]byte, held))
		require.NoError(t, err)
		require.Equal(t, held, n)
		p.End()
		n, err = p.Write(make([]byte, last))
		require.ErrorIs(t, err, io.ErrShortWrite)
		require.Equal(t, last-held, n)
		p.Finish()
		_, err = p.Write([]byte("x"))
		require.ErrorIs(t, err, io.ErrClosedPipe)
		text, err := io.ReadAll(p)
		require.NoError(t, err)
		require.Len(t, text, last)
	})
	for name, end := range map[string]func(stall.OutputPipe){
		"the command": stall.OutputPipe.End, "the output": stall.OutputPipe.Finish,
		"the host's use": func(p stall.OutputPipe) { _ = p.Close() },
	} {
		t.Run("a write that waits ends with "+name, func(t *testing.T) {
			untilEnd(t, end, func(p stall.OutputPipe) {
				_, _ = p.Write(make([]byte, held))
				_, _ = p.Write([]byte("x"))
			})
		})
		if name != "the command" { // of which more output can be on its way
			t.Run("a read that waits ends with "+name, func(t *testing.T) {
				untilEnd(t, end, func(p stall.OutputPipe) { _, _ = p.Read(make([]byte, 1)) })
			})
		}
	}
}

// untilEnd checks that a call waits, and returns after the end.
func untilEnd(t *testing.T, end, call func(stall.OutputPipe)) {
	synctest.Test(t, func(t *testing.T) {
		p := stall.NewOutputPipe()
		returned := make(chan struct{})
		go func() {
			defer close(returned)
			call(p)
		}()
		synctest.Wait()
		select {
		case <-returned:
			require.Fail(t, "it did not wait")
		default:
		}
		end(p)
		<-returned
	})
}
