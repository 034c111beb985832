//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/escape"
	"github.com/seed62658d38/watchdog/internal/proctree"
)

const (
	changeVariable = "PROCTREE_TEST_CHANGE"
	groupVariable  = "PROCTREE_TEST_GROUP" // names a control group that a host can move to
	nobody         = 65534
)

// changes are what a host in the changing role does to itself between two commands. It is set in init to break an
// initialization cycle.
var changes map[string]func() error

func init() {
	call := func(number, a, b, c uintptr) func() error {
		return func() error { return escape.ChangeThread(number, a, b, c) }
	}
	prctl := func(option, value uintptr) func() error { return call(syscall.SYS_PRCTL, option, value, 0) }
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
		"drops root for a thread": call(syscall.SYS_SETRESUID, nobody, nobody, nobody),
		"joins a group":           func() error { return syscall.Setgroups([]int{nobody}) },
		"takes no new privileges": prctl(38, 1),
		"drops a capability":      prctl(24, 12), // CAP_NET_ADMIN, from the bounding set
		"sets securebits":         prctl(28, 1),  // SECBIT_NOROOT
		"lowers a limit": func() error {
			return syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{Cur: 0, Max: 4096})
		},
		"lowers its priority":  func() error { return beNicer(7) },
		"leaves its host name": func() error { runtime.LockOSThread(); return syscall.Unshare(syscall.CLONE_NEWUTS) },
		"begins a session":     func() error { _, err := syscall.Setsid(); return err },
		"deletes its program":  func() error { self, _ := os.Readlink("/proc/self/exe"); return os.Remove(self) },
		"uses one CPU":         func() error { return useCPUs(1) },
		"has other timers":     prctl(29, 70_000),                          // PR_SET_TIMERSLACK
		"is a batch job":       func() error { return setScheduler(3, 0) }, // SCHED_BATCH
		"drops root and then lowers its priority": func() error {
			return cmp.Or(changes["drops root"](), beNicer(7))
		},
		"is the first to be ended": func() error { return os.WriteFile("/proc/self/oom_score_adj", []byte("500"), 0) },

		// Each of these changes one entry of a profile, so that it shows that the entry is compared. Some need another
		// change first, after which they start a command.
		"has another real user": call(syscall.SYS_SETRESUID, nobody, 0, 0), // with all capabilities
		"has another group":     func() error { return syscall.Setresgid(nobody, nobody, nobody) },
		"has a capability that is inherited": func() error {
			return changeCapabilities(func(c *capabilitySets) { c[0].inheritable |= 1 << capNetAdmin })
		},
		"has an ambient capability": func() error {
			const setAmbient, raise = 47, 2
			if err := cmp.Or(changes["has a capability that is inherited"](), startTrue()); err != nil {
				return err
			}
			_, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, setAmbient, raise, capNetAdmin, 0, 0, 0)
			return asError(errno)
		},
		"has one more filter of system calls": func() error { return cmp.Or(allowCalls(), startTrue(), allowCalls()) },
		"blocks a signal": func() error {
			set := uint64(1) << (syscall.SIGUSR1 - 1)
			_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, 0, uintptr(unsafe.Pointer(&set)), 0, 8, 0, 0)
			return asError(errno)
		},
		"ignores a signal": func() error { signal.Ignore(syscall.SIGHUP); return nil },
		"ignores what stops it": func() error {
			signal.Ignore(syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
			return nil
		},
		"leaves its network":       func() error { return syscall.Unshare(syscall.CLONE_NEWNET) },
		"leaves its shared memory": func() error { return syscall.Unshare(syscall.CLONE_NEWIPC) },
		"leaves its mounts":        func() error { return syscall.Unshare(syscall.CLONE_NEWNS) },
		"leaves its clocks":        func() error { return syscall.Unshare(0x80) }, // CLONE_NEWTIME
		"leaves its control groups": func() error { // twice, because the first also changes the names of the groups
			const newCgroup = 0x02000000
			return cmp.Or(syscall.Unshare(newCgroup), startTrue(), syscall.Unshare(newCgroup))
		},
		"has another root folder": changeRoot,
		"moves to another control group": func() error {
			group := os.Getenv(groupVariable)
			if group == "" {
				return syscall.EROFS
			}
			return os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte("0"), 0)
		},
		"was the first to be ended": func() error {
			const score = "/proc/self/oom_score_adj"
			before, err := os.ReadFile(score)
			return cmp.Or(err, os.WriteFile(score, []byte("500"), 0), startTrue(), os.WriteFile(score, before, 0))
		},
		"has no huge pages":            prctl(41, 1), // PR_SET_THP_DISABLE
		"has addresses in fixed order": call(syscall.SYS_PERSONALITY, 0x0040000, 0, 0),
		"has a keyring of its own":     call(syscall.SYS_KEYCTL, 1, 0, 0),
		"is more urgent": func() error { // SCHED_RR
			return cmp.Or(setScheduler(2, 1), startTrue(), setScheduler(2, 2))
		},
		"has its memory elsewhere": func() error { // MPOL_INTERLEAVE and MPOL_BIND, at the same nodes
			return cmp.Or(setMemoryPolicy(3), startTrue(), setMemoryPolicy(2))
		},
		"lowers the priority of its files": call(syscall.SYS_IOPRIO_SET, 1, 0, 2<<13|7),
	}
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

func asError(errno syscall.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}

// changeAndCompare starts a guarded command, changes this process, and prints for two more guarded commands the
// privileges that they have and those that a command of os/exec has.
func changeAndCompare() error {
	runtime.LockOSThread() // most changes affect only this thread
	if err := exec.Command("/bin/true").Run(); err != nil {
		return err
	}
	if _, err := guardedOutput("/bin/true"); err != nil {
		return err
	}
	if err := changes[os.Getenv(changeVariable)](); isImpossible(err) {
		return errCannotHere
	} else if err != nil {
		return err
	}
	want, err := asSeen(false)
	if err != nil {
		_, guarded := asSeen(true)
		return fmt.Errorf("by os/exec: %w: %s; guarded: %w", err, want, guarded)
	}
	for range 2 {
		got, err := asSeen(true)
		if err != nil {
			return err
		}
		text, _ := json.Marshal([2]string{want, got})
		fmt.Println(string(text))
	}
	return nil
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
	program := forEveryone(t, 0o755)
	for name := range changes {
		if name == "deletes its program" {
			continue
		}
		t.Run("a host that "+name, func(t *testing.T) {
			t.Parallel()
			text, err := again(program, "changing", changeVariable+"="+name, folderVariable+"="+t.TempDir(),
				groupVariable+"="+controlGroup(t, name)).Output()
			skipIfCannot(t, err)
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
			program := forEveryone(t, c.mode)
			require.NoError(t, os.Chmod(filepath.Dir(program), c.folder))
			cmd := exec.Command(program)
			cmd.Env = []string{roleVariable + "=changing", changeVariable + "=" + c.change, quickExit}
			text, err := cmd.Output()
			assert.Equal(t, c.want == "", err == nil, "%s", text)
			assert.Contains(t, string(text), c.want)
		})
	}
}

// forEveryone copies this program, with the given mode, to a place that every user can reach.
func forEveryone(t *testing.T, mode os.FileMode) string {
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
func useAllFiles() error {
	var limit uint64
	var quiet, files int
	if _, err := fmt.Sscan(os.Getenv(limitVariable), &limit, &quiet, &files); err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
		return err
	}
	if err := fillGuard(quiet, files); err != nil {
		return err
	}
	_, err := proctree.Start(sleepWith(int(min(limit-11, 250)))) // at a limit of 256 it fits into no guard
	text, next := guardedOutput("/bin/echo", "A=B")
	fmt.Println(text, err, next)
	return nil
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

func startTrue() error { _, err := guardedOutput("/bin/true"); return err }

const capNetAdmin = 12

// capabilitySets are those of a thread, in two halves.
type capabilitySets [2]struct{ effective, permitted, inheritable uint32 }

func changeCapabilities(change func(*capabilitySets)) error {
	header := struct {
		version uint32
		pid     int32
	}{version: 0x20080522}
	var sets capabilitySets
	to, from := uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&sets))
	if err := escape.ChangeThread(syscall.SYS_CAPGET, to, from, 0); err != nil {
		return err
	}
	change(&sets)
	return escape.ChangeThread(syscall.SYS_CAPSET, to, from, 0)
}

// allowCalls adds a filter that allows each system call to those of the calling thread.
func allowCalls() error { return filterCalls(allowAll) }

// refuseCall has the system refuse a call of the calling thread, and of what it starts, with EPERM.
func refuseCall(number uint32) error {
	const loadNumber, jumpIfEqual, refuse = 0x20, 0x15, 0x00050000
	return filterCalls(
		syscall.SockFilter{Code: loadNumber},
		syscall.SockFilter{Code: jumpIfEqual, K: number, Jf: 1},
		syscall.SockFilter{Code: returnValue, K: refuse | uint32(syscall.EPERM)},
		allowAll,
	)
}

const returnValue = 0x06

var allowAll = syscall.SockFilter{Code: returnValue, K: 0x7fff0000}

func filterCalls(filter ...syscall.SockFilter) error {
	const setSeccomp, modeFilter = 22, 2
	program := syscall.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	return escape.ChangeThread(syscall.SYS_PRCTL, setSeccomp, modeFilter, uintptr(unsafe.Pointer(&program)))
}

func setMemoryPolicy(mode uintptr) error {
	nodes := uint64(1)
	return escape.ChangeThread(syscall.SYS_SET_MEMPOLICY, mode, uintptr(unsafe.Pointer(&nodes)), 64)
}

// changeRoot makes a folder with the content of the root folder the root of the calling thread.
func changeRoot() error {
	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		return err
	}
	if err := cmp.Or(syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""), startTrue()); err != nil {
		return err
	}
	entries, err := os.ReadDir("/")
	root := os.Getenv(folderVariable)
	if err = cmp.Or(err, syscall.Mount("none", root, "tmpfs", 0, "")); err != nil {
		return err
	}
	for _, e := range entries {
		from, to := filepath.Join("/", e.Name()), filepath.Join(root, e.Name())
		if target, err := os.Readlink(from); err == nil {
			err = os.Symlink(target, to)
			if err != nil {
				return err
			}
		} else if e.IsDir() {
			err = cmp.Or(os.Mkdir(to, 0o755), syscall.Mount(from, to, "", syscall.MS_BIND|syscall.MS_REC, ""))
			if err != nil {
				return err
			}
		}
	}
	return cmp.Or(syscall.Chroot(root), syscall.Chdir("/"))
}

// controlGroup returns a new control group for a host that moves to one, empty if it cannot be made here. It is removed
// when all its processes have ended.
func controlGroup(t *testing.T, change string) string {
	if change != "moves to another control group" {
		return ""
	}
	for _, root := range []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err != nil {
			continue
		}
		if group, err := os.MkdirTemp(root, "proctree"); err == nil { //nolint:usetesting // it is no folder
			t.Cleanup(func() {
				require.Eventually(t, func() bool { return os.Remove(group) == nil }, late, 10*time.Millisecond)
			})
			return group
		}
	}
	return ""
}

// isImpossible reports whether a change is impossible with this kernel, or in the sandbox of this test.
func isImpossible(err error) bool {
	return slices.ContainsFunc([]error{syscall.EPERM, syscall.ENOSYS, syscall.EROFS, syscall.EINVAL},
		func(no error) bool { return errors.Is(err, no) })
}

// printed are the fields of /proc/self/status that printPrivileges prints.
var printed = []string{
	"Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Seccomp_filters",
	"SigBlk", "SigIgn", "Cpus_allowed", "THP_enabled",
}

// printPrivileges prints the privileges of this process, so that a test can compare two commands.
func printPrivileges() error {
	printLines("status", func(line string) bool {
		field, _, _ := strings.Cut(line, ":")
		return slices.Contains(printed, field)
	})
	printLines("limits", func(line string) bool { return !strings.HasPrefix(line, "Max file locks") }) // the mark
	for _, name := range []string{"cgroup", "personality", "oom_score_adj"} {
		printLines(name, func(string) bool { return true })
	}
	for _, name := range []string{"cgroup", "ipc", "mnt", "net", "time", "user", "uts"} {
		namespace, _ := os.Readlink("/proc/self/ns/" + name)
		fmt.Println(namespace)
	}
	var root syscall.Stat_t
	_ = syscall.Stat("/", &root)
	var policy, parameter uint64
	for _, call := range [][4]uintptr{
		{syscall.SYS_PRCTL, 27}, // securebits
		{syscall.SYS_PRCTL, 30}, // slack of timers
		{syscall.SYS_SCHED_GETSCHEDULER},
		{syscall.SYS_SCHED_GETPARAM, 0, uintptr(unsafe.Pointer(&parameter))},
		{syscall.SYS_GET_MEMPOLICY, uintptr(unsafe.Pointer(&policy))},
		{syscall.SYS_IOPRIO_GET, 1},
		{syscall.SYS_GETSID},
		{syscall.SYS_KEYCTL, 0, ^uintptr(2)}, // the ID of the session's keyring
	} {
		value, _, _ := syscall.RawSyscall6(call[0], call[1], call[2], call[3], 0, 0, 0)
		fmt.Print(value, " ")
	}
	priority, _ := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	_, shadow := os.ReadFile("/etc/shadow")
	fmt.Println(priority, parameter, uint32(policy), root.Dev, root.Ino, shadow == nil)
	return nil
}

// printLines prints lines of a file of /proc/self.
func printLines(name string, wanted func(line string) bool) {
	text, _ := os.ReadFile("/proc/self/" + name)
	for line := range strings.Lines(string(text)) {
		if wanted(line) {
			fmt.Print(line)
		}
	}
}
