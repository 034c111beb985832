package proctree

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"github.com/seed62658d38/watchdog/internal/procid"
)

const (
	openPath        = 0x200000 // O_PATH
	atCurrentFolder = -100     // AT_FDCWD
)

// readFileAt reads a file of /proc below a folder. It costs half of what os.ReadFile does.
func readFileAt(folder int, name string) ([]byte, error) {
	return appendFileAt(make([]byte, 0, 512), folder, name)
}

// appendFileAt appends a file of /proc to text. Its system calls never wait, so the runtime need not know of them.
func appendFileAt(text []byte, folder int, name string) ([]byte, error) {
	const page = 4 << 10 // /proc returns as much as fits, but not more at once
	fd, err := openAt(folder, name, syscall.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(fd), 0, 0) //nolint:errcheck // nothing was written
	for {
		room := text[len(text):min(cap(text), len(text)+page)]
		n, _, errno := syscall.RawSyscall(syscall.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(room))),
			uintptr(len(room)))
		if errno != 0 {
			return nil, errno
		}
		text = text[:len(text)+int(n)]
		if n == 0 || int(n) < len(room)/2 {
			return text, nil
		}
		text = slices.Grow(text, page)
	}
}

func openAt(folder int, name string, flags int) (int, error) {
	var path [64]byte // longer than all names, and so ended by a NUL
	copy(path[:len(path)-1], name)
	fd, _, errno := syscall.RawSyscall6(syscall.SYS_OPENAT, uintptr(folder), uintptr(unsafe.Pointer(&path)),
		uintptr(flags|syscall.O_CLOEXEC), 0, 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// readLinkAt reads a link below a folder. The name ends with a NUL.
func readLinkAt(folder int, name string, target []byte) (int, error) {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_READLINKAT, uintptr(folder),
		uintptr(unsafe.Pointer(unsafe.StringData(name))),
		uintptr(unsafe.Pointer(&target[0])), uintptr(len(target)), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// statusField returns one value of what /proc/PID/status shows.
func statusField(text []byte, field string) (string, bool) {
	for line := range bytes.Lines(text) {
		if name, value, ok := bytes.Cut(line, []byte{':'}); ok && string(name) == field {
			return string(bytes.TrimSpace(value)), true
		}
	}
	return "", false
}

// A process is what /proc says about one process.
type process struct {
	pid int
	procid.Stat
}

// readStat reads what /proc says about the process that has the PID now.
func readStat(pid int) (process, error) { return readStatFile(pid, procPath(pid, "stat")) }

func readStatFile(pid int, path string) (process, error) {
	text, err := appendFileAt(make([]byte, 0, 1<<10), atCurrentFolder, path)
	if err != nil {
		return process{}, err
	}
	stat, err := procid.ParseStat(text)
	return process{pid, stat}, err
}

// idsIn returns the numbers among the names in a folder of /proc, none if it is gone.
func idsIn(folder string) (all []int) {
	entries, _ := os.ReadDir(folder)
	for _, entry := range entries {
		if id, err := strconv.Atoi(entry.Name()); err == nil {
			all = append(all, id)
		}
	}
	return all
}

func procPath(pid int, names ...string) string {
	return strings.Join(append([]string{"/proc", strconv.Itoa(pid)}, names...), "/")
}
