//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/proctree"
)

const placeVariable = "PROCTREE_TEST_PLACE"

// TestProc checks that commands start only where /proc shows their processes.
func TestProc(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make the places")
	}
	t.Parallel()
	const (
		newPID = syscall.CLONE_NEWPID
		newNS  = syscall.CLONE_NEWNS
	)
	for _, test := range []struct {
		place string
		flags uintptr
		want  string // part of the error; empty if the command starts
	}{
		{"as it is", 0, ""},
		{"as it is", newPID, "/proc belongs to another PID namespace"},
		{"proc", newPID | newNS, ""},
		{"proc", newNS, ""},
		{"no proc", newNS, "mount -t proc none /proc"},
		{"chroot", 0, "after a chroot inside of the new root"},
		{"unshare", 0, "the host has called unshare"},
		{"proc of a namespace that ended", newNS, "/proc"},
		{"hidepid=1 root", newNS, ""},
		{"hidepid=2 root", newNS, ""},
		{"hidepid=1", newNS, "hidepid"},
		{"hidepid=2", newNS, "remount it with mount -o remount,hidepid=0 /proc"},
		{"hidepid=2,gid=65534", newNS, ""},
		{"hidepid=4", newNS, "hidepid"},
		{"hidepid=0", newNS, ""},
		{"hidepid=2", newPID | newNS, "hidepid"}, // what the host sees there it owns
	} {
		t.Run(fmt.Sprintf("%s, flags %x", test.place, test.flags), func(t *testing.T) {
			t.Parallel()
			cmd := again(t, "place", placeVariable+"="+test.place, "PROCTREE_TEST_FOLDER="+t.TempDir())
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: test.flags}
			var out bytes.Buffer
			cmd.Stdout = &out
			err := cmd.Run()
			var failed *exec.ExitError
			if errors.As(err, &failed) && failed.ExitCode() == noNamespace || errors.Is(err, syscall.EPERM) {
				t.Skipf("cannot make the place here: %v", err)
			}
			require.NoError(t, err)
			if test.want == "" {
				assert.Empty(t, out.String())
				return
			}
			assert.Contains(t, out.String(), test.want)
			assert.Contains(t, out.String(), proctree.ErrGuard.Error())
		})
	}
}

// startInPlace goes to a place, runs a command there, and prints the error of its start.
func startInPlace() int {
	runtime.LockOSThread()
	if err := goTo(os.Getenv(placeVariable)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return noNamespace
	}
	tree, err := proctree.Start(proctree.Command{Path: "/bin/sleep", Args: []string{"sleep", "1000"}})
	if err != nil {
		fmt.Println(err)
		return 0
	}
	err = errors.Join(tree.Kill(), waitFor(tree.Gone()))
	if os.Getuid() == 0 { // or it cannot write to the folder; it may be the first process of its namespace
		err = errors.Join(err, killShapes())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func goTo(place string) error {
	mountProc := func(options string) error {
		return errors.Join(
			syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
			syscall.Mount("proc", "/proc", "proc", 0, options),
		)
	}
	switch {
	case place == "as it is":
		return nil
	case place == "proc":
		return mountProc("")
	case place == "no proc":
		return errors.Join(syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
			syscall.Mount("none", "/proc", "tmpfs", 0, ""))
	case place == "chroot":
		return syscall.Chroot(os.Getenv("PROCTREE_TEST_FOLDER"))
	case place == "unshare":
		return syscall.Unshare(syscall.CLONE_NEWPID)
	case place == "proc of a namespace that ended":
		sh := exec.Command("mount", "-t", "proc", "proc", "/proc")
		sh.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
		return errors.Join(syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""), sh.Run())
	case strings.HasSuffix(place, " root"):
		return mountProc(strings.TrimSuffix(place, " root"))
	default:
		return errors.Join(mountProc(place), syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody))
	}
}

func waitFor(done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-time.After(late):
		return fmt.Errorf("not gone after %v", late)
	}
}

// TestLongFile checks that a file of /proc is read to its end, of which a read returns a page at most.
func TestLongFile(t *testing.T) {
	const name = "/proc/kallsyms"
	want, err := os.ReadFile(name)
	if err != nil || len(want) < 64<<10 {
		t.Skipf("no long file of /proc here: %v", err)
	}
	got, err := proctree.ReadFileAt(0, name)
	require.NoError(t, err)
	assert.True(t, bytes.Equal(want, got), "%d of %d bytes", len(got), len(want))
}
