package relay

import (
	"crypto/rand"
	"errors"
	"io"
	"os"
	"syscall"
	"time"
	"unsafe"
)

var (
	kernel32        = syscall.NewLazyDLL("kernel32.dll") // always loaded from the system's folder
	createNamedPipe = kernel32.NewProc("CreateNamedPipeW")
	peekNamedPipe   = kernel32.NewProc("PeekNamedPipe")
)

// A source is the reading end of the pipe. Only drain and close may be called outside the stream's goroutine.
type source struct {
	file     *os.File
	draining bool
	left     int // how many bytes to read while draining
}

// openSource makes a pipe with a name, whose reading end is opened for overlapped I/O: a read that waits can be ended
// then. A pipe of [os.Pipe] cannot, so that a process which holds it open would hold the host.
func openSource() (*source, *os.File, error) {
	const (
		inbound, overlapped, firstInstance = 0x1, 0x40000000, 0x80000 // for the opening
		rejectRemote                       = 0x8                      // for the mode, with bytes instead of messages
		readAttributes                     = 0x80                     // what a pipe of os.Pipe can be asked
	)
	name, err := syscall.UTF16PtrFromString(`\\.\pipe\watchdog-` + rand.Text())
	if err != nil {
		return nil, nil, err
	}
	handle, _, err := createNamedPipe.Call(uintptr(unsafe.Pointer(name)), inbound|overlapped|firstInstance, rejectRemote,
		1, 0, 64<<10, 0, 0)
	if syscall.Handle(handle) == syscall.InvalidHandle {
		return nil, nil, os.NewSyscallError("CreateNamedPipe", err)
	}
	r := os.NewFile(handle, "|0")
	child, err := syscall.CreateFile(name, syscall.GENERIC_WRITE|readAttributes, 0, nil, syscall.OPEN_EXISTING, 0, 0)
	if err != nil {
		return nil, nil, errors.Join(os.NewSyscallError("CreateFile", err), r.Close())
	}
	return &source{file: r}, os.NewFile(uintptr(child), "|1"), nil
}

// terminalSource is not called here.
func terminalSource(file *os.File) (*source, error) { return &source{file: file}, nil }

// drain makes the bytes that are in the pipe now the last ones.
func (r *source) drain() { _ = r.file.SetReadDeadline(time.Unix(1, 0)) } // fails only on a closed file

func (r *source) close() error { return r.file.Close() }

// read waits for bytes. It returns [io.EOF] at the end, and after close.
func (r *source) read(b *buffer) (int, error) {
	for {
		p := b.bytes()
		if r.draining {
			if p = p[:min(len(p), r.left)]; len(p) == 0 {
				return 0, io.EOF
			}
			_ = r.file.SetReadDeadline(time.Time{}) // they are there; drain may set it again
		}
		n, err := r.file.Read(p)
		switch {
		case errors.Is(err, os.ErrClosed):
			return 0, io.EOF
		case !errors.Is(err, os.ErrDeadlineExceeded):
			r.left -= n
			return n, err
		case !r.draining:
			r.draining, r.left = true, r.held()
		}
	}
}

// held returns how many bytes are in the pipe.
func (r *source) held() (n int) {
	raw, err := r.file.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) { // fails only on a closed file
		var held uint32
		if ok, _, _ := peekNamedPipe.Call(fd, 0, 0, 0, uintptr(unsafe.Pointer(&held)), 0); ok != 0 {
			n = int(held)
		}
	})
	return n
}

// brokenPipe reports whether the error is what Windows returns instead of EPIPE: ERROR_BROKEN_PIPE or ERROR_NO_DATA.
func brokenPipe(err error) bool {
	return errors.Is(err, syscall.Errno(109)) || errors.Is(err, syscall.Errno(232))
}

// dup duplicates a handle. Children do not inherit the new one.
func dup(own uintptr) (uintptr, error) {
	self, err := syscall.GetCurrentProcess()
	if err != nil {
		return 0, os.NewSyscallError("GetCurrentProcess", err)
	}
	var second syscall.Handle
	err = syscall.DuplicateHandle(self, syscall.Handle(own), self, &second, 0, false, syscall.DUPLICATE_SAME_ACCESS)
	return uintptr(second), os.NewSyscallError("DuplicateHandle", err)
}
