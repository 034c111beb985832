//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/escape"
	"github.com/seed62658d38/watchdog/internal/proctree"
	"github.com/seed62658d38/watchdog/internal/racing"
)

func TestMark(t *testing.T) {
	outer, other := proctree.NewMark(0), proctree.NewMark(0)
	inner, second := proctree.NewMark(outer), proctree.NewMark(outer)
	assert.True(t, proctree.Covers(outer, outer))
	assert.True(t, proctree.Covers(outer, inner), "a tree inside of the tree")
	assert.True(t, proctree.Covers(inner, inner))
	assert.False(t, proctree.Covers(inner, outer), "a tree around the tree")
	assert.False(t, proctree.Covers(inner, second), "a tree beside the tree")
	assert.False(t, proctree.Covers(outer, other))
	assert.False(t, proctree.Covers(outer, 0), "no mark")
	assert.False(t, proctree.Covers(inner, 0), "no mark")
}

// TestNestedOrphan checks that an orphan of a guard inside of a tree belongs to the tree while another tree runs.
func TestNestedOrphan(t *testing.T) {
	neighbour := start(t, "sleep", "1000")
	tree, s := begin(t, scenario(t, "a host of its own"))
	guard := guardOf(t, tree.PID())
	require.NoError(t, syscall.Kill(guard, syscall.SIGSTOP)) // or it would end the daemon
	require.NoError(t, syscall.Kill(tree.PID(), syscall.SIGKILL))
	require.NoError(t, syscall.Kill(guard, syscall.SIGKILL))
	within(t, late, tree.Exited(), "the leader has not ended")
	require.Eventually(t, func() bool { return !running(guard) }, late, time.Millisecond)
	for range 2 { // after each answer the outer guard looks whether anything is left
		_, err := tree.Signal(0)
		require.NoError(t, err)
	}
	require.NotEmpty(t, s.Survivors(), "the daemon of the inner host")
	select {
	case <-tree.Gone():
		assert.Fail(t, "gone while a daemon is alive")
	default:
	}
	endNow(t, tree)
	assert.Empty(t, s.Survivors())
	assert.True(t, running(neighbour.PID()))
	endNow(t, neighbour)
}

// TestRepeat checks how often a signal looks for processes that were started meanwhile.
func TestRepeat(t *testing.T) {
	for _, test := range []struct{ most, settledAfter, want int }{{4, 1, 1}, {4, 2, 2}, {4, 4, 4}, {4, 9, 4}} {
		rounds := 0
		proctree.Repeat(test.most, func() bool { rounds++; return rounds == test.settledAfter })
		assert.Equal(t, test.want, rounds)
	}
}

// TestExists checks that a reused PID is another process.
func TestExists(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	require.NoError(t, cmd.Start())
	pid := cmd.Process.Pid
	began := proctree.StartTicks(pid)
	assert.True(t, proctree.Exists(pid, began))
	assert.False(t, proctree.Exists(pid, began-1), "an earlier process with this PID")
	require.NoError(t, cmd.Process.Kill())
	assert.Eventually(t, func() bool { return state(pid) == 'Z' }, late, time.Millisecond)
	assert.True(t, proctree.Exists(pid, began), "a zombie keeps its PID")
	assert.Error(t, cmd.Wait())
	assert.False(t, proctree.Exists(pid, began))
}

// TestWalk checks that a walk finds children without a mark, and children with the mark whose parent it is not.
func TestWalk(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 100 & sleep 100 & wait")
	require.NoError(t, cmd.Start())
	defer cmd.Wait()
	defer cmd.Process.Kill()
	var children []int
	require.Eventually(t, func() bool { children = childrenOf(t, cmd.Process.Pid); return len(children) == 2 },
		late, time.Millisecond)
	t.Cleanup(func() {
		for _, child := range children {
			_ = syscall.Kill(child, syscall.SIGKILL)
		}
	})
	found, complete := proctree.Walk(proctree.NewMark(0), cmd.Process.Pid)
	assert.Equal(t, append([]int{cmd.Process.Pid}, children...), found)
	assert.True(t, complete)
}

// TestGuardAndHostKilled checks that the first process of a tree ends even if guard and host are killed together.
func TestGuardAndHostKilled(t *testing.T) {
	t.Parallel()
	s := escape.Crowd(0).In(t.TempDir())
	path, args, env := s.Command()
	text, err := json.Marshal(proctree.Command{Path: path, Args: args, Env: env})
	require.NoError(t, err)
	host := again(t, "host", commandVariable+"="+string(text))
	require.NoError(t, host.Start())
	t.Cleanup(s.End)
	defer host.Wait()
	defer host.Process.Kill()
	require.NoError(t, s.Ready(late))
	guard := guardOf(t, host.Process.Pid)
	require.NoError(t, syscall.Kill(guard, syscall.SIGSTOP))
	require.NoError(t, host.Process.Kill())
	require.NoError(t, syscall.Kill(guard, syscall.SIGKILL))
	assert.Eventually(t, func() bool { return len(s.Survivors()) == 0 }, late, time.Millisecond)
}

// TestRelay checks that a tree is not gone as long as it consists of processes that each start the next and exit.
func TestRelay(t *testing.T) {
	script := filepath.Join(t.TempDir(), "relay")
	require.NoError(t, os.WriteFile(script, []byte(`sh "$0" &`), 0o600))
	for range racing.Rounds(1, 20) {
		neighbour := start(t, "sleep", "1000")
		tree := start(t, "sh", script)
		within(t, late, tree.Exited(), "the leader has not ended")
		missed := 0
		for range 2000 {
			if _, err := tree.Signal(0); err != nil {
				missed++
			}
		}
		assert.Less(t, missed, 2, "it looks again for what was started meanwhile")
		select {
		case <-tree.Gone():
			require.Fail(t, "gone while a process is alive")
		case <-time.After(racing.Rounds(200*time.Millisecond, time.Second)):
		}
		endNow(t, tree)
		endNow(t, neighbour)
	}
}

func childrenOf(t *testing.T, pid int) (all []int) {
	t.Helper()
	id := strconv.Itoa(pid)
	text, err := os.ReadFile("/proc/" + id + "/task/" + id + "/children")
	require.NoError(t, err)
	for child := range strings.FieldsSeq(string(text)) {
		all = append(all, atoi(t, child))
	}
	return all
}
