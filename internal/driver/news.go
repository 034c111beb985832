package driver

import (
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/lane"
	"github.com/seed62658d38/watchdog/internal/machine"
)

// news are what the host is to be told of a run once what is recorded was tried: each call of its code may block, or
// call the watchdog. The lock guards them until they are taken.
type news struct {
	warnings []*machine.Notice
	logs     []func()
	stopped  bool
	stopErr  error         // why the stop is not recorded
	told     chan struct{} // closed when the host was told; nil if nobody waits for that
}

// newsOf are made at the first need. The caller holds the lock.
func (r *Run) newsOf() *news {
	if r.news == nil {
		r.news = &news{}
	}
	return r.news
}

func (r *Run) takeNews() (n *news) {
	r.Locked(func() { n, r.news = r.news, nil })
	return n
}

// LogLoss tells the log that something was not recorded.
func (r *Run) LogLoss(lost *machine.Loss, err error) {
	args := append(append([]any{"run", r.Node.Run}, lost.Args...), "error", err)
	r.host.Log().Error("watchdog could not record "+lost.What, args...) //nolint:sloglint // one of five
}

// tellHost tells the host on this goroutine, everything also if a part of it ends the goroutine. The caller holds no
// lock, and nobody waits for it but, with PollOnly, the host itself.
func (r *Run) tellHost(n *news) {
	if n == nil {
		return
	}
	defer func() {
		if n.told != nil {
			close(n.told)
		}
	}()
	defer func() {
		if n.stopped {
			bounded.Quietly(func() { r.host.ReportStop(n.stopErr) })
		}
	}()
	defer bounded.Each(n.logs, bounded.Quietly)
	defer bounded.Each(n.warnings, r.host.Warn)
	r.host.Deliver(r.Tree.Inline)
}

// TellSince tells the host. The caller, who has waited since began, waits for it no longer than the time-out in all,
// unless there is no other goroutine.
func (r *Run) TellSince(began time.Time) { r.Tree.Await(began, r.TellAside()) }

// TellAside tells the host on another goroutine, unless there is none. It returns a channel that is closed when that is
// done, nil if it is.
func (r *Run) TellAside() (told <-chan struct{}) {
	n := r.takeNews()
	switch {
	case r.Tree.Inline:
		r.tellHost(n)
	case n != nil:
		return bounded.Aside(func() { r.tellHost(n) })
	}
	return nil
}

// CallHost calls the host, whose panic must not end the process from a goroutine of the watchdog's. The log gets the
// type of the value and where it happened: what the value says may be a secret.
func (r *Run) CallHost(in string, call func()) {
	if p := bounded.Guard(call); p != nil {
		bounded.Quietly(func() {
			r.host.Log().Error("the host panicked in a call of the watchdog", "run", r.Node.Run, "in", in,
				"panic_type", fmt.Sprintf("%T", p.Value), "stack", string(p.Stack))
		})
	}
}

// LogSince has the log told of something. The caller, who has waited since began, waits for it no longer than the
// time-out in all, unless there is no other goroutine.
func (r *Run) LogSince(began time.Time, log func()) {
	if r.Tree.Inline {
		bounded.Quietly(log)
		return
	}
	r.Tree.Await(began, bounded.Aside(func() { bounded.Quietly(log) }))
}

// Machine implements [lane.Run].
func (r *Run) Machine() *machine.Node { return &r.Node }

// Conclude implements [lane.Run]. What the host is to be told is left to the caller: whoever waits for the end must not
// wait for the host.
func (r *Run) Conclude(e *lane.Ending, known *fold.Window, err error) {
	t := r.Tree
	parent := t.parentEnd()
	var k Work
	r.Locked(func() {
		defer close(e.Done)
		t.stepAt(&k, t.now(parent), r, &machine.Input{Kind: machine.Recorded, Window: known})
		r.Record.End(nil)
		n := r.newsOf()
		n.told, n.stopErr = e.Told, err
	})
	k.Pass(t, clocks.Now(t.Clock))
}

// Tried implements [lane.Run].
func (r *Run) Tried(entries []*machine.Entry) {
	for _, e := range entries {
		n := r.newsOf()
		switch o := e.Notice; {
		case o == nil:
		case o.Directive():
			r.host.Asked(e)
		case r.host.Warns():
			n.warnings = append(n.warnings, o)
		}
		if err, lost := e.Err(), e.Lost(); err != nil && lost != nil {
			n.logs = append(n.logs, func() { r.LogLoss(lost, err) })
		}
	}
}

// Tell implements [lane.Run].
func (r *Run) Tell(here bool) (log func()) {
	n := r.takeNews()
	switch {
	case here:
		r.tellHost(n)
	case n == nil:
	case len(n.warnings) > 0:
		go r.tellHost(n)
	default:
		r.host.Deliver(false)
		return func() { r.tellHost(n) }
	}
	return nil
}
