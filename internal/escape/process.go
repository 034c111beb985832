//go:build linux

package escape

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// A Process identifies a started process, even if its PID was reused.
type Process struct {
	PID        int
	StartTicks uint64 // clock ticks from boot to its start
}

// Alive returns the living processes of a registry file; zombies are not alive. It returns nil if there is no file.
func Alive(registry string) []Process {
	text, _ := os.ReadFile(registry)
	var all []Process
	for line := range strings.Lines(string(text)) {
		var p Process
		if n, _ := fmt.Sscan(line, &p.PID, &p.StartTicks); n == 2 && alive(p.PID, p.StartTicks) {
			all = append(all, p)
		}
	}
	return all
}

// WithToken returns the living processes of this system whose first argument is one of the tokens.
func WithToken(tokens ...string) []Process {
	entries, _ := os.ReadDir("/proc")
	var all []Process
	for _, entry := range entries {
		pid := atoi(entry.Name())
		if pid == 0 || !hasToken(pid, tokens) {
			continue
		}
		if startTicks, state := readStat(pid); state != 0 && state != 'Z' && state != 'X' && hasToken(pid, tokens) {
			all = append(all, Process{pid, startTicks})
		}
	}
	return all
}

func hasToken(pid int, tokens []string) bool {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	args := bytes.SplitN(text, []byte{0}, 3)
	return len(args) > 1 && slices.Contains(tokens, string(args[1]))
}

func alive(pid int, startTicks uint64) bool {
	now, state := readStat(pid)
	return now == startTicks && state != 0 && state != 'Z' && state != 'X'
}

// readStat returns the start time and the state of a process, 0 if there is none. A process whose main thread alone has
// ended shows as a zombie and lives: also for a moment when another thread of it executes a program.
func readStat(pid int) (startTicks uint64, state byte) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0
	}
	// The program's name is in parentheses and can hold any byte, so the fields are counted after it.
	const startTime, threads = 22 - 3, 20 - 3
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	startTicks, _ = strconv.ParseUint(string(fields[startTime]), 10, 64)
	if state = fields[0][0]; (state == 'Z' || state == 'X') && atoi(string(fields[threads])) > 1 {
		return startTicks, 'S'
	}
	return startTicks, state
}

// kill kills the process unless its PID was reused.
func (p Process) kill() {
	process, err := os.FindProcess(p.PID)
	if err != nil {
		return
	}
	defer process.Release() //nolint:errcheck // it only closes a descriptor
	if alive(p.PID, p.StartTicks) {
		_ = process.Signal(syscall.SIGKILL)
	}
}

func merge(a, b []Process) []Process {
	all := slices.Concat(a, b)
	slices.SortFunc(all, func(x, y Process) int { return x.PID - y.PID })
	return slices.Compact(all)
}
