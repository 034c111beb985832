//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// A scheduling is what the host changes often, so that the guard sets it for each command: the nice value and the CPUs
// of the calling thread, and the host's /proc/self/oom_score_adj.
type scheduling struct {
	Nice int      `json:"nice"`
	CPUs []uint64 `json:"cpus"` // a bit for each CPU
	OOM  int      `json:"oom"`
}

// readScheduling reads the scheduling of the calling thread and the process.
func readScheduling() (scheduling, error) {
	s, err := readThreadScheduling()
	if err != nil {
		return s, err
	}
	text, err := readFileAt(atCurrentFolder, "/proc/self/oom_score_adj")
	if err != nil {
		return s, err
	}
	s.OOM, err = strconv.Atoi(strings.TrimSpace(string(text)))
	return s, err
}

// readThreadScheduling leaves out OOM.
func readThreadScheduling() (s scheduling, err error) {
	level, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	if err != nil {
		return s, fmt.Errorf("nice value: %w", err)
	}
	s.Nice = 20 - level // so that the system call never returns a negative number
	var cpus [128]uint64
	n, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_GETAFFINITY, 0, unsafe.Sizeof(cpus),
		uintptr(unsafe.Pointer(&cpus)))
	if errno != 0 {
		return s, fmt.Errorf("CPUs: %w", errno)
	}
	s.CPUs = slices.Clone(cpus[:n/8])
	return s, nil
}

// errCannotSchedule says that this guard may not give a command the scheduling of its host. A guard that the calling
// thread starts now has it.
var errCannotSchedule = errors.New(
	"the guard may not give the command the nice value, CPUs and oom_score_adj of its host")

// A scheduler calls functions with another scheduling than the guard's own.
type scheduler struct {
	oom     int                 // the guard's own
	threads map[int]chan func() // by nice value
}

// call calls do with the wanted scheduling. An unprivileged thread cannot lower its nice value again. So do runs on a
// thread that keeps the nice value. That thread never ends, because its end would kill the commands that it started.
func (s *scheduler) call(want *scheduling, do func()) error {
	own, err := readThreadScheduling()
	if err != nil {
		return err
	}
	if want.OOM != s.oom {
		if err := setOOM(want.OOM); err != nil {
			return fmt.Errorf("%w: %w", errCannotSchedule, err)
		}
		defer setOOM(s.oom) //nolint:errcheck // or the guard is the first to be killed when memory runs out
	}
	if want.Nice == own.Nice && slices.Equal(want.CPUs, own.CPUs) {
		do()
		return nil
	}
	return s.callOnThread(want, do)
}

func (s *scheduler) callOnThread(want *scheduling, do func()) (err error) {
	thread := s.threads[want.Nice]
	if thread == nil {
		thread = make(chan func())
		go func() {
			runtime.LockOSThread()
			for work := range thread {
				work()
			}
		}()
		if s.threads == nil {
			s.threads = map[int]chan func(){}
		}
		s.threads[want.Nice] = thread
	}
	done := make(chan struct{})
	thread <- func() {
		defer close(done)
		if err = want.setForThread(); err == nil {
			do()
		}
	}
	<-done
	return err
}

func (s *scheduling) setForThread() error {
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, 0, s.Nice); err != nil {
		return fmt.Errorf("%w: nice value %d: %w", errCannotSchedule, s.Nice, err)
	}
	_, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, 0, uintptr(8*len(s.CPUs)),
		uintptr(unsafe.Pointer(unsafe.SliceData(s.CPUs))))
	if errno != 0 {
		return fmt.Errorf("%w: CPUs %x: %w", errCannotSchedule, s.CPUs, errno)
	}
	return nil
}

func setOOM(score int) error {
	return os.WriteFile("/proc/self/oom_score_adj", strconv.AppendInt(nil, int64(score), 10), 0)
}
