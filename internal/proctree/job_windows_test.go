package proctree_test

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/proctree"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestJobAttr(t *testing.T) {
	const suspended, newConsole, newGroup = 0x4, 0x10, syscall.CREATE_NEW_PROCESS_GROUP
	for _, c := range []struct {
		name             string
		given            uint32
		sameGroup        bool
		flags            uint32
		ownGroup, resume bool
	}{
		{"its own group", 0, false, suspended | newGroup, true, true},
		{"the host's group", 0, true, suspended, false, true},
		{"another console", newConsole, false, suspended | newConsole | newGroup, false, true},
		{"suspended by the caller", suspended, true, suspended, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			given := &syscall.SysProcAttr{HideWindow: true, CreationFlags: c.given}
			attr, ownGroup, resume := proctree.JobAttr(given, c.sameGroup)
			assert.Equal(t, &syscall.SysProcAttr{HideWindow: true, CreationFlags: c.flags}, attr)
			assert.Equal(t, &syscall.SysProcAttr{HideWindow: true, CreationFlags: c.given}, given, "it is not changed")
			assert.Equal(t, []bool{c.ownGroup, c.resume}, []bool{ownGroup, resume})
		})
	}
	attr, _, _ := proctree.JobAttr(nil, true)
	assert.Equal(t, &syscall.SysProcAttr{CreationFlags: suspended}, attr)
}

// files are the three that a process of Windows has: fewer are an invalid argument.
var files = []*os.File{os.Stdin, os.Stdout, os.Stderr}

// start starts a command of the command interpreter.
func start(t *testing.T, line string) *proctree.Tree {
	t.Helper()
	path, err := exec.LookPath("cmd.exe")
	require.NoError(t, err)
	tree, err := proctree.Start(proctree.Command{
		Path: path, Args: []string{"cmd", "/c", line}, Env: os.Environ(), Files: files,
	})
	require.NoError(t, err)
	return tree
}

func within(t *testing.T, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		require.FailNow(t, "too late")
	}
}

func TestJobObject(t *testing.T) {
	const long = "ping -n 100 127.0.0.1"
	t.Run("an exit status", func(t *testing.T) {
		tree := start(t, "exit 7")
		within(t, tree.Gone())
		assert.Equal(t, 7, tree.Status().ExitCode)
	})
	t.Run("a kill ends what a command has started", func(t *testing.T) {
		tree := start(t, long)
		require.Eventually(t, func() bool { n, _ := tree.Signal(0); return n > 1 }, 10*time.Second, time.Millisecond)
		require.NoError(t, tree.Kill())
		within(t, tree.Gone())
		assert.Equal(t, syscall.SIGKILL, tree.Status().Signal)
		assert.NoError(t, tree.Err())
	})
	t.Run("what a command left behind is ended", func(t *testing.T) {
		tree := start(t, "start /b "+long)
		within(t, tree.Exited())
		reached, err := tree.Signal(0)
		require.NoError(t, err)
		assert.Positive(t, reached)
		require.NoError(t, tree.Kill())
		within(t, tree.Gone())
	})
	t.Run("what a command left behind is released", func(t *testing.T) {
		tree := start(t, "start /b ping -n 5 127.0.0.1")
		within(t, tree.Exited())
		require.NoError(t, tree.Release())
		within(t, tree.Gone())
		assert.NoError(t, tree.Err())
	})
	t.Run("no such program", func(t *testing.T) {
		_, err := proctree.Start(proctree.Command{Path: `C:\no\such.exe`, Files: files})
		assert.ErrorIs(t, err, os.ErrNotExist)
	})
}
