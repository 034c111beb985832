//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// A profile is what a process inherits from the thread that starts it: users and groups, capabilities, limits,
// namespaces, root directory and so on. Linux keeps most of these per thread. A profile leaves out what each request
// carries: working directory, umask, descriptors, environment and [scheduling].
//
// A guard keeps the profile of the thread that started it. It starts commands only for threads with the same profile,
// so a command never has more or fewer privileges than its host.
type profile string

// profileFields are the lines of /proc/thread-self/status that are part of a profile. TestPrivileges shows each but
// these: CapPrm and CapEff do not outlive the execution of a program, so that no command differs by them alone. Seccomp
// changes together with Seccomp_filters, which kernels before 5.9 lack. Mems_allowed changes only on a machine with
// several memory nodes.
var profileFields = map[string]bool{
	"Uid": true, "Gid": true, "Groups": true,
	"CapInh": true, "CapPrm": true, "CapEff": true, "CapBnd": true, "CapAmb": true,
	"NoNewPrivs": true, "Seccomp": true, "Seccomp_filters": true,
	"SigBlk": true, "SigIgn": true, "Mems_allowed": true,
}

// A caller is what a command has from the thread that starts it.
type caller struct {
	profile    profile
	umask      int
	scheduling scheduling
	status     []byte // the thread's /proc status
}

// readCaller reads the calling thread; the caller has locked it. It returns an error if something cannot be read,
// because a guard with unknown privileges must not start anything.
func readCaller() (*caller, error) {
	c := &caller{umask: 0o22}
	switch err := c.read(); {
	case err == nil:
		return c, nil
	case errors.Is(err, ErrGuard):
		return nil, err
	default:
		return nil, fmt.Errorf("%w: read what the command may do: %w", ErrGuard, err)
	}
}

func (c *caller) read() (err error) {
	thread, err := openAt(atCurrentFolder, "/proc/thread-self", openPath|syscall.O_DIRECTORY)
	if err != nil {
		return noProc(err)
	}
	defer syscall.Close(thread) //nolint:errcheck // nothing was written
	p := make([]byte, 0, 4<<10)
	if p, err = c.readStatus(p, thread); err != nil {
		return noProc(err)
	}
	if p, err = appendLimits(p); err != nil {
		return err
	}
	if p, err = appendNamespaces(p, thread); err != nil {
		return err
	}
	c.profile = profile(appendAttributes(p))
	c.scheduling, err = readScheduling()
	return err
}

// readStatus reads the umask and appends the lines of profileFields. The umask is read from /proc, because the system
// call returns it only when it changes it.
func (c *caller) readStatus(p []byte, thread int) (_ []byte, err error) {
	if c.status, err = appendFileAt(make([]byte, 0, 3<<10), thread, "status"); err != nil {
		return nil, err
	}
	for line := range bytes.Lines(c.status) {
		if field, _, _ := bytes.Cut(line, []byte{':'}); profileFields[string(field)] {
			p = append(p, line...)
		}
	}
	if value, ok := statusField(c.status, "Umask"); ok { // since Linux 4.7
		mask, err := strconv.ParseInt(value, 8, 32)
		if err != nil {
			return nil, fmt.Errorf("umask: %w", err)
		}
		c.umask = int(mask)
	}
	return p, nil
}

// appendLimits leaves out the soft limit of RLIMIT_LOCKS, which is the mark.
func appendLimits(p []byte) ([]byte, error) {
	var limits [16]syscall.Rlimit // Linux has had 16 since 2.6.25
	for resource := range limits {
		limit, err := limitOf(0, resource)
		if err != nil {
			return nil, fmt.Errorf("limit %d: %w", resource, err)
		}
		limits[resource] = limit
	}
	limits[rlimitLocks].Cur = 0
	return append(p, unsafe.Slice((*byte)(unsafe.Pointer(&limits)), unsafe.Sizeof(limits))...), nil
}

// namespaces is fixed, because a host that dropped root cannot list /proc/thread-self/ns.
// Each name ends with a NUL, as the system call takes it. TestPrivileges shows each but two: a program with several
// threads cannot leave its user namespace, and in another PID namespace for children os/exec can start only one
// command, with which that namespace ends.
var namespaces = [...]string{
	"ns/cgroup\x00", "ns/ipc\x00", "ns/mnt\x00", "ns/net\x00", "ns/pid_for_children\x00",
	"ns/time_for_children\x00", "ns/user\x00", "ns/uts\x00",
}

// appendNamespaces reads the namespaces, control groups, root directory, session and security label.
func appendNamespaces(p []byte, thread int) ([]byte, error) {
	var name [128]byte
	for _, namespace := range namespaces {
		n, err := readLinkAt(thread, namespace, name[:])
		if err != nil && !errors.Is(err, syscall.ENOENT) { // older kernels lack some of them
			return nil, fmt.Errorf("%s: %w", namespace, err)
		}
		p = append(append(append(p, namespace...), name[:n]...), '\n')
	}
	var root syscall.Stat_t
	if err := syscall.Stat("/", &root); err != nil {
		return nil, fmt.Errorf("root folder: %w", err)
	}
	session, _, _ := syscall.RawSyscall(syscall.SYS_GETSID, 0, 0, 0) // cannot fail for the calling process
	p = appendNumbers(p, "root", root.Dev, root.Ino)
	p = appendNumbers(p, "session", uint64(session))
	groups, err := appendFileAt(p, thread, "cgroup")
	switch {
	case err == nil:
		p = groups
	case !errors.Is(err, syscall.ENOENT): // a kernel can be built without control groups
		return nil, fmt.Errorf("control groups: %w", err)
	}
	label, _ := readFileAt(thread, "attr/current") // fails without a security module; no test has one
	return append(append(p, bytes.TrimSpace(label)...), '\n'), nil
}

// appendAttributes reads what has a system call of its own. A kernel or a sandbox without one of the calls says so in
// the same way each time, so an error is a value like any other.
func appendAttributes(p []byte) []byte {
	const (
		getSecurebits, getTimerSlack, getTHPDisable = 27, 30, 42
		sessionKeyring                              = ^uintptr(2) // -3
		currentPersonality                          = 0xffffffff
	)
	var policy struct {
		parameter uint64
		mode      int64
		nodes     [16]uint64 // for 1024 nodes; no test has more than one
	}
	for _, call := range [...]struct{ number, a, b, c uintptr }{
		{syscall.SYS_PRCTL, getSecurebits, 0, 0},
		{syscall.SYS_PRCTL, getTimerSlack, 0, 0},
		{syscall.SYS_PRCTL, getTHPDisable, 0, 0},
		{syscall.SYS_PERSONALITY, currentPersonality, 0, 0},
		{syscall.SYS_KEYCTL, 0, sessionKeyring, 0}, // its ID
		{syscall.SYS_SCHED_GETSCHEDULER, 0, 0, 0},
		{syscall.SYS_SCHED_GETPARAM, 0, uintptr(unsafe.Pointer(&policy.parameter)), 0},
		{syscall.SYS_GET_MEMPOLICY, uintptr(unsafe.Pointer(&policy.mode)), uintptr(unsafe.Pointer(&policy.nodes)), 1024},
	} {
		value, _, errno := syscall.RawSyscall6(call.number, call.a, call.b, call.c, 0, 0, 0)
		p = appendNumbers(p, "call", uint64(call.number), uint64(value), uint64(errno))
	}
	p = appendNumbers(p, "policy", policy.parameter, uint64(policy.mode))
	p = appendNumbers(p, "nodes", policy.nodes[:]...)
	return appendNumbers(p, "io priority", uint64(ioPriority()))
}

// ioPriority returns the priority of the thread's input and output, 0 if it follows from its nice value.
func ioPriority() uintptr {
	const ofProcess, bestEffort = 1, 2 << 13
	value, _, errno := syscall.RawSyscall(syscall.SYS_IOPRIO_GET, ofProcess, 0, 0)
	level, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	if errno != 0 || err != nil || value == uintptr(bestEffort|(40-level)/5) {
		return 0
	}
	return value
}

func appendNumbers(p []byte, name string, values ...uint64) []byte {
	p = append(p, name...)
	for _, value := range values {
		p = strconv.AppendUint(append(p, ' '), value, 10)
	}
	return append(p, '\n')
}

// checkExecuted returns an error if executing the host's program again gave the guard a user, a group or a capability
// that executing any other program would not: a set-user-ID program has its owner's user ID again, and a program with
// capabilities of its own has those.
func checkExecuted(host, guard []byte) error {
	for _, field := range []string{"Uid", "Gid"} {
		if ours, its := realAndEffective(host, field), realAndEffective(guard, field); !slices.Equal(ours, its) {
			return fmt.Errorf("%w: the host's program, started again, has the %s %v and not the host's %v; "+
				"clear its set-user-ID and set-group-ID bits", ErrGuard, field, its, ours)
		}
	}
	if its := capabilities(guard, "CapPrm"); its&^mostCapabilities(guard) != 0 {
		return fmt.Errorf("%w: the host's program, started again, has the capabilities %x of its file; "+
			"clear them with setcap -r", ErrGuard, its)
	}
	return nil
}

// mostCapabilities returns the capabilities that a process can have after it executed a program without any of its own.
func mostCapabilities(status []byte) uint64 {
	most := capabilities(status, "CapAmb")
	if slices.Contains(realAndEffective(status, "Uid"), "0") {
		most |= capabilities(status, "CapInh") | capabilities(status, "CapBnd")
	}
	return most
}

func capabilities(status []byte, field string) uint64 {
	value, _ := statusField(status, field)
	set, _ := strconv.ParseUint(value, 16, 64) // 0 if the kernel has no such field
	return set
}

// realAndEffective returns the real and the effective ID, which are kept when a program is executed.
func realAndEffective(status []byte, field string) []string {
	value, _ := statusField(status, field)
	ids := strings.Fields(value)
	return ids[:min(len(ids), 2)]
}

// An Origin is what the thread that starts a command may do. Other commands are started later on behalf of the first
// one, by whatever thread the Go runtime has at hand: it bounds what they get. See [Command].For.
type Origin struct {
	caller *caller
	shared bool // other threads of the host may do the same
}

var (
	errOwnThread = errors.New("the command that it is for was started by a thread with privileges of its own, which " +
		"other threads of the host do not have; give them to the whole process, " +
		"or start the command from a thread like all others")
	errGained = errors.New("the host may do more now than when it started the command that it is for; " +
		"start the command with the users, groups and capabilities that it is to keep")
)

// ReadOrigin reads what the calling thread may do. It wraps [ErrGuard] if that cannot be read.
func ReadOrigin() (*Origin, error) {
	own, err := readThread()
	if err != nil {
		return nil, err
	}
	// A goroutine of its own runs on a thread that nobody has locked.
	other, read := (*caller)(nil), make(chan error)
	go func() {
		var err error
		other, err = readThread()
		read <- err
	}()
	if err := <-read; err != nil {
		return nil, err
	}
	return &Origin{caller: own, shared: own.profile == other.profile}, nil
}

func readThread() (*caller, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return readCaller()
}

// check returns an error if the calling thread may do more than the origin. Profiles have no order. But if the whole
// process had the origin's, a later one came from it, and can have more only by a user, a group or a capability.
func (o *Origin) check(c *caller) error {
	switch {
	case o == nil || c.profile == o.caller.profile:
		return nil
	case !o.shared:
		return errOwnThread
	case gained(o.caller.status, c.status):
		return errGained
	default:
		return nil
	}
}

// gained reports whether a command can do what one that was started before could not. A saved user ID is not passed on
// to a command, but a host can return to it.
func gained(before, now []byte) bool {
	if mostCapabilities(now)&^mostCapabilities(before) != 0 {
		return true
	}
	if slices.Contains(realAndEffective(before, "Uid"), "0") {
		return false
	}
	groups, _ := statusField(before, "Groups")
	groupsNow, _ := statusField(now, "Groups")
	return groups != groupsNow ||
		!slices.Equal(realAndEffective(before, "Uid"), realAndEffective(now, "Uid")) ||
		!slices.Equal(realAndEffective(before, "Gid"), realAndEffective(now, "Gid"))
}
