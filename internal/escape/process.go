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

// A Process is one that was started. Its number alone could be another's by now.
type Process struct {
	PID   int
	Began uint64 // in ticks since the machine started
}

// Alive returns those in the registry that are there and are not zombies; nothing where there is no registry.
func Alive(registry string) []Process {
	text, _ := os.ReadFile(registry)
	var all []Process
	for line := range strings.Lines(string(text)) {
		var p Process
		if n, _ := fmt.Sscan(line, &p.PID, &p.Began); n == 2 && alive(p.PID, p.Began) {
			all = append(all, p)
		}
	}
	return all
}

// Holding returns the living processes of this system that have the token as their first argument.
func Holding(token string) []Process {
	entries, _ := os.ReadDir("/proc")
	var all []Process
	for _, entry := range entries {
		pid := number(entry.Name())
		if pid == 0 || !holds(pid, token) {
			continue
		}
		if began, state := look(pid); state != 0 && state != 'Z' && state != 'X' && holds(pid, token) {
			all = append(all, Process{pid, began})
		}
	}
	return all
}

func holds(pid int, token string) bool {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	args := bytes.Split(text, []byte{0})
	return len(args) > 1 && string(args[1]) == token
}

func alive(pid int, began uint64) bool {
	now, state := look(pid)
	return now == began && state != 0 && state != 'Z' && state != 'X'
}

// look returns when a process was started and its state, 0 where there is none.
func look(pid int) (began uint64, state byte) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0
	}
	const startTime = 22 - 3 // of the fields after the name, which can hold anything but stands in brackets
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	began, _ = strconv.ParseUint(string(fields[startTime]), 10, 64)
	return began, fields[0][0]
}

// kill ends the process if it is still the same.
func (p Process) kill() {
	held, err := os.FindProcess(p.PID)
	if err != nil {
		return
	}
	defer held.Release() //nolint:errcheck // it holds a descriptor at most
	if alive(p.PID, p.Began) {
		_ = held.Signal(syscall.SIGKILL)
	}
}

func merge(a, b []Process) []Process {
	all := slices.Concat(a, b)
	slices.SortFunc(all, func(x, y Process) int { return x.PID - y.PID })
	return slices.Compact(all)
}
