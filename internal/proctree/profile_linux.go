//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// A profile is what a process inherits from the thread that starts it: users and groups, capabilities, limits,
// namespaces, root directory and so on. Linux keeps most of these per thread. A profile leaves out what each request
// carries: working directory, umask, descriptors and environment.
//
// A guard keeps the profile of the thread that started it. It starts commands only for threads with the same profile,
// so a command never has more or fewer privileges than its host.
type profile string

// profileFields are the lines of /proc/thread-self/status that are part of a profile.
var profileFields = map[string]bool{
	"Uid": true, "Gid": true, "Groups": true,
	"CapInh": true, "CapPrm": true, "CapEff": true, "CapBnd": true, "CapAmb": true,
	"NoNewPrivs": true, "Seccomp": true, "Seccomp_filters": true,
	"SigIgn": true, "Cpus_allowed": true, "Mems_allowed": true,
}

// threadProfile reads the profile of the calling thread; the caller has locked the thread. It returns an error if
// something cannot be read, because a guard with unknown privileges must not start anything.
func threadProfile() (profile, error) {
	var p bytes.Buffer
	for _, read := range []func(*bytes.Buffer) error{readStatus, readLimits, readNamespaces, readScheduling} {
		if err := read(&p); err != nil {
			return "", fmt.Errorf("%w: read what the command may do: %w; commands are guarded only where /proc is mounted",
				ErrGuard, err)
		}
	}
	return profile(p.String()), nil
}

func readStatus(p *bytes.Buffer) error {
	text, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		return err
	}
	for line := range bytes.Lines(text) {
		if field, _, _ := bytes.Cut(line, []byte{':'}); profileFields[string(field)] {
			p.Write(line)
		}
	}
	securebits, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prGetSecurebits, 0, 0)
	if errno != 0 {
		return fmt.Errorf("securebits: %w", errno)
	}
	fmt.Fprintf(p, "securebits %d\n", securebits)
	return nil
}

// readLimits leaves out the soft limit of RLIMIT_LOCKS, which is the mark.
func readLimits(p *bytes.Buffer) error {
	const limits = 16 // Linux has had 16 since 2.6.25
	for resource := range limits {
		var limit syscall.Rlimit
		if err := syscall.Getrlimit(resource, &limit); err != nil {
			return fmt.Errorf("limit %d: %w", resource, err)
		}
		if resource == rlimitLocks {
			limit.Cur = 0
		}
		fmt.Fprintf(p, "limit %d %d %d\n", resource, limit.Cur, limit.Max)
	}
	return nil
}

// namespaces is fixed, because a host that dropped root cannot list /proc/thread-self/ns.
var namespaces = [...]string{"cgroup", "ipc", "mnt", "net", "pid_for_children", "time_for_children", "user", "uts"}

// readNamespaces reads the namespaces, control groups, root directory, session and security label.
func readNamespaces(p *bytes.Buffer) error {
	for _, namespace := range namespaces {
		name, err := os.Readlink("/proc/thread-self/ns/" + namespace)
		if err != nil && !os.IsNotExist(err) { // older kernels lack some of them
			return err
		}
		fmt.Fprintf(p, "%s %s\n", namespace, name)
	}
	var root syscall.Stat_t
	if err := syscall.Stat("/", &root); err != nil {
		return fmt.Errorf("root folder: %w", err)
	}
	session, _, _ := syscall.RawSyscall(syscall.SYS_GETSID, 0, 0, 0) // cannot fail for the calling process
	fmt.Fprintf(p, "root %d %d\nsession %d\n", root.Dev, root.Ino, session)
	groups, err := os.ReadFile("/proc/thread-self/cgroup")
	if err != nil && !os.IsNotExist(err) { // a kernel can be built without control groups
		return err
	}
	label, _ := os.ReadFile("/proc/thread-self/attr/current") // fails without a security module
	fmt.Fprintf(p, "%s%s\n", groups, strings.TrimSpace(string(label)))
	return nil
}

func readScheduling(p *bytes.Buffer) error {
	priority, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	if err != nil {
		return fmt.Errorf("priority: %w", err)
	}
	killed, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		return err
	}
	fmt.Fprintf(p, "priority %d\noom_score_adj %s", priority, killed)
	return nil
}

// checkSameUser returns an error if the guard has another user or group than the host: executing a set-user-ID program
// again gives it its owner's user ID again.
func checkSameUser(guard int) error {
	own, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		return fmt.Errorf("%w: read the host's user: %w", ErrGuard, err)
	}
	its, err := os.ReadFile("/proc/" + strconv.Itoa(guard) + "/status")
	if err != nil {
		return fmt.Errorf("%w: read the guard's user: %w", ErrGuard, err)
	}
	for _, field := range []string{"Uid", "Gid"} {
		if ours, theirs := realAndEffective(own, field), realAndEffective(its, field); !slices.Equal(ours, theirs) {
			return fmt.Errorf("%w: the host's program, started again, has the %s %v and not the host's %v; "+
				"clear its set-user-ID and set-group-ID bits", ErrGuard, field, theirs, ours)
		}
	}
	return nil
}

// realAndEffective returns the real and the effective ID, which are kept when a program is executed.
func realAndEffective(status []byte, field string) []string {
	value, _ := statusField(status, field)
	ids := strings.Fields(value)
	return ids[:min(len(ids), 2)]
}
