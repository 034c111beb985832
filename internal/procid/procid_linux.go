package procid

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/seed62658d38/watchdog/internal/record"
)

// own names the boot with the namespaces of PIDs and of time, in which the PIDs and the starts of processes mean the
// same. It has no boot where /proc does not show that.
func own() (o record.Opener) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	pids, pidErr := os.Readlink("/proc/self/ns/pid")
	p, statErr := ReadStat("/proc/self/stat")
	if errors.Join(err, pidErr, statErr) != nil {
		return o
	}
	times, _ := os.Readlink("/proc/self/ns/time") // since Linux 5.6
	o.Boot = strings.TrimSpace(string(boot)) + " " + pids + " " + times
	o.Started = record.Number(p.StartTicks)
	return o
}

// ended reports whether the process, of this machine and these namespaces, has ended.
func ended(o *record.Opener) bool {
	if o.PID <= 0 {
		return false
	}
	if errors.Is(syscall.Kill(int(o.PID), 0), syscall.ESRCH) {
		return true
	}
	// /proc may be that of another namespace, or hide the process.
	if shown, err := os.Readlink("/proc/self"); err != nil || shown != strconv.Itoa(os.Getpid()) {
		return false
	}
	p, err := ReadStat("/proc/" + strconv.Itoa(int(o.PID)) + "/stat")
	return err == nil && (p.StartTicks != uint64(o.Started) || p.Dead())
}

// A Stat is what /proc says about one process.
type Stat struct {
	Parent, Group int
	State         byte
	Threads       int
	StartTicks    uint64 // clock ticks from boot to its start
}

// ReadStat reads a file stat of /proc.
func ReadStat(path string) (Stat, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Stat{}, err
	}
	return ParseStat(text)
}

// ParseStat parses such a file. The error is ESRCH if the process ended while it was open.
func ParseStat(text []byte) (Stat, error) {
	// The program's name is in parentheses and can hold any byte, so the fields are read after the last one.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return Stat{}, syscall.ESRCH
	}
	parent, _ := strconv.Atoi(string(fields[1]))
	group, _ := strconv.Atoi(string(fields[2]))
	threads, _ := strconv.Atoi(string(fields[17]))
	began, _ := strconv.ParseUint(string(fields[19]), 10, 64)
	return Stat{Parent: parent, Group: group, State: fields[0][0], Threads: threads, StartTicks: began}, nil
}

// Dead reports whether every thread has ended. A process whose main thread alone has ended is alive; it is in the state
// of a zombie, too.
func (s Stat) Dead() bool { return s.MainThreadEnded() && s.Threads <= 1 }

// MainThreadEnded reports whether its main thread has.
func (s Stat) MainThreadEnded() bool { return s.State == 'Z' || s.State == 'X' }
