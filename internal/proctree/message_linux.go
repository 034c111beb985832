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
	"time"
)

// A request asks the guard for a command. With it come descriptors: the tree's socket, the folder where Dir is empty, and the command's files. A request that is
// too long for one message follows on the tree's socket.
//
// What is JSON in it comes first; the strings follow, each closed by a NUL, because they may hold any other byte.
type request struct {
	Path      string               `json:"-"`
	Root      string               `json:"-"` // Attr.Chroot
	Dir       string               `json:"-"` // below Root; without one the folder is a descriptor
	Args      []string             `json:"-"`
	Env       []string             `json:"-"`
	ArgCount  int                  `json:"arg_count"`
	Closed    []bool               `json:"closed,omitempty"` // of the files, those that are not there
	Attr      *syscall.SysProcAttr `json:"attr,omitempty"`
	Mark      mark                 `json:"mark"`
	Umask     int                  `json:"umask"`
	SameGroup bool                 `json:"same_group,omitempty"`
	Group     int                  `json:"group"` // the host's
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

func decode(text []byte) (*request, error) {
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

// An order is what the host asks of the guard about a tree that runs. An end of the socket is an order to kill.
type order struct {
	Signal  syscall.Signal `json:"signal,omitempty"`
	Kill    bool           `json:"kill,omitempty"`
	Release bool           `json:"release,omitempty"`
}

// News are what the guard tells of a tree.
type news struct {
	Started   int           `json:"started,omitempty"` // the number of the first process
	Failed    syscall.Errno `json:"failed,omitempty"`  // why it could not be started
	Problem   string        `json:"problem,omitempty"` // the same, where it is not the system's
	Answer    bool          `json:"answer,omitempty"`  // to a signal
	Reached   int           `json:"reached,omitempty"`
	Exited    *ending       `json:"exited,omitempty"`
	Gone      bool          `json:"gone,omitempty"`
	Survivors []int         `json:"survivors,omitempty"`
}

// An ending is a [Status] as it is told.
type ending struct {
	Status syscall.WaitStatus `json:"status"`
	User   time.Duration      `json:"user"`
	System time.Duration      `json:"system"`
	MaxRSS int64              `json:"max_rss"`
}

func endingOf(status syscall.WaitStatus, used *syscall.Rusage) *ending {
	return &ending{status, time.Duration(used.Utime.Nano()), time.Duration(used.Stime.Nano()), used.Maxrss << 10}
}

func (e *ending) status() Status {
	s := Status{ExitCode: e.Status.ExitStatus(), User: e.User, System: e.System, MaxRSS: e.MaxRSS}
	if e.Status.Signaled() {
		s.Signal = e.Status.Signal()
	}
	return s
}

// maxMessage is what fits into one message whatever the system's limits for sockets are.
const maxMessage = 64 << 10

// errHostGone says that the other side has closed its socket.
var errHostGone = errors.New("the other side is gone")

// tell sends one message.
func tell(fd int, what any) error {
	text, err := json.Marshal(what)
	if err != nil {
		return fmt.Errorf("encode a message: %w", err)
	}
	return send(fd, text)
}

func send(fd int, text []byte, files ...int) error {
	var rights []byte
	if len(files) > 0 {
		rights = syscall.UnixRights(files...)
	}
	for {
		err := syscall.Sendmsg(fd, text, rights, nil, syscall.MSG_NOSIGNAL)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// hear receives one message and the descriptors that came with it.
func hear(fd int, text []byte, most int) (got []byte, files []int, err error) {
	rights := make([]byte, syscall.CmsgSpace(4*most))
	var n, r int
	for {
		n, r, _, _, err = syscall.Recvmsg(fd, text, rights, syscall.MSG_CMSG_CLOEXEC)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, nil, err
	}
	if r > 0 {
		files, err = descriptors(rights[:r])
	}
	if n == 0 && err == nil {
		err = errHostGone
	}
	return text[:n], files, err
}

func descriptors(rights []byte) ([]int, error) {
	messages, err := syscall.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, fmt.Errorf("read descriptors: %w", err)
	}
	var all []int
	for i := range messages {
		files, err := syscall.ParseUnixRights(&messages[i])
		if err != nil {
			return nil, fmt.Errorf("read descriptors: %w", err)
		}
		all = append(all, files...)
	}
	return all, nil
}
