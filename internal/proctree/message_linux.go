//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/seed62658d38/watchdog/internal/tty"
)

// A request asks the guard to start a command. Descriptors come with it: the tree's socket, the working directory if
// Dir is empty, and the command's files. If the request is too long for one message, the message holds only the length
// and the request follows on the tree's socket.
//
// The JSON fields come first. The strings follow, each ended by a NUL, because they can hold any other byte.
type request struct {
	Path     string               `json:"-"`
	Root     string               `json:"-"` // Attr.Chroot
	Dir      string               `json:"-"` // below Root; if it is empty, the directory is a descriptor
	Args     []string             `json:"-"`
	Env      []string             `json:"-"`
	ArgCount int                  `json:"arg_count"`
	Closed   []bool               `json:"closed,omitempty"` // for each of the files: it is closed and not sent
	Attr     *syscall.SysProcAttr `json:"attr,omitempty"`
	Mark     mark                 `json:"mark"`
	Umask    int                  `json:"umask"`
	// Scheduling is the calling thread's.
	Scheduling *scheduling `json:"scheduling"`
	SameGroup  bool        `json:"same_group,omitempty"`
	Group      int         `json:"group"` // the host's process group
	Releases   bool        `json:"releases,omitempty"`
	// Terminal says how the host's terminal is set for the command. Its descriptor is the last one.
	Terminal *tty.Change `json:"terminal,omitempty"`
	origin   *Origin     // not sent
}

func (r *request) encode() ([]byte, error) {
	r.ArgCount = len(r.Args)
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("%w: encode a request: %w", ErrGuard, err)
	}
	for _, s := range slices.Concat([]string{"", r.Path, r.Root, r.Dir}, r.Args, r.Env) {
		text = append(append(text, s...), 0)
	}
	return text, nil
}

func decodeRequest(text []byte) (*request, error) {
	head, rest, _ := bytes.Cut(text, []byte{0})
	var r request
	if err := json.Unmarshal(head, &r); err != nil {
		return nil, fmt.Errorf("read a request: %w", err)
	}
	all := strings.Split(string(rest), "\x00")
	if len(all) < 4+r.ArgCount {
		return nil, fmt.Errorf("read a request: %d strings for %d arguments", len(all), r.ArgCount)
	}
	r.Path, r.Root, r.Dir = all[0], all[1], all[2]
	r.Args, r.Env = all[3:3+r.ArgCount], all[3+r.ArgCount:len(all)-1]
	return &r, nil
}

// An order is a message from the host to the guard about a running tree. A closed socket means Kill.
type order struct {
	Signal  syscall.Signal `json:"signal,omitempty"`
	First   bool           `json:"first,omitempty"` // signal the first process alone, and do not continue it
	List    bool           `json:"list,omitempty"`  // say which processes are alive
	Kill    bool           `json:"kill,omitempty"`
	Release bool           `json:"release,omitempty"`
	// Withdraw takes the signals back that were ordered before: the host sends them itself.
	Withdraw bool `json:"withdraw,omitempty"`
}

// A report is a message from the guard to the host about one tree.
type report struct {
	Started   int           `json:"started,omitempty"` // the PID of the first process
	Errno     syscall.Errno `json:"failed,omitempty"`  // why the start failed, if the system said why
	Error     string        `json:"problem,omitempty"` // why the start failed, of a tree or of the guard
	Unfit     bool          `json:"unfit,omitempty"`   // why the start failed: another guard could do it
	Answer    bool          `json:"answer,omitempty"`  // Reached answers a signal
	Reached   int           `json:"reached,omitempty"`
	Missed    int           `json:"missed,omitempty"`
	Exited    *exitInfo     `json:"exited,omitempty"`
	Gone      bool          `json:"gone,omitempty"`
	Survivors []int         `json:"survivors,omitempty"`
	Listed    []int         `json:"listed,omitempty"` // a part of what is alive; the answer follows
	// Released says that what is left lives on. Kept are those of it without the mark.
	Released bool        `json:"released,omitempty"`
	Kept     []processID `json:"kept,omitempty"`
}

// An exitInfo says how the first process of a tree ended, as wait4 did.
type exitInfo struct {
	Status syscall.WaitStatus `json:"status"`
	Used   syscall.Rusage     `json:"used"`
}

// maxMessage is the size of a message that fits under any system limit for sockets.
const maxMessage = 64 << 10

// errPeerClosed says that the other side closed its socket.
var errPeerClosed = errors.New("the other side is gone")

func sendJSON(fd int, what any) error {
	text, err := json.Marshal(what)
	if err != nil {
		return fmt.Errorf("encode a message: %w", err)
	}
	return send(fd, text, 0)
}

func send(fd int, text []byte, flags int, files ...int) error {
	var rights []byte
	if len(files) > 0 {
		rights = syscall.UnixRights(files...)
	}
	for {
		err := syscall.Sendmsg(fd, text, rights, nil, syscall.MSG_NOSIGNAL|flags)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// receive receives one message and at most maxFiles descriptors. It reports whether descriptors are missing, because
// this process cannot open more.
func receive(fd int, text []byte, maxFiles int) (got []byte, files []int, missing bool, err error) {
	rights := make([]byte, syscall.CmsgSpace(4*maxFiles))
	var n, r, flags int
	for {
		n, r, flags, _, err = syscall.Recvmsg(fd, text, rights, syscall.MSG_CMSG_CLOEXEC)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, nil, false, err
	}
	if r > 0 {
		files, err = descriptors(rights[:r])
	}
	if n == 0 && err == nil {
		err = errPeerClosed
	}
	return text[:n], files, flags&syscall.MSG_CTRUNC != 0, err
}

func descriptors(rights []byte) (all []int, err error) {
	messages, err := syscall.ParseSocketControlMessage(rights)
	for i := 0; i < len(messages) && err == nil; i++ {
		var files []int
		files, err = syscall.ParseUnixRights(&messages[i])
		all = append(all, files...)
	}
	if err != nil {
		return nil, fmt.Errorf("read descriptors: %w", err)
	}
	return all, nil
}
