package stall

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog/internal/relay"
	"github.com/seed62658d38/watchdog/stall/internal/lines"
	"github.com/seed62658d38/watchdog/stall/internal/tail"
)

// A stdio is a command's standard input and output, and what is known of the output.
type stdio struct {
	cfg      *Config
	files    []*os.File // for the command
	opened   []*os.File // by us, for the command
	streams  []*relay.Stream
	watched  []*relay.File
	scanners []*lines.Scanner
	tail     *tail.Buffer

	began    time.Time
	alive    func()       // called at every output that counts
	last     atomic.Int64 // when the last output that counts came, since began; 0 is never
	patterns chan int     // terminal patterns that were found
}

// openStdio prepares what a command gets as its descriptors. Watched tells that somebody heeds its output.
func openStdio(cmd *exec.Cmd, cfg *Config, watched bool, alive func()) (*stdio, error) {
	o := &stdio{cfg: cfg, alive: alive, patterns: make(chan int, 2*len(cfg.Terminal))}
	if cfg.Tail != nil {
		o.tail = tail.New(cfg.Tail.Bytes)
	}
	err := o.open(cmd, watched)
	if err != nil {
		return nil, errors.Join(err, o.close(0))
	}
	return o, nil
}

func (o *stdio) open(cmd *exec.Cmd, watched bool) error {
	in, err := o.input(cmd.Stdin)
	if err != nil {
		return err
	}
	counts := func(a ActivitySource) bool {
		return watched && (o.cfg.ActivitySource == ActivityAny || o.cfg.ActivitySource == a)
	}
	one := same(cmd.Stdout, cmd.Stderr) // then nothing tells which of the two it is
	out, err := o.output(cmd.Stdout, counts(ActivityStdout) || one && counts(ActivityStderr), one && o.tail != nil)
	if err != nil {
		return err
	}
	errs := out
	if !one {
		errs, err = o.output(cmd.Stderr, counts(ActivityStderr), o.tail != nil)
	}
	o.files = append([]*os.File{in, out, errs}, cmd.ExtraFiles...)
	return err
}

// same reports that both outputs go to one place, so that one pipe keeps their order.
func same(a, b io.Writer) (same bool) {
	if one, ok := a.(*os.File); ok {
		if other, ok := b.(*os.File); ok {
			return one == other || sameStream(one, other)
		}
	}
	defer func() { _ = recover() }() // writers of a kind that cannot be compared are not the same
	return a != nil && a == b
}

// sameStream reports that two files are one pipe or terminal, as a host's own outputs are after 2>&1. Two descriptors of one regular file may stand at different
// places, and stay two.
func sameStream(a, b *os.File) bool {
	one, err := a.Stat()
	if err != nil || one.Mode().IsRegular() {
		return false
	}
	other, err := b.Stat()
	return err == nil && os.SameFile(one, other)
}

// input is the command's standard input. A reader that is no file is copied into a pipe by a goroutine, which ends with the reader or, if it is not reading then, with
// the command.
func (o *stdio) input(from io.Reader) (*os.File, error) {
	if from == nil {
		return o.nothing(os.O_RDONLY)
	}
	if f, ok := from.(*os.File); ok {
		return f, nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	o.opened = append(o.opened, r)
	go func() {
		_, _ = io.Copy(w, from) // a command need not read all of it
		_ = w.Close()
	}()
	return r, nil
}

func (o *stdio) nothing(flag int) (*os.File, error) {
	f, err := os.OpenFile(os.DevNull, flag, 0)
	if err == nil {
		o.opened = append(o.opened, f)
	}
	return f, err
}

// output is what the command writes to: the host's file itself where nobody has to see what goes there or where a file shows that it grows, and the pipe of a
// stream elsewhere.
func (o *stdio) output(to io.Writer, counts, tailed bool) (*os.File, error) {
	read := tailed || len(o.cfg.Terminal) > 0
	f, isFile := to.(*os.File)
	switch {
	case isFile && !read && !counts:
		return f, nil
	case isFile && !read:
		if file, ok := relay.WatchFile(f); ok {
			o.watched = append(o.watched, file)
			return f, nil
		}
	case to == nil && !read && !counts:
		return o.nothing(os.O_WRONLY)
	}
	return o.stream(to, counts, tailed)
}

func (o *stdio) stream(to io.Writer, counts, tailed bool) (*os.File, error) {
	cfg := relay.Config{To: to}
	if counts {
		cfg.Seen = func(int) { o.seen(time.Now()) }
	}
	var looks []func([]byte)
	if len(o.cfg.Terminal) > 0 {
		scanner := lines.New(o.cfg.Terminal, func(n int) { o.patterns <- n }) // there is room for each once a stream
		o.scanners = append(o.scanners, scanner)
		looks = append(looks, scanner.Look)
	}
	if tailed {
		looks = append(looks, func(p []byte) { _, _ = o.tail.Write(p) })
	}
	if len(looks) > 0 {
		cfg.Look = func(p []byte) {
			for _, look := range looks {
				look(p)
			}
		}
	}
	s, err := relay.Open(cfg)
	if err != nil {
		return nil, err
	}
	o.streams = append(o.streams, s)
	return s.Child(), nil
}

// seen notes an output.
func (o *stdio) seen(at time.Time) {
	o.last.Store(int64(max(at.Sub(o.began), 1)))
	o.alive()
}

// start begins to pass on, after the command has its descriptors.
func (o *stdio) start() {
	for _, s := range o.streams {
		s.Start()
	}
	o.closeOpened()
}

func (o *stdio) closeOpened() {
	for _, f := range o.opened {
		_ = f.Close() // nothing was written to it here
	}
	o.opened = nil
}

// look returns when the last output was, since the command began, and whether a reader holds it up.
func (o *stdio) look() (last time.Duration, blocked bool) {
	for _, f := range o.watched {
		if at, changed := f.Changed(); changed {
			o.seen(at)
		}
	}
	for _, s := range o.streams {
		_, waits := s.Blocked()
		blocked = blocked || waits
	}
	return time.Duration(o.last.Load()), blocked
}

// drain waits until all output of a command that is gone was passed on, however slowly it is read, or until the caller or the run gives up. It calls slow where it has to
// wait.
func (o *stdio) drain(slow func(), caller, run <-chan struct{}) {
	timer := time.NewTimer(quickestLook)
	defer timer.Stop()
	for _, s := range o.streams {
		s.Drain()
		for waits := true; waits; {
			select {
			case <-timer.C:
				slow()
			case <-s.Done():
				waits = false
			case <-caller:
				return
			case <-run:
				return
			}
		}
	}
}

// close ends what was opened. The readers of the output have the time wait to take what is left.
func (o *stdio) close(wait time.Duration) error {
	o.closeOpened()
	for _, f := range o.watched {
		_ = f.Close() // nothing was written to it here
	}
	until := time.Now().Add(wait)
	var all error
	for _, s := range o.streams {
		all = errors.Join(all, s.Finish(max(time.Until(until), 0)))
	}
	if all == nil { // every stream has ended, and with it the last look
		for _, s := range o.scanners {
			s.End()
		}
	}
	return all
}
