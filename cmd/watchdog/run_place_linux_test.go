//go:build linux

package main_test

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFewDescriptors checks that the error names the limit, and not /proc, which cannot be read then.
func TestFewDescriptors(t *testing.T) {
	f := newFixture(t)
	cmd := f.cmd("", "true")
	limited := exec.Command("/bin/sh", append([]string{"-c", `ulimit -n 8; exec "$@"`, "sh"}, cmd.Args...)...)
	limited.Dir, limited.Env = cmd.Dir, cmd.Env
	o := finish(t, limited).must(t, 125)
	assert.Contains(t, o.stderr, "raise its limit (ulimit -n)")
	assert.NotContains(t, o.stderr, "mount")
}

// TestNoProc has the program where /proc is not mounted, as in a bare chroot.
func TestNoProc(t *testing.T) {
	f := newFixture(t)
	cmd := f.cmd("", "true")
	const mounted = `mount -t tmpfs none /proc && exec "$@"`
	without := exec.Command("/bin/sh", append([]string{"-c", mounted, "sh"}, cmd.Args...)...)
	without.Dir, without.Env = cmd.Dir, cmd.Env
	without.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if os.Getuid() != 0 {
		t.Skip("only root can mount")
	}
	o := finish(t, without).must(t, 125)
	assert.Contains(t, o.stderr, "guarded only where /proc is mounted; mount it with mount -t proc none /proc")
}

// TestNoInterpreter has a file without a first line that says what reads it, which timeout runs by a shell.
func TestNoInterpreter(t *testing.T) {
	f := newFixture(t)
	script := []byte("echo \"$0 $*\" here; kill -TERM $$\n")
	require.NoError(t, os.WriteFile(f.path("script"), script, 0o700)) //nolint:gosec // it must be executable
	for _, flags := range []string{"", "--no-output 1m --store sqlite:runs.db --artifacts state"} {
		o := f.run(flags, "./script", "a b", "-c").must(t, 143)
		assert.Equal(t, outcome{stdout: "./script a b -c here\n", status: 143}, o)
	}
	const dir = "state/command/_stall/"
	require.NoError(t, os.MkdirAll(f.path(dir), 0o700))
	require.NoError(t, os.WriteFile(f.path(dir+"event.json"), nil, 0o600))
	f.run("--artifacts state", "./script").must(t, 143)
	assert.True(t, f.exists(dir+"previous.event.json"), "what the attempt before left is set aside once")
}
