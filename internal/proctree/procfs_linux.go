//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// checkProc returns an error if /proc does not show the processes of a command that the calling thread starts now, by
// the PIDs that this thread would signal. The caller has locked the thread. status is its /proc/thread-self/status.
//
// The package finds processes only in /proc. In the /proc of another PID namespace the same PIDs are other processes.
func checkProc(status []byte) error {
	self, _ := statusField(status, "Tgid")
	ids, known := statusField(status, "NSpid")
	if self != strconv.Itoa(os.Getpid()) || known && len(strings.Fields(ids)) != 1 {
		return fmt.Errorf("%w: /proc belongs to another PID namespace and shows other processes; "+
			"mount this namespace's with unshare --mount-proc, or with mount -t proc none /proc", ErrGuard)
	}
	return checkVisible(status)
}

func noProc(err error) error {
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return fmt.Errorf("%w: the host has too few free descriptors to start a command; raise its limit (ulimit -n): %w",
			ErrGuard, err)
	}
	return fmt.Errorf("%w: commands are guarded only where /proc is mounted; mount it with mount -t proc none /proc, "+
		"after a chroot inside of the new root: %w", ErrGuard, &os.PathError{Op: "open", Path: "/proc/thread-self", Err: err})
}

// checkNextNamespace returns an error if the next child of the thread would be the first of a new PID namespace.
func checkNextNamespace(profile string) error {
	own, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return nil //nolint:nilerr // a kernel without PID namespaces, or a host that dropped root
	}
	if !strings.Contains(profile, "ns/pid_for_children\x00"+own+"\n") {
		return fmt.Errorf("%w: the host has called unshare or setns for a PID namespace, and /proc shows its own one; "+
			"run the host inside of the new namespace, with unshare --fork --pid --mount-proc", ErrGuard)
	}
	return nil
}

// checkVisible returns an error if /proc hides other users' processes from the thread. Such processes belong to a tree
// if it runs set-user-ID programs.
func checkVisible(status []byte) error {
	var at syscall.Stat_t
	if err := syscall.Stat("/proc/1", &at); err != nil {
		return hidden("hides the first process")
	}
	option, group, err := hidepid()
	if err != nil {
		return fmt.Errorf("%w: read how /proc is mounted: %w", ErrGuard, err)
	}
	if option == "" || seesHidden(status, option, group) {
		return nil
	}
	return hidden("is mounted with hidepid=" + option)
}

func hidden(how string) error {
	return fmt.Errorf("%w: /proc %s, so that processes of the command could not be found; "+
		"remount it with mount -o remount,hidepid=0 /proc, or run the host in the group of its option gid", ErrGuard, how)
}

// seesHidden reports whether the thread sees all processes in spite of the option.
func seesHidden(status []byte, option, group string) bool {
	const mayTrace = 19 // CAP_SYS_PTRACE
	value, _ := statusField(status, "CapEff")
	capabilities, _ := strconv.ParseUint(value, 16, 64)
	if capabilities&(1<<mayTrace) != 0 {
		return true
	}
	if group == "" || option == "4" || option == "ptraceable" {
		return false
	}
	groups, _ := statusField(status, "Groups")
	gids, _ := statusField(status, "Gid")
	all := append(strings.Fields(gids), strings.Fields(groups)...)
	return slices.Contains(all, group)
}

// A mountedProc says how a /proc is mounted. The kernel formats all mounts to tell, so the last answer is kept: another
// /proc is another device.
type mountedProc struct {
	device uint64
	option string // hidepid, empty if it hides nothing
	group  string // gid
}

var lastProc atomic.Pointer[mountedProc]

func hidepid() (option, group string, err error) {
	var proc syscall.Stat_t
	if err := syscall.Stat("/proc", &proc); err != nil {
		return "", "", err
	}
	if last := lastProc.Load(); last != nil && last.device == proc.Dev {
		return last.option, last.group, nil
	}
	mounts, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return "", "", err
	}
	m := &mountedProc{device: proc.Dev}
	m.option, m.group = procOptions(mounts)
	lastProc.Store(m)
	return m.option, m.group, nil
}

// procOptions returns the options hidepid and gid of the last mount on /proc.
func procOptions(mounts []byte) (option, group string) {
	for line := range bytes.Lines(mounts) {
		// 25 30 0:23 / /proc rw,nosuid shared:12 - proc none rw,hidepid=invisible
		mount, system, ok := strings.Cut(strings.TrimSpace(string(line)), " - ")
		where, how := strings.Fields(mount), strings.Fields(system)
		if !ok || len(where) < 5 || where[4] != "/proc" || len(how) < 3 || how[0] != "proc" {
			continue
		}
		option, group = "", ""
		for o := range strings.SplitSeq(how[2], ",") {
			name, value, _ := strings.Cut(o, "=")
			switch {
			case name == "hidepid" && value != "0" && value != "off":
				option = value
			case name == "gid":
				group = value
			}
		}
	}
	return option, group
}
