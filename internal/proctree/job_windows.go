package proctree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"
)

// Both libraries are always loaded from the system's folder.
var (
	kernel32 = syscall.NewLazyDLL("kernel32.dll")
	ntdll    = syscall.NewLazyDLL("ntdll.dll")

	createJobObject           = kernel32.NewProc("CreateJobObjectW")
	setInformationJobObject   = kernel32.NewProc("SetInformationJobObject")
	queryInformationJobObject = kernel32.NewProc("QueryInformationJobObject")
	assignProcessToJobObject  = kernel32.NewProc("AssignProcessToJobObject")
	terminateJobObject        = kernel32.NewProc("TerminateJobObject")
	generateConsoleCtrlEvent  = kernel32.NewProc("GenerateConsoleCtrlEvent")
	ntResumeProcess           = ntdll.NewProc("NtResumeProcess")
)

// Classes of information about a job, and a limit.
const (
	basicAccounting = 1
	basicProcessIDs = 3
	extendedLimits  = 9

	killOnJobClose = 0x2000
)

// jobAccounting is a JOBOBJECT_BASIC_ACCOUNTING_INFORMATION.
type jobAccounting struct {
	times           [4]int64
	pageFaults      uint32
	processes       uint32
	activeProcesses uint32
	terminated      uint32
}

// jobBasicLimits is a JOBOBJECT_BASIC_LIMIT_INFORMATION without its padding at the end.
type jobBasicLimits struct {
	perProcessTime, perJobTime     int64
	flags                          uint32
	minWorkingSet, maxWorkingSet   uintptr
	activeProcesses                uint32
	affinity                       uintptr
	priorityClass, schedulingClass uint32
}

// jobLimits is a JOBOBJECT_EXTENDED_LIMIT_INFORMATION.
type jobLimits struct {
	basic jobBasicLimits
	_     [1 - ^uintptr(0)>>63]uint32 // C aligns 64 bits to 8 bytes on 32-bit systems too, and Go does not
	io    [6]uint64

	processMemory, jobMemory, peakProcessMemory, peakJobMemory uintptr
}

// jobPIDs begins a JOBOBJECT_BASIC_PROCESS_ID_LIST; the PIDs follow as uintptrs.
type jobPIDs struct {
	assigned, listed uint32
}

// A windowsJob is a job object. Windows ends its processes when the last handle is closed, so also if the host dies; no
// child inherits the handle.
type windowsJob struct {
	handle  syscall.Handle
	pid     int
	process syscall.Handle // of the first process, so that its PID and its group's ID are not reused
}

func newJob() (*windowsJob, error) {
	handle, _, err := createJobObject.Call(0, 0)
	if handle == 0 {
		return nil, fmt.Errorf("make a job object: %w", err)
	}
	j := &windowsJob{handle: syscall.Handle(handle)}
	if err := j.setLimits(killOnJobClose); err != nil {
		j.close()
		return nil, fmt.Errorf("have a job object end its processes: %w", err)
	}
	return j, nil
}

func (j *windowsJob) setLimits(flags uint32) error {
	limits := jobLimits{basic: jobBasicLimits{flags: flags}}
	return failure(setInformationJobObject.Call(uintptr(j.handle), extendedLimits,
		uintptr(unsafe.Pointer(&limits)), unsafe.Sizeof(limits)))
}

func (j *windowsJob) active() (int, error) {
	var a jobAccounting
	err := failure(queryInformationJobObject.Call(uintptr(j.handle), basicAccounting,
		uintptr(unsafe.Pointer(&a)), unsafe.Sizeof(a), 0))
	return int(a.activeProcesses), err
}

func (j *windowsJob) processes() ([]int, error) {
	const head = unsafe.Sizeof(jobPIDs{}) / unsafe.Sizeof(uintptr(0)) // the PIDs are aligned as the head is
	for room := 64; ; room *= 2 {
		text := make([]uintptr, int(head)+room)
		err := failure(queryInformationJobObject.Call(uintptr(j.handle), basicProcessIDs,
			uintptr(unsafe.Pointer(&text[0])), uintptr(len(text))*unsafe.Sizeof(uintptr(0)), 0))
		if errors.Is(err, syscall.ERROR_MORE_DATA) {
			continue
		}
		if err != nil {
			return nil, err
		}
		listed := (*jobPIDs)(unsafe.Pointer(&text[0])).listed
		pids := make([]int, 0, listed)
		for _, pid := range text[head : int(head)+int(listed)] {
			pids = append(pids, int(pid))
		}
		return pids, nil
	}
}

// interrupt sends CTRL_BREAK_EVENT: CTRL_C_EVENT cannot be sent to one group.
func (j *windowsJob) interrupt() error {
	return failure(generateConsoleCtrlEvent.Call(syscall.CTRL_BREAK_EVENT, uintptr(j.pid)))
}

func (j *windowsJob) terminate() error {
	return failure(terminateJobObject.Call(uintptr(j.handle), killedStatus))
}

func (j *windowsJob) keep() error { return j.setLimits(0) }

func (j *windowsJob) close() {
	_ = syscall.CloseHandle(j.handle)
	if j.process != 0 {
		_ = syscall.CloseHandle(j.process)
	}
}

// failure returns the error of a call that returns FALSE if it fails.
func failure(ok, _ uintptr, err error) error {
	if ok != 0 {
		return nil
	}
	return err
}

// StartContext starts the command in a job object, unless ctx has ended. The command gets a console process group of
// its own unless SameGroup is set. If the program cannot be started, StartContext returns the system's error, as
// [os.StartProcess] does.
func StartContext(ctx context.Context, c Command) (*Tree, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("the command was not started: %w", context.Cause(ctx))
	}
	j, err := newJob()
	if err != nil {
		return nil, err
	}
	attr, ownGroup, resume := jobAttr(c.Attr, c.SameGroup)
	env := append([]string{}, c.Env...) // a nil Env would be the host's
	p, err := os.StartProcess(c.Path, c.Args, &os.ProcAttr{Dir: c.Dir, Env: env, Files: c.Files, Sys: attr})
	if err != nil {
		j.close()
		return nil, err
	}
	if err := j.add(p.Pid, resume); err != nil {
		_ = p.Kill() // it has not begun
		_, _ = p.Wait()
		j.close()
		return nil, err
	}
	b := newJobBackend(p.Pid, j, ownGroup)
	go b.watch(func() (Status, error) {
		state, err := p.Wait()
		if err != nil {
			return unknown, err
		}
		return Status{ExitCode: state.ExitCode(), User: state.UserTime(), System: state.SystemTime(), State: state}, nil
	})
	return b.tree, nil
}

// Flags of CreateProcess that package syscall lacks.
const (
	createSuspended  = 0x4
	detachedProcess  = 0x8
	createNewConsole = 0x10
)

// jobAttr returns a copy of the attributes with what a job needs: the process must not start another one before it is
// in the job. It also returns whether a console break of the host reaches the process alone, and whether to resume it:
// not if the caller wants it suspended.
func jobAttr(given *syscall.SysProcAttr, sameGroup bool) (attr *syscall.SysProcAttr, ownGroup, resume bool) {
	attr = &syscall.SysProcAttr{}
	if given != nil {
		*attr = *given
	}
	resume = attr.CreationFlags&createSuspended == 0
	attr.CreationFlags |= createSuspended
	if !sameGroup {
		attr.CreationFlags |= syscall.CREATE_NEW_PROCESS_GROUP
	}
	hostsConsole := attr.CreationFlags&(detachedProcess|createNewConsole) == 0
	ownGroup = hostsConsole && attr.CreationFlags&syscall.CREATE_NEW_PROCESS_GROUP != 0
	return attr, ownGroup, resume
}

// add puts a new, suspended process into the job.
//
// Rejected: to find the process's thread with CreateToolhelp32Snapshot for ResumeThread, because that lists all threads
// of the machine, and NtResumeProcess does the same for a process that has one thread. PROC_THREAD_ATTRIBUTE_JOB_LIST
// would need no suspension, but package os cannot pass it.
func (j *windowsJob) add(pid int, resume bool) error {
	const terminate, setQuota, suspendResume = 0x1, 0x100, 0x800
	// The PID is not reused: p holds a handle until it has waited, and this one is held until the tree is gone.
	process, err := syscall.OpenProcess(terminate|setQuota|suspendResume, false, uint32(pid)) //nolint:gosec // a DWORD
	if err != nil {
		return fmt.Errorf("open the new process %d: %w", pid, err)
	}
	j.pid, j.process = pid, process
	switch err := failure(assignProcessToJobObject.Call(uintptr(j.handle), uintptr(process))); {
	case errors.Is(err, syscall.ERROR_ACCESS_DENIED):
		return fmt.Errorf("put the command into a job object: %w; the host is in a job that does not allow another one "+
			"inside: that needs Windows 8 or newer, and a job without limits of its user interface", err)
	case err != nil:
		return fmt.Errorf("put the command into a job object: %w", err)
	}
	if !resume {
		return nil
	}
	if status, _, _ := ntResumeProcess.Call(uintptr(process)); status != 0 {
		return fmt.Errorf("resume the new process %d: NtResumeProcess: status %#x", pid, status)
	}
	return nil
}
