package proctree_test

import (
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/proctree"
)

// jobTree calls test with a tree that is the job, and a function that ends its first process. The time is fake.
func jobTree(t *testing.T, j *proctree.FakeJob, test func(t *testing.T, tree *proctree.Tree, exit func(code int))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		codes := make(chan int, 1)
		tree := proctree.NewJobTree(j, !j.HostsGroup, func() (proctree.Status, error) {
			return proctree.Status{ExitCode: <-codes}, nil
		})
		test(t, tree, func(code int) {
			codes <- code
			<-tree.Exited()
		})
		<-tree.Gone()
		assert.True(t, j.Closed)
		assert.False(t, j.UsedAfterIt)
	})
}

func isGone(tree *proctree.Tree) bool {
	synctest.Wait()
	select {
	case <-tree.Gone():
		return true
	default:
		return false
	}
}

func survivors(tree *proctree.Tree) []int {
	alive, _ := tree.Survivors()
	return alive
}

func TestJob(t *testing.T) {
	t.Run("is gone when the last process has ended, not the first", func(t *testing.T) {
		j := &proctree.FakeJob{Alive: []int{2}}
		jobTree(t, j, func(t *testing.T, tree *proctree.Tree, exit func(int)) {
			exit(7)
			assert.Equal(t, 7, tree.Status().ExitCode)
			time.Sleep(time.Hour)
			assert.False(t, isGone(tree))
			j.Do(func() { j.Alive = nil })
			<-tree.Gone()
			require.NoError(t, tree.Err())
			assert.Zero(t, j.Terminated)
			_, err := tree.Signal(syscall.SIGTERM)
			assert.ErrorIs(t, err, proctree.ErrEnded)
		})
	})
	t.Run("is killed", func(t *testing.T) {
		j := &proctree.FakeJob{Alive: []int{1, 2}}
		jobTree(t, j, func(t *testing.T, tree *proctree.Tree, exit func(int)) {
			require.NoError(t, tree.Kill())
			exit(proctree.KilledCode())
			<-tree.Gone()
			assert.Equal(t, proctree.Status{ExitCode: -1, Signal: syscall.SIGKILL}, tree.Status())
			assert.NoError(t, tree.Kill())
		})
	})
	t.Run("is killed again and again, and tells its survivors", func(t *testing.T) {
		j := &proctree.FakeJob{Alive: []int{1, 2}, Immortal: true}
		jobTree(t, j, func(t *testing.T, tree *proctree.Tree, exit func(int)) {
			exit(0)
			require.NoError(t, tree.Kill())
			assert.Empty(t, survivors(tree))
			time.Sleep(time.Second)
			assert.Equal(t, []int{1, 2}, survivors(tree))
			j.Do(func() { assert.Greater(t, j.Terminated, 10); j.Immortal = false })
			<-tree.Gone()
			assert.Empty(t, survivors(tree))
		})
	})
	t.Run("is released only when the first process has exited", func(t *testing.T) {
		j := &proctree.FakeJob{Alive: []int{1, 2}}
		jobTree(t, j, func(t *testing.T, tree *proctree.Tree, exit func(int)) {
			require.NoError(t, tree.Release())
			assert.False(t, j.Kept)
			exit(0)
			require.NoError(t, tree.Release())
			<-tree.Gone()
			require.NoError(t, tree.Kill())
			assert.True(t, j.Kept)
			assert.Len(t, j.Alive, 2)
			assert.Zero(t, j.Terminated)
		})
	})
	t.Run("is not let go if it would end what is kept", func(t *testing.T) {
		j := &proctree.FakeJob{Alive: []int{2}, KeepErr: errors.New("no")}
		jobTree(t, j, func(t *testing.T, tree *proctree.Tree, exit func(int)) {
			exit(0)
			require.ErrorIs(t, tree.Release(), j.KeepErr)
			assert.False(t, isGone(tree))
			require.NoError(t, tree.Kill())
		})
	})
	t.Run("is lost, and ended, if it cannot be counted", func(t *testing.T) {
		j := &proctree.FakeJob{Alive: []int{2}, CountErr: errors.New("no")}
		jobTree(t, j, func(t *testing.T, tree *proctree.Tree, exit func(int)) {
			exit(0)
			<-tree.Gone()
			require.ErrorIs(t, tree.Err(), j.CountErr)
			assert.Empty(t, j.Alive)
		})
	})
	t.Run("is lost, and ended, if its first process cannot be waited for", func(t *testing.T) {
		j, reason := &proctree.FakeJob{Alive: []int{1}}, errors.New("no")
		tree := proctree.NewJobTree(j, !j.HostsGroup, func() (proctree.Status, error) { return proctree.Status{}, reason })
		<-tree.Gone()
		require.ErrorIs(t, tree.Err(), reason)
		assert.Empty(t, j.Alive)
		assert.Equal(t, -1, tree.Status().ExitCode)
	})
}

func TestJobSignal(t *testing.T) {
	j := &proctree.FakeJob{Alive: []int{1, 2}}
	jobTree(t, j, func(t *testing.T, tree *proctree.Tree, exit func(int)) {
		missed := func(sig syscall.Signal) {
			t.Helper()
			reached, err := tree.Signal(sig)
			var m *proctree.MissedError
			require.ErrorAs(t, err, &m)
			assert.Equal(t, 2, m.Processes)
			assert.Zero(t, reached)
		}
		reached, err := tree.Signal(0)
		require.NoError(t, err)
		assert.Equal(t, 2, reached)
		alive, err := tree.Processes()
		require.NoError(t, err)
		assert.Equal(t, []int{1, 2}, alive)
		require.NoError(t, tree.SignalFirst(0))
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
			reached, err := tree.Signal(sig)
			require.NoError(t, err)
			assert.Equal(t, 1, reached, "the group counts as one")
		}
		assert.Equal(t, 2, j.Breaks)
		missed(syscall.SIGHUP)
		j.Do(func() { j.NoConsole = true })
		missed(syscall.SIGINT)
		j.Do(func() { j.NoConsole = false })
		exit(0)
		missed(syscall.SIGTERM)
		assert.Equal(t, 2, j.Breaks)
		assert.Zero(t, j.Terminated)
		reached, err = tree.Signal(syscall.SIGKILL)
		require.NoError(t, err)
		assert.Equal(t, 2, reached)
	})
}

func TestJobInGroupOfHost(t *testing.T) {
	j := &proctree.FakeJob{Alive: []int{1}, HostsGroup: true}
	jobTree(t, j, func(t *testing.T, tree *proctree.Tree, exit func(int)) {
		_, err := tree.Signal(syscall.SIGINT)
		var missed *proctree.MissedError
		require.ErrorAs(t, err, &missed, "a break would reach the host too")
		assert.Zero(t, j.Breaks)
		exit(0)
		reached, err := tree.Signal(syscall.SIGKILL)
		require.NoError(t, err)
		assert.Equal(t, 1, reached)
	})
}
