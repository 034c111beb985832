//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree_test

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// groupVariable names a control group that a host can move to.
const groupVariable = "PROCTREE_TEST_GROUP"

// changesOfOne are changes of one entry of a profile each, so that each shows that the entry is compared. Some need
// another change first, after which they start a command.
func changesOfOne() map[string]func() error {
	return map[string]func() error{
		"has another real user": func() error { // with all capabilities
			runtime.LockOSThread()
			_, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, nobody, 0, 0)
			return asError(errno)
		},
		"has another group": func() error { return syscall.Setresgid(nobody, nobody, nobody) },
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
		"has no huge pages":            func() error { return prctlOfThread(41, 1) }, // PR_SET_THP_DISABLE
		"has addresses in fixed order": func() error { return callOne(syscall.SYS_PERSONALITY, 0x0040000, 0, 0) },
		"has a keyring of its own":     func() error { return callOne(syscall.SYS_KEYCTL, 1, 0, 0) },
		"is more urgent": func() error { // SCHED_RR
			return cmp.Or(setScheduler(2, 1), startTrue(), setScheduler(2, 2))
		},
		"has its memory elsewhere": func() error { // MPOL_INTERLEAVE and MPOL_BIND, at the same nodes
			return cmp.Or(setMemoryPolicy(3), startTrue(), setMemoryPolicy(2))
		},
		"lowers the priority of its files": func() error { return callOne(syscall.SYS_IOPRIO_SET, 1, 0, 2<<13|7) },
	}
}

func startTrue() error { _, err := guardedOutput("/bin/true"); return err }

// callOne calls the kernel for the calling thread. Its results are errors or numbers that nobody needs.
func callOne(number, a, b, c uintptr) error {
	_, _, errno := syscall.RawSyscall(number, a, b, c)
	return asError(errno)
}

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
	if err := callOne(syscall.SYS_CAPGET, to, from, 0); err != nil {
		return err
	}
	change(&sets)
	return callOne(syscall.SYS_CAPSET, to, from, 0)
}

// allowCalls adds a filter that allows each system call to those of the calling thread.
func allowCalls() error {
	const setSeccomp, modeFilter, returnValue, allow = 22, 2, 0x06, 0x7fff0000
	filter := []syscall.SockFilter{{Code: returnValue, K: allow}}
	program := syscall.SockFprog{Len: 1, Filter: &filter[0]}
	return callOne(syscall.SYS_PRCTL, setSeccomp, modeFilter, uintptr(unsafe.Pointer(&program)))
}

func setMemoryPolicy(mode uintptr) error {
	nodes := uint64(1)
	return callOne(syscall.SYS_SET_MEMPOLICY, mode, uintptr(unsafe.Pointer(&nodes)), 64)
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

// cannotHere reports whether a change is impossible with this kernel, or in the sandbox of this test.
func cannotHere(err error) bool {
	return slices.ContainsFunc([]error{syscall.EPERM, syscall.ENOSYS, syscall.EROFS, syscall.EINVAL},
		func(no error) bool { return errors.Is(err, no) })
}

// printed are the fields of /proc/self/status that printPrivileges prints.
var printed = []string{
	"Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Seccomp_filters",
	"SigBlk", "SigIgn", "Cpus_allowed", "THP_enabled",
}

// printPrivileges prints the privileges of this process, so that a test can compare two commands.
func printPrivileges() {
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
	os.Exit(0)
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
