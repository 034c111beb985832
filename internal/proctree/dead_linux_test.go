//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMainThreadEnded checks that signals reach processes that show as zombies because their main thread has ended.
func TestMainThreadEnded(t *testing.T) {
	for name, alive := range map[string]int{
		"a leader without its main thread": 1, "a child without its main thread": 2, "a daemon without its main thread": 1,
	} {
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
			t.Run(name+" after "+sig.String(), func(t *testing.T) {
				tree, s := begin(t, scenario(t, name))
				require.Eventually(t, func() bool { return len(s.Survivors()) == alive }, late, time.Millisecond,
					"those that exit have not ended")
				reached, err := tree.Signal(sig)
				require.NoError(t, err)
				assert.Equal(t, alive, reached)
				gone(t, tree)
				assert.Empty(t, s.Survivors())
			})
		}
	}
	t.Run("a stopped one is continued", func(t *testing.T) {
		tree, s := begin(t, scenario(t, "a leader without its main thread"))
		require.NoError(t, syscall.Kill(tree.PID(), syscall.SIGSTOP))
		require.Eventually(t, func() bool { return allStopped(tree.PID()) }, late, time.Millisecond)
		signalAll(t, tree, syscall.SIGTERM)
		gone(t, tree)
		assert.Empty(t, s.Survivors())
	})
	t.Run("it is no survivor of a kill", func(t *testing.T) {
		tree, s := begin(t, scenario(t, "a daemon without its main thread that ignores INT and TERM"))
		signalAll(t, tree, syscall.SIGTERM)
		select {
		case <-tree.Gone():
			assert.Fail(t, "gone while a process is alive")
		case <-time.After(100 * time.Millisecond):
		}
		endNow(t, tree)
		assert.Empty(t, s.Survivors())
	})
}
