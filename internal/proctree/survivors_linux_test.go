//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree_test

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/escape"
	"github.com/seed62658d38/watchdog/internal/proctree"
	"github.com/seed62658d38/watchdog/internal/racing"
)

const shortGrace = 20 * time.Millisecond

func TestNothingSurvives(t *testing.T) {
	endings := []struct {
		name    string
		end     func(*testing.T, escape.Scenario)
		ownHost bool // which has no other tree, whatever runs beside it
	}{
		{"a kill", endedByKill, false},
		{"INT, TERM and KILL", endedInSteps, false},
		{"the end of the leader", endedByLeader, false},
		{"SIGKILL to the host", endedByHost, true},
	}
	for _, s := range escape.Scenarios() {
		for _, ending := range endings {
			if s.Processes > 100 && !ending.ownHost && !racing.Long {
				continue // two hundred programs take long
			}
			t.Run(s.Name+" after "+ending.name, func(t *testing.T) {
				if ending.ownHost {
					t.Parallel()
				}
				for range racing.Rounds(1, 5) {
					ending.end(t, s)
				}
			})
		}
	}
}

func endedByKill(t *testing.T, s escape.Scenario) {
	tree, s := begin(t, s)
	before := s.Survivors()
	assert.NotEmpty(t, before, "its processes run")
	endNow(t, tree)
	assert.Empty(t, s.Survivors())
	assert.NoError(t, tree.Err())
}

func endedInSteps(t *testing.T, s escape.Scenario) {
	tree, s := begin(t, s)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		signalAll(t, tree, sig)
		select {
		case <-tree.Gone():
		case <-time.After(shortGrace):
		}
	}
	endNow(t, tree)
	assert.Empty(t, s.Survivors())
}

func endedByLeader(t *testing.T, s escape.Scenario) {
	if s.SurvivesTERM {
		t.Skip("only a kill ends its leader")
	}
	tree, s := begin(t, s)
	if !s.LeaderExits {
		require.NoError(t, syscall.Kill(tree.PID(), syscall.SIGTERM))
	}
	within(t, late, tree.Exited(), "the leader has not ended")
	if s.LeaderExits {
		assert.Equal(t, 0, tree.Status().ExitCode)
	}
	endNow(t, tree)
	assert.Empty(t, s.Survivors())
}

func endedByHost(t *testing.T, s escape.Scenario) {
	s = s.In(t.TempDir())
	path, args, env := s.Command()
	t.Cleanup(s.End)
	host := startHostOf(t, "host", proctree.Command{Path: path, Args: args, Env: env}, os.Stdout)
	require.NoError(t, s.Ready(late))
	guard := guardOf(t, host.Process.Pid)
	require.NoError(t, host.Process.Kill())
	assert.Eventually(t, func() bool { return len(s.Survivors()) == 0 }, late, time.Millisecond)
	assert.Eventually(t, func() bool { return !running(guard) }, late, time.Millisecond,
		"the guard ends after its trees")
	assert.Empty(t, s.Survivors(), "nothing came back")
}

// TestMainThreadEnded checks that signals reach processes that show as zombies because their main thread has ended.
func TestMainThreadEnded(t *testing.T) {
	for name, alive := range map[string]int{
		"a leader without its main thread": 1, "a child without its main thread": 2, "a daemon without its main thread": 1,
	} {
		t.Run(name, func(t *testing.T) {
			tree, s := begin(t, scenario(t, name))
			require.Eventually(t, func() bool { return len(s.Survivors()) == alive }, late, time.Millisecond,
				"those that exit have not ended")
			reached, err := tree.Signal(syscall.SIGTERM)
			require.NoError(t, err)
			assert.Equal(t, alive, reached)
			gone(t, tree)
			assert.Empty(t, s.Survivors())
		})
	}
	t.Run("a stopped one is continued", func(t *testing.T) {
		tree, s := begin(t, scenario(t, "a leader without its main thread"))
		require.NoError(t, syscall.Kill(tree.PID(), syscall.SIGSTOP))
		require.Eventually(t, func() bool { return allStopped(tree.PID()) }, late, time.Millisecond)
		signalAll(t, tree, syscall.SIGTERM)
		gone(t, tree)
		assert.Empty(t, s.Survivors())
	})
}
