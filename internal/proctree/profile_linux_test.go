//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/proctree"
)

const (
	changeVariable = "PROCTREE_TEST_CHANGE"
	nobody         = 65534
)

// changes are what a host in the changing role does to itself between two commands. It is set in init to break an
// initialization cycle.
var changes map[string]func() error

func init() {
	changes = map[string]func() error{
		"nothing": func() error { return nil },
		"drops root": func() error {
			if err := syscall.Setgroups([]int{nobody}); err != nil {
				return err
			}
			if err := syscall.Setresgid(nobody, nobody, nobody); err != nil {
				return err
			}
			return syscall.Setresuid(nobody, nobody, nobody)
		},
		"drops root for a thread": func() error {
			runtime.LockOSThread() // never unlocked
			_, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, nobody, nobody, nobody)
			return asError(errno)
		},
		"joins a group":           func() error { return syscall.Setgroups([]int{nobody}) },
		"takes no new privileges": func() error { return prctlOfThread(38, 1) },
		"drops a capability":      func() error { return prctlOfThread(24, 12) }, // CAP_NET_ADMIN, from the bounding set
		"sets securebits":         func() error { return prctlOfThread(28, 1) },  // SECBIT_NOROOT
		"lowers a limit": func() error {
			return syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{Cur: 0, Max: 4096})
		},
		"lowers its priority":  func() error { return beNicer(7) },
		"leaves its host name": func() error { runtime.LockOSThread(); return syscall.Unshare(syscall.CLONE_NEWUTS) },
		"begins a session":     func() error { _, err := syscall.Setsid(); return err },
		"deletes its program":  func() error { self, _ := os.Readlink("/proc/self/exe"); return os.Remove(self) },
		"uses one CPU":         func() error { return useCPUs(1) },
		"has other timers":     func() error { return prctlOfThread(29, 70_000) }, // PR_SET_TIMERSLACK
		"is a batch job":       func() error { return setScheduler(3, 0) },        // SCHED_BATCH
		"drops root and then lowers its priority": func() error {
			return cmp.Or(changes["drops root"](), beNicer(7))
		},
		"is the first to be ended": func() error { return os.WriteFile("/proc/self/oom_score_adj", []byte("500"), 0) },
	}
	maps.Copy(changes, changesOfOne())
}

// useCPUs has the calling thread use the CPUs of a mask.
func useCPUs(mask uint64) error {
	_, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, 0, 8, uintptr(unsafe.Pointer(&mask)))
	return asError(errno)
}

// beNicer raises the nice value of the calling thread, which even a host without root can.
func beNicer(by int) error {
	level, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0) // 20 minus the nice value
	return cmp.Or(err, syscall.Setpriority(syscall.PRIO_PROCESS, 0, 20-level+by))
}

func setScheduler(policy uintptr, priority uint64) error {
	_, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_SETSCHEDULER, 0, policy, uintptr(unsafe.Pointer(&priority)))
	return asError(errno)
}

// prctlOfThread changes the calling thread and locks the goroutine to it.
func prctlOfThread(option, value uintptr) error {
	runtime.LockOSThread()
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, option, value, 0, 0, 0, 0)
	return asError(errno)
}

func asError(errno syscall.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}

// changeAndCompare starts a guarded command, changes this process, and prints for two more guarded commands the
// privileges that they have and those that a command of os/exec has.
func changeAndCompare() int {
	runtime.LockOSThread() // most changes affect only this thread
	if err := exec.Command("/bin/true").Run(); err != nil {
		return failed(err)
	}
	if _, err := guardedOutput("/bin/true"); err != nil {
		return failed(err)
	}
	if err := changes[os.Getenv(changeVariable)](); cannotHere(err) {
		return noNamespace
	} else if err != nil {
		return failed(err)
	}
	want, err := asSeen(false)
	if err != nil {
		_, guarded := asSeen(true)
		return failed(fmt.Errorf("by os/exec: %w: %s; guarded: %w", err, want, guarded))
	}
	for range 2 {
		got, err := asSeen(true)
		if err != nil {
			return failed(err)
		}
		text, _ := json.Marshal([2]string{want, got})
		fmt.Println(string(text))
	}
	return 0
}

func failed(err error) int {
	fmt.Println(err)
	return 1
}

func guardedOutput(path string, env ...string) (string, error) {
	out, theirs, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer out.Close()
	tree, err := proctree.Start(proctree.Command{
		Path: path, Args: []string{path}, Env: env, Dir: "/", Files: []*os.File{nil, theirs, theirs},
	})
	theirs.Close()
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(out)
	<-tree.Gone()
	if err == nil && tree.Status().ExitCode != 0 {
		err = fmt.Errorf("exit status %d: %s", tree.Status().ExitCode, text)
	}
	return string(text), err
}

// TestPrivileges checks that a command has exactly the privileges that its host has when it starts it, as with os/exec.
func TestPrivileges(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can drop anything")
	}
	t.Parallel()
	self := forEveryone(t, 0o755)
	for name := range changes {
		if name == "deletes its program" {
			continue
		}
		t.Run("a host that "+name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), roleVariable+"=changing", changeVariable+"="+name)
			cmd.Env = append(cmd.Env, folderVariable+"="+t.TempDir(), groupVariable+"="+controlGroup(t, name))
			text, err := cmd.Output()
			if cmd.ProcessState.ExitCode() == noNamespace {
				t.Skip("the change cannot be made here")
			}
			require.NoError(t, err, "%s", text)
			lines := 0
			for line := range strings.Lines(string(text)) {
				var both [2]string
				require.NoError(t, json.Unmarshal([]byte(line), &both), "%s", line)
				assert.Equal(t, both[0], both[1])
				if strings.HasPrefix(name, "drops root") {
					assert.Contains(t, both[1], "Uid:\t65534\t65534\t65534\t65534\n")
					assert.Contains(t, both[1], "false", "it cannot read what only root can")
				}
				lines++
			}
			assert.Equal(t, 2, lines)
		})
	}
	for _, c := range []struct {
		name, change string
		mode, folder os.FileMode // of the program, and of where it is
		want         string      // a part of the error, empty for none
	}{
		{"a program in a folder that it cannot enter", "drops root", 0o755, 0o700, ""},
		{"a program that was deleted", "deletes its program", 0o755, 0o755, ""},
		{"a program that it cannot execute any more", "drops root", 0o700, 0o755,
			"permission denied; its file must be executable for the user"},
		{"a set-user-ID program, which would get root back", "drops root", 0o755 | os.ModeSetuid, 0o755,
			"clear its set-user-ID"},
	} {
		t.Run("a host of "+c.name, func(t *testing.T) {
			self := forEveryone(t, c.mode)
			require.NoError(t, os.Chmod(filepath.Dir(self), c.folder))
			cmd := exec.Command(self)
			cmd.Env = []string{roleVariable + "=changing", changeVariable + "=" + c.change, quickExit}
			text, err := cmd.Output()
			assert.Equal(t, c.want == "", err == nil, "%s", text)
			assert.Contains(t, string(text), c.want)
		})
	}
}

// forEveryone copies this program, with the given mode, to a place that every user can reach.
func forEveryone(t *testing.T, mode os.FileMode) string {
	self, err := os.Executable()
	require.NoError(t, err)
	text, err := os.ReadFile(self)
	require.NoError(t, err)
	folder, err := os.MkdirTemp("", "privileges") //nolint:usetesting // only its owner can reach t.TempDir
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(folder) })
	require.NoError(t, os.Chmod(folder, 0o755))
	path := filepath.Join(folder, "program")
	// A child that a parallel test starts meanwhile would hold the file open, and it could not be executed.
	syscall.ForkLock.RLock()
	err = os.WriteFile(path, text, 0o700)
	syscall.ForkLock.RUnlock()
	require.NoError(t, err)
	require.NoError(t, os.Chmod(path, mode))
	return path
}

// useAllFiles is a host with few descriptors that starts commands until a guard has no more. It prints what went wrong.
func useAllFiles() int {
	var limit uint64
	var quiet, files int
	if _, err := fmt.Sscan(os.Getenv(limitVariable), &limit, &quiet, &files); err != nil {
		return failed(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
		return failed(err)
	}
	if err := fillGuard(quiet, files); err != nil {
		return failed(err)
	}
	_, err := proctree.Start(sleepWith(int(min(limit-11, 250)))) // at a limit of 256 it fits into no guard
	text, next := guardedOutput("/bin/echo", "A=B")
	fmt.Println(text, err, next)
	return 0
}

// fillGuard starts quiet commands and one with files, and ends them. All must run.
func fillGuard(quiet, files int) error {
	var trees []*proctree.Tree
	for n := range quiet + 1 {
		tree, err := proctree.Start(sleepWith(n / quiet * files))
		if err != nil {
			return fmt.Errorf("command %d: %w", n, err)
		}
		trees = append(trees, tree)
	}
	for _, tree := range trees {
		if !running(tree.PID()) {
			return fmt.Errorf("a command has ended: %w", tree.Err())
		}
	}
	for _, tree := range trees {
		_ = tree.Kill()
		<-tree.Gone()
	}
	return nil
}

func sleepWith(files int) proctree.Command {
	c := proctree.Command{Path: "/bin/sleep", Args: []string{"sleep", "1000"}, Dir: "/"}
	for range files {
		c.Files = append(c.Files, os.Stdin)
	}
	return c
}

// TestNoFreeFiles checks that a guard without free descriptors ends nothing.
func TestNoFreeFiles(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	t.Run("120 commands and one with 60 files, of 256", func(t *testing.T) {
		t.Parallel()
		text := runRole(t, self, "no free files", limitVariable+"=256 120 60")
		assert.Contains(t, text, "it has too few free descriptors for the command")
		assert.Contains(t, text, "<nil>", "the next command starts")
	})
	t.Run("505 commands and one with 40 files, of 1024", func(t *testing.T) {
		t.Parallel()
		text := runRole(t, self, "no free files", limitVariable+"=1024 505 40")
		assert.Equal(t, "<nil> <nil>", text, "a guard that has no more of them leaves the last to another one")
	})
}
