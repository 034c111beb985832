package driver

import (
	"context"

	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/lane"
	"github.com/seed62658d38/watchdog/internal/machine"
)

// A carried is a run as the lanes have it.
type carried Run

// Lock implements [lane.Run].
func (r *carried) Lock() { r.Tree.mu.Lock() }

// Unlock implements [lane.Run].
func (r *carried) Unlock() { r.Tree.mu.Unlock() }

// Machine implements [lane.Run].
func (r *carried) Machine() *machine.Node { return &r.Node }

// Values implements [lane.Run].
func (r *carried) Values() context.Context { return context.WithoutCancel(r.inner) }

// Closed implements [lane.Run].
func (r *carried) Closed() bool { return (*Run)(r).closed() }

// Owes implements [lane.Run].
func (r *carried) Owes() bool { return r.outer == nil && r.Tree.Shared().Uncovered() }

// Cover implements [lane.Run].
func (r *carried) Cover() error {
	if r.outer != nil || r.Closed() {
		return nil
	}
	return r.Tree.Shared().Cover(nil)
}

// Conclude implements [lane.Run]. What the host is to be told is left to the caller: whoever waits for the end must not
// wait for the host.
func (r *carried) Conclude(e *lane.Ending, known *fold.Window, err error) {
	t := r.Tree
	parent := t.parentEnd()
	run := (*Run)(r)
	var k Work
	run.Locked(func() {
		defer close(e.Done)
		t.stepAt(&k, t.now(parent), run, &machine.Input{Kind: machine.Recorded, Window: known})
		r.Record.End(nil)
		n := (*Run)(r).newsOf()
		n.told, n.stopErr = e.Told, err
	})
	k.Pass(t, clocks.Now(t.Clock))
}

// Tried implements [lane.Run].
func (r *carried) Tried(entries []*machine.Entry) {
	for _, e := range entries {
		n := (*Run)(r).newsOf()
		switch o := e.Notice; {
		case o == nil:
		case o.Directive():
			r.host.Asked(e)
		case r.host.Warns():
			n.warnings = append(n.warnings, o)
		}
		if err, lost := e.Err(), e.Lost(); err != nil && lost != nil {
			n.logs = append(n.logs, func() { (*Run)(r).LogLoss(lost, err) })
		}
	}
}

// Tell implements [lane.Run].
func (r *carried) Tell(here bool) (log func()) {
	run := (*Run)(r)
	n := run.takeNews()
	switch {
	case here:
		run.tellHost(n)
	case n == nil && !r.Tree.tracing():
	case n != nil && len(n.warnings) > 0, r.Tree.tracing():
		go run.tellHost(n)
	default:
		r.host.Deliver(false)
		return func() { run.tellHost(n) }
	}
	return nil
}
