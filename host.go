package watchdog

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/machine"
)

// news are what the host is to be told of a run once what is recorded was tried: each call of its code may block, or
// call the watchdog. The tree's mu guards them until they are taken.
type news struct {
	warnings []Warning
	logs     []func()
	stop     *Stop
	stopErr  error         // why the stop is not recorded
	told     chan struct{} // closed when the host was told; nil if nobody waits for that
}

// newsOf are made at the first need. The caller holds mu.
func (r *run) newsOf() *news {
	if r.news == nil {
		r.news = &news{}
	}
	return r.news
}

// takeNews takes what the host is to be told, nil for nothing.
func (r *run) takeNews() (n *news) {
	r.locked(func() { n, r.news = r.news, nil })
	return n
}

// Tried implements [lane.Run].
func (r *run) Tried(entries []*machine.Entry) {
	for _, e := range entries {
		n := r.newsOf()
		switch o := e.Notice; {
		case o == nil:
		case o.Directive():
			r.readersOf().Tried(e)
		default:
			n.warnings = append(n.warnings, r.warningOf(o))
		}
		if err, lost := e.Err(), e.Lost(); err != nil && lost != nil {
			n.logs = append(n.logs, func() { r.logLoss(lost, err) })
		}
	}
}

// logLoss tells the log that something was not recorded.
func (r *run) logLoss(lost *machine.Loss, err error) {
	args := append(append([]any{"run", r.node.Run}, lost.Args...), "error", err)
	r.log().Error("watchdog could not record "+lost.What, args...) //nolint:sloglint // one of five
}

// callsBack reports whether more than a log is to be told.
func (n *news) callsBack(r *run) bool {
	return n != nil && r.onWarning != nil && len(n.warnings) > 0 || r.tree.trace.Waiting()
}

// tellHost tells the host on this goroutine, everything also if a part of it ends the goroutine. The caller holds no
// lock, and nobody waits for it but, with PollOnly, the host itself.
func (r *run) tellHost(n *news) {
	if n == nil {
		r.tree.trace.Deliver()
		return
	}
	defer func() {
		if n.told != nil {
			close(n.told)
		}
	}()
	defer func() {
		if n.stop != nil {
			bounded.Quietly(func() { r.report(n.stop, n.stopErr) })
		}
	}()
	defer bounded.Each(n.logs, bounded.Quietly)
	defer r.tell(n.warnings)
	defer r.tree.trace.Deliver()
	r.readers.Load().Deliver(r.tree.Inline)
}

// Tell implements [lane.Run].
func (r *run) Tell(here bool) (log func()) {
	n := r.takeNews()
	switch {
	case here:
		r.tellHost(n)
	case n == nil && !r.tree.trace.Waiting():
	case n.callsBack(r):
		go r.tellHost(n)
	default:
		r.readers.Load().Deliver(false)
		return func() { r.tellHost(n) }
	}
	return nil
}

// tellSince tells the host. The caller, who has waited since began, waits for it no longer than the timeout in all,
// unless there is no other goroutine.
func (r *run) tellSince(began time.Time) { r.tree.Await(began, r.tellAside()) }

// tellAside tells the host on another goroutine, unless there is none. It returns a channel that is closed when that is
// done, nil if it is.
func (r *run) tellAside() (told <-chan struct{}) {
	n := r.takeNews()
	switch {
	case r.tree.Inline:
		r.tellHost(n)
	case n != nil || r.tree.trace.Waiting():
		return bounded.Aside(func() { r.tellHost(n) })
	}
	return nil
}

// tell tells of warnings.
func (r *run) tell(warnings []Warning) {
	if r.onWarning == nil {
		return
	}
	bounded.Each(warnings, func(warning Warning) {
		r.callHost("OnWarning", func() { r.onWarning(warning) })
	})
}

// report tells the log of a stop. It skips formatting when Warn is off: ten thousand runs can stop at once.
func (r *run) report(stop *Stop, recordErr error) {
	log := r.log()
	if !log.Enabled(context.Background(), slog.LevelWarn) {
		return
	}
	if recordErr != nil {
		log.Error("watchdog stopped a run and could not record it", "run", r.node.Run, "reason", string(stop.Code), "error",
			recordErr)
		return
	}
	log.Warn("watchdog stopped a run", "run", r.node.Run, "reason", string(stop.Code), "elapsed", stop.Elapsed, "budget",
		stop.Budget)
}

// callHost calls the host, whose panic must not end the process from a goroutine of the watchdog's. The log gets the
// type of the value and where it happened: what the value says may be a secret.
func (r *run) callHost(in string, call func()) {
	if p := bounded.Guard(call); p != nil {
		bounded.Quietly(func() {
			r.log().Error("the host panicked in a call of the watchdog", "run", r.node.Run, "in", in,
				"panic_type", fmt.Sprintf("%T", p.Value), "stack", string(p.Stack))
		})
	}
}
