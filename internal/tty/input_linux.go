//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package tty

import (
	"bytes"
	"errors"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

// errBackground says that what is typed is for another program.
var errBackground = errors.New("in the background")

// How often a process in the background looks whether it is in the foreground, because a shell does not say: at first
// often, because some shells put a program there just after they have started it.
const (
	shortestPause = time.Millisecond
	longestPause  = 200 * time.Millisecond
)

// copyInput passes on what is typed, until the command has ended or the host's terminal is gone.
func (t *Terminal) copyInput() {
	var typed [4096]byte
	for {
		n, err := t.read(typed[:])
		switch {
		case errors.Is(err, errBackground):
			if !t.awaitForeground() {
				return
			}
		case errors.Is(err, os.ErrDeadlineExceeded):
			t.mu.Lock()
			again := !t.ended && t.host.SetReadDeadline(time.Time{}) == nil
			t.mu.Unlock()
			if !again {
				return
			}
		case err != nil || n == 0 || !t.pass(typed[:n]):
			return
		}
	}
}

// read waits for what is typed. A read in the background would stop the process.
func (t *Terminal) read(p []byte) (n int, err error) {
	raw, err := t.host.SyscallConn()
	if err != nil {
		return 0, err
	}
	failed := raw.Read(func(fd uintptr) bool {
		var group int32
		if ioctl(fd, syscall.TIOCGPGRP, unsafe.Pointer(&group)) == nil && int(group) != syscall.Getpgrp() {
			err = errBackground
			return true
		}
		for n, err = syscall.Read(int(fd), p); errors.Is(err, syscall.EINTR); {
			n, err = syscall.Read(int(fd), p)
		}
		return !errors.Is(err, syscall.EAGAIN)
	})
	return n, errors.Join(failed, err)
}

// awaitForeground waits until the process may read. It reports false if the command has ended.
func (t *Terminal) awaitForeground() bool {
	for pause := shortestPause; !inForeground(t.host); pause = min(2*pause, longestPause) {
		select {
		case <-t.ending:
			return false
		case <-time.After(pause):
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.attach()
	return true
}

// pass passes on what was typed, and does what is not for the command. It reports false at the end.
func (t *Terminal) pass(typed []byte) bool {
	for len(typed) > 0 {
		modes, err := modesOf(t.output)
		if err != nil {
			return false
		}
		n, sig := t.next(typed, &modes)
		own := sig == syscall.SIGTSTP // the command does not get the key
		passed := n
		if own {
			passed--
		}
		if _, err := t.output.Write(typed[:passed]); err != nil {
			return false
		}
		typed = typed[n:]
		switch {
		case own:
			t.suspend()
		case sig != 0:
			_ = syscall.Kill(0, sig) // one may always signal oneself
		}
	}
	return true
}

// next returns how much of what was typed to pass on at once: all, or all up to a key that is a signal for the job.
func (t *Terminal) next(typed []byte, modes *Modes) (n int, sig syscall.Signal) {
	for i, key := range typed {
		t.noteFlow(key, modes)
		if sig := t.signalOf(key, modes); sig != 0 {
			return i + 1, sig
		}
	}
	return len(typed), 0
}

// signalOf returns the signal that a key is for the job of this process, as it would be if the command had the job's
// terminal: 0 if it is none, or one for a program that a shell in the command's terminal has put into the foreground.
//
// Ctrl-Z is not for the command. It could not be stopped so: its process group is an orphaned one, because its parent
// is the guard, which is in another session. A command that ignores it gets it, as an interactive shell does.
func (t *Terminal) signalOf(key byte, modes *Modes) (sig syscall.Signal) {
	switch {
	case modes.Lflag&syscall.ISIG == 0 || key == 0:
		return 0
	case key == modes.Cc[syscall.VINTR]:
		sig = syscall.SIGINT
	case key == modes.Cc[syscall.VQUIT]:
		sig = syscall.SIGQUIT
	case key == modes.Cc[syscall.VSUSP] && !signal.Ignored(syscall.SIGTSTP):
		sig = syscall.SIGTSTP
	default:
		return 0
	}
	group, err := foregroundOf(t.output)
	if err != nil || group != t.tree.PID() || sig == syscall.SIGTSTP && ignores(group, sig) {
		return 0
	}
	return sig
}

// ignores reports whether a process ignores a signal.
func ignores(pid int, sig syscall.Signal) bool {
	status, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	_, rest, _ := bytes.Cut(status, []byte("\nSigIgn:\t"))
	text, _, _ := bytes.Cut(rest, []byte("\n"))
	mask, _ := strconv.ParseUint(string(text), 16, 64)
	return mask&(1<<(sig-1)) != 0
}

// noteFlow notes whether a key stops the output of the command's terminal, or has it go on.
func (t *Terminal) noteFlow(key byte, modes *Modes) {
	if modes.Iflag&syscall.IXON == 0 || key == 0 {
		return
	}
	stops, cc := key == modes.Cc[syscall.VSTOP], &modes.Cc
	goesOn := key == cc[syscall.VSTART] || modes.Iflag&syscall.IXANY != 0 ||
		modes.Lflag&syscall.ISIG != 0 && (key == cc[syscall.VINTR] || key == cc[syscall.VQUIT] || key == cc[syscall.VSUSP])
	if (stops || goesOn) && t.stopped.Swap(stops) != stops {
		t.changed()
	}
}
