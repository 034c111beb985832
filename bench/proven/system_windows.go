package main

import (
	"fmt"
	"strings"
	"syscall"
	"unsafe"
)

const (
	detachedProcess  = 0x8
	createNewConsole = 0x10
	breakaway        = 0x1000000
)

// ways are how a child is started that wants to get away.
var ways = map[string]*syscall.SysProcAttr{
	"plainly":                 nil,
	"as a daemon":             {CreationFlags: detachedProcess | syscall.CREATE_NEW_PROCESS_GROUP},
	"in a console of its own": {CreationFlags: createNewConsole},
	"out of the job":          {CreationFlags: breakaway},
}

// own are the checks that only this system has.
func own() []check {
	return []check{
		{"a child in a console of its own", "0 alive", func(t *trial) string {
			return t.cancelled(2, "parent", "in a console of its own", "stay")
		}},
		{"a child that asks to be out of the job", "refused, 0 alive", leavesJob},
		{"a command without the host's console, which no soft step reaches", "killed, 0 alive", func(t *trial) string {
			cmd := t.command("polite")
			cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: createNewConsole}
			return t.asked(cmd)
		}},
	}
}

func leavesJob(t *trial) string {
	result, out, err := t.run(t.command("parent", "out of the job", "exit"), t.config())
	if result == nil {
		return err.Error()
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return fmt.Sprintf("%s, %d alive", strings.TrimSpace(line), t.census.settled())
}

// system is the system's name and version, and Wine's if it is that.
func system() string {
	ntdll := syscall.NewLazyDLL("ntdll.dll")
	var major, minor, build uint32
	_, _, _ = ntdll.NewProc("RtlGetNtVersionNumbers").Call(uintptr(unsafe.Pointer(&major)),
		uintptr(unsafe.Pointer(&minor)), uintptr(unsafe.Pointer(&build)))
	name := fmt.Sprintf("Windows %d.%d.%d", major, minor, build&0xFFFF)
	if wine := ntdll.NewProc("wine_get_version"); wine.Find() == nil {
		version, _, _ := wine.Call()
		name += ", by Wine " + text(version)
	}
	return name
}

// text is a C string.
func text(at uintptr) string {
	var s []byte
	for p := *(*unsafe.Pointer)(unsafe.Pointer(&at)); *(*byte)(p) != 0; p = unsafe.Add(p, 1) {
		s = append(s, *(*byte)(p))
	}
	return string(s)
}
