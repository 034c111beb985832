package stall

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/seed62658d38/watchdog/internal/relay"
	"github.com/seed62658d38/watchdog/internal/tty"
)

const (
	// fillBound is how long it may take to put the rest of the output into the host's pipes.
	fillBound = 5 * time.Second
	// slowAfter is how long a reader may take for the rest of the output before it counts as slow.
	slowAfter = 10 * time.Millisecond
)

// A stdio connects a command's standard input and output, and notes when output comes.
type stdio struct {
	cfg      *Config
	files    []*os.File // for the command
	opened   []*os.File // those of files that are not the host's
	streams  []*relay.Stream
	pipes    []pipe          // what StdinPipe, StdoutPipe and StderrPipe returned, even if the host wrapped it
	piped    []*relay.Stream // those of streams that go to one of pipes
	watched  []*relay.File
	matchers []*matcher
	tail     *tailBuffer
	terminal *tty.Terminal // in place of the host's, nil for none

	began    time.Time
	activity func()       // called for every output that counts
	last     atomic.Int64 // when the last output that counts came, since began; 0 for never
	patterns chan int     // indexes of the terminal patterns that were found

	asleep atomic.Bool   // whether the next output must send to woken
	woken  chan struct{} // there is output again
}

// openStdio opens the files that the command gets as its descriptors. If watched is set, it calls activity for every
// output that counts.
func openStdio(cmd *exec.Cmd, cfg *Config, pipes []pipe, watched bool, activity func()) (*stdio, error) {
	// Each of the two streams finds each pattern once, so that sending to patterns never blocks.
	o := &stdio{
		cfg: cfg, pipes: pipes, activity: activity,
		patterns: make(chan int, 2*len(cfg.Terminal)), woken: make(chan struct{}, 1),
	}
	if cfg.Tail != nil {
		o.tail = newTail(cfg.Tail.Bytes)
	}
	err := o.open(cmd, watched)
	if err != nil {
		return nil, errors.Join(err, o.close(0))
	}
	return o, nil
}

func (o *stdio) open(cmd *exec.Cmd, watched bool) error {
	counts := func(source ActivitySource) bool {
		return watched && (o.cfg.ActivitySource == ActivityAny || o.cfg.ActivitySource == source)
	}
	one := same(cmd.Stdout, cmd.Stderr) || o.dropsBoth(cmd) // then nothing says which of the two an output was written to
	out, err := o.output(cmd.Stdout, counts(ActivityStdout) || one && counts(ActivityStderr), one && o.tail != nil)
	if err != nil {
		return err
	}
	errs := out
	if !one {
		errs, err = o.output(cmd.Stderr, counts(ActivityStderr), o.tail != nil)
	}
	if err != nil {
		return err
	}
	in, err := o.input(cmd.Stdin)
	o.files = append([]*os.File{in, out, errs}, cmd.ExtraFiles...)
	return err
}

// dropsBoth reports whether both outputs are dropped and nobody needs to know which of the two a byte was written to.
// Then they share one pipe, too: it takes half of the files, and a goroutine less.
func (o *stdio) dropsBoth(cmd *exec.Cmd) bool {
	return cmd.Stdout == nil && cmd.Stderr == nil && o.cfg.ActivitySource == ActivityAny && o.tail == nil &&
		len(o.cfg.Terminal) == 0
}

// same reports whether both outputs go to the same writer. Then they share one pipe, which keeps their order.
func same(a, b io.Writer) (same bool) {
	if one, ok := a.(*os.File); ok {
		if other, ok := b.(*os.File); ok {
			return one == other || sameStream(one, other)
		}
	}
	defer func() { _ = recover() }() // comparing writers panics if their type is not comparable; then they differ
	return a != nil && a == b
}

// sameStream reports whether two files are the same pipe, terminal or file, as os.Stdout and os.Stderr are after 2>&1.
// Two descriptors of a regular file are the same only if they write to the same place in it.
func sameStream(a, b *os.File) bool {
	one, err := a.Stat()
	if err != nil {
		return false
	}
	other, err := b.Stat()
	return err == nil && os.SameFile(one, other) && (!one.Mode().IsRegular() || sameOffset(a, b))
}

// input returns the command's standard input. A goroutine copies a reader that is not a file into a pipe. The goroutine
// ends at the end of the reader, or with its first write after the command has ended.
func (o *stdio) input(from io.Reader) (*os.File, error) {
	switch from := from.(type) {
	case nil:
		return o.devNull(os.O_RDONLY)
	case *os.File:
		if o.terminal != nil && tty.IsOwn(from) {
			return o.terminal.Command(), nil
		}
		return from, nil
	case inputReader:
		o.opened = append(o.opened, from.pipe.child)
		return from.pipe.child, nil
	}
	r, w, err := openPipe()
	if err != nil {
		return nil, err
	}
	o.opened = append(o.opened, r)
	go func() {
		_, _ = io.Copy(w, from) // fails if the command does not read all of it, which is no error
		_ = w.Close()
	}()
	return r, nil
}

func (o *stdio) devNull(flag int) (*os.File, error) {
	f, err := os.OpenFile(os.DevNull, flag, 0)
	if err == nil {
		o.opened = append(o.opened, f)
	}
	return f, err
}

// output returns the file that the command writes to. This is the host's own file if nobody needs to see the output, or
// if the growth of the file is to show it. Otherwise it is the pipe of a stream, or the terminal of one.
func (o *stdio) output(to io.Writer, counts, tailed bool) (*os.File, error) {
	f, isFile := to.(*os.File)
	if !tailed && len(o.cfg.Terminal) == 0 { // nobody reads it
		switch {
		case isFile && (!counts || o.watchItself(f)):
			return f, nil
		case to == nil && !counts:
			return o.devNull(os.O_WRONLY)
		}
	}
	if o.lends(to) {
		return o.pseudoTerminal(f, counts, tailed)
	}
	return o.stream(relay.Config{To: to}, counts, tailed)
}

// watchItself begins to watch a regular file if the command is to get it as it is.
func (o *stdio) watchItself(f *os.File) bool {
	if !o.cfg.FileItself && !o.cfg.KeepBackground {
		return false
	}
	file, ok := relay.WatchFile(f)
	if ok {
		o.watched = append(o.watched, file)
	}
	return ok
}

// lends reports whether a stream of the command is the host's terminal, and becomes one of its own.
func (o *stdio) lends(stream any) bool {
	return o.cfg.TTY && !o.cfg.KeepBackground && tty.IsOwn(stream)
}

// pseudoTerminal returns what the command has in place of the host's terminal, for all of its streams that are that.
func (o *stdio) pseudoTerminal(to *os.File, counts, tailed bool) (_ *os.File, err error) {
	if o.terminal != nil {
		return o.terminal.Command(), nil
	}
	if o.terminal, err = tty.Open(); err != nil {
		return nil, err
	}
	_, err = o.stream(relay.Config{To: to, From: o.terminal.Output()}, counts, tailed)
	return o.terminal.Command(), err
}

// attributes returns the attributes of the command with those for its terminal.
func (o *stdio) attributes(own *syscall.SysProcAttr) *syscall.SysProcAttr {
	if o.terminal == nil {
		return own
	}
	return tty.Controls(own, slices.Index(o.files, o.terminal.Command()))
}

func (o *stdio) stream(cfg relay.Config, counts, tailed bool) (*os.File, error) {
	cfg.Seen, cfg.Full = func(int) { o.wake() }, o.wake
	if counts {
		cfg.Seen = func(int) { o.seen(time.Now()); o.wake() }
	}
	var looks []func([]byte)
	if len(o.cfg.Terminal) > 0 {
		m := newMatcher(o.cfg.Terminal, func(n int) { o.patterns <- n })
		o.matchers = append(o.matchers, m)
		looks = append(looks, m.look)
	}
	if tailed {
		looks = append(looks, o.tail.look)
	}
	if len(looks) > 0 {
		cfg.Look = func(p []byte) {
			for _, look := range looks {
				look(p)
			}
		}
	}
	w, piped := cfg.To.(outputWriter)
	if piped {
		cfg.End = w.pipe.finish
	}
	s, err := relay.Open(cfg)
	if err != nil {
		return nil, err
	}
	if piped {
		o.piped = append(o.piped, s)
	}
	o.streams = append(o.streams, s)
	return s.Child(), nil
}

func (o *stdio) seen(at time.Time) {
	o.last.Store(int64(max(at.Sub(o.began), 1)))
	o.activity()
}

// wake ends the sleep of whoever looks.
func (o *stdio) wake() {
	if o.asleep.Load() && o.asleep.CompareAndSwap(true, false) {
		select {
		case o.woken <- struct{}{}:
		default: // it was woken already
		}
	}
}

// sleep has the next output send to woken. It reports whether there is nothing to look at before that: no output came
// since the look that returned last.
func (o *stdio) sleep(last time.Duration) bool {
	select {
	case <-o.woken:
	default:
	}
	o.asleep.Store(true)
	return time.Duration(o.last.Load()) == last && !o.blocked()
}

// start starts to pass the output on. The command must have been started, because start closes the files that only the
// command needs.
func (o *stdio) start(tree tty.Tree) {
	if o.terminal != nil { // first: what is shown before its start has its lines ended twice
		o.terminal.Start(tree, o.wake)
	}
	for _, s := range o.streams {
		s.Start()
	}
	o.closeOpened()
}

func (o *stdio) closeOpened() {
	for _, f := range o.opened {
		_ = f.Close() // this process wrote nothing to it
	}
	o.opened = nil
}

// look returns when the last output came, since the start of the command, and whether a reader blocks the output.
func (o *stdio) look() (last time.Duration, blocked bool) {
	for _, f := range o.watched {
		if at, changed := f.Changed(); changed {
			o.seen(at)
		}
	}
	return time.Duration(o.last.Load()), o.blocked()
}

func (o *stdio) blocked() bool {
	if o.terminal.Stopped() {
		return true
	}
	for _, s := range o.streams {
		if _, waits := s.Blocked(); waits {
			return true
		}
	}
	return false
}

// keep lets processes that outlive the command go on writing.
func (o *stdio) keep() {
	for _, s := range o.streams {
		s.Keep()
	}
}

// end says that the command's tree has ended: what is in its pipes now is the last of its output, and nothing waits for
// a host that does not read.
func (o *stdio) end() {
	o.terminal.EndInput()
	for _, s := range o.streams {
		s.Drain()
	}
	for _, p := range o.pipes {
		p.end()
	}
}

// drain waits until all output of an ended command is passed on, however slow its reader is, or until the caller's
// context or the run ends. It calls slow if it has to wait.
func (o *stdio) drain(slow func(), caller, run <-chan struct{}) {
	o.end()
	timer := time.NewTimer(slowAfter)
	defer timer.Stop()
	for _, s := range o.streams {
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

// fillPipes waits until the pipes hold the rest of the output. They wait for no host, so that only a machine without
// time for it takes long.
func (o *stdio) fillPipes() {
	o.end()
	timer := time.NewTimer(fillBound)
	defer timer.Stop()
	for _, s := range o.piped {
		select {
		case <-s.Done():
		case <-timer.C:
			return
		}
	}
}

// close closes all files and streams. It gives the readers of the output at most wait to take the rest.
func (o *stdio) close(wait time.Duration) error {
	o.closeOpened()
	o.end()
	for _, f := range o.watched {
		_ = f.Close() // this process wrote nothing to it
	}
	until := time.Now().Add(wait)
	var all error
	for _, s := range o.streams {
		all = errors.Join(all, s.Finish(max(time.Until(until), 0)))
	}
	for _, m := range o.matchers {
		m.end()
	}
	o.terminal.Close()
	return all
}
