package watchdog

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/seed62658d38/watchdog/internal/machine"
)

// news are what the host is to be told of a run once what is recorded was tried: each call of its code may block, or
// call the watchdog. The tree's mu guards them until they are taken.
type news struct {
	asleep   []*subscriber
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

// tried has the host told of entries whose record was tried. The caller holds mu.
func (r *run) tried(entries []*machine.Entry) {
	for _, e := range entries {
		n := r.newsOf()
		switch o := e.Notice; {
		case o == nil:
		case o.Directive():
			n.asleep = append(n.asleep, r.letGo(e)...)
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

func (n *news) takeAsleep() []*subscriber {
	if n == nil {
		return nil
	}
	asleep := n.asleep
	n.asleep = nil
	return asleep
}

// callsBack reports whether more than a log is to be told.
func (n *news) callsBack(r *run) bool {
	return n != nil && r.onWarning != nil && len(n.warnings) > 0 || r.tree.trace.waiting()
}

// tellHost tells the host on this goroutine, everything also if a part of it ends the goroutine. The caller holds no
// lock, and nobody waits for it but, with PollOnly, the host itself.
func (r *run) tellHost(n *news) {
	if n == nil {
		r.tree.deliverTrace()
		return
	}
	defer func() {
		if n.told != nil {
			close(n.told)
		}
	}()
	defer func() {
		if n.stop != nil {
			callLog(func() { r.report(n.stop, n.stopErr) })
		}
	}()
	defer each(n.logs, callLog)
	defer r.tell(n.warnings)
	defer r.tree.deliverTrace()
	r.wake(n.takeAsleep())
}

// tellSince tells the host. The caller, who has waited since began, waits for it no longer than the timeout in all,
// unless there is no other goroutine.
func (r *run) tellSince(began time.Time) { r.tree.awaitSince(began, r.tellAside()) }

// tellAside tells the host on another goroutine, unless there is none. It returns a channel that is closed when that is
// done, nil if it is.
func (r *run) tellAside() (told <-chan struct{}) {
	n := r.takeNews()
	switch {
	case r.tree.inline:
		r.tellHost(n)
	case n != nil || r.tree.trace.waiting():
		return aside(func() { r.tellHost(n) })
	}
	return nil
}

// tell tells of warnings.
func (r *run) tell(warnings []Warning) {
	if r.onWarning == nil {
		return
	}
	each(warnings, func(warning Warning) {
		r.callHost("OnWarning", func() { r.onWarning(warning) })
	})
}

// deliverTrace tells the host what was traced. The caller holds no lock.
func (t *tree) deliverTrace() {
	if t.trace != nil {
		t.trace.deliver(t.session[0])
	}
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

// wake calls the subscribers: with PollOnly on this goroutine, else each on one of its own.
func (r *run) wake(asleep []*subscriber) {
	each(asleep, func(s *subscriber) {
		if r.tree.inline {
			r.drain(r.readersOf(), s)
			return
		}
		go r.drain(r.readersOf(), s)
	})
}

// drain calls the subscriber until it has every directive that there is for it. If a call ends this goroutine, another
// takes over, or with PollOnly this one before it ends.
func (r *run) drain(from *readers, s *subscriber) {
	drained := false
	defer func() {
		if !drained {
			r.wake([]*subscriber{s})
		}
	}()
	for {
		from.mu.Lock()
		d, ok := s.box.take()
		if !ok || s.gone {
			s.calling, drained = false, true
			from.mu.Unlock()
			return
		}
		from.mu.Unlock()
		r.delivered(&d)
		r.callHost("Subscribe", func() { s.call(d) })
	}
}

// callHost calls the host, whose panic must not end the process from a goroutine of the watchdog's. The log gets the
// type of the value and where it happened: what the value says may be a secret.
func (r *run) callHost(onPanic string, call func()) {
	defer func() {
		if p := recover(); p != nil {
			stack := string(debug.Stack())
			callLog(func() {
				r.log().Error("the host panicked in a call of the watchdog", "run", r.node.Run, "in", onPanic,
					"panic_type", fmt.Sprintf("%T", p), "stack", stack)
			})
		}
	}()
	call()
}

// callLog calls the host's log. If that panics there is nobody to tell, and the process must not end for it.
func callLog(log func()) {
	defer func() { _ = recover() }()
	log()
}

// callLogSince is callLog for a caller that has waited since began, and waits for the log no longer than the timeout in
// all, unless there is no other goroutine.
func (t *tree) callLogSince(began time.Time, log func()) {
	if t.inline {
		callLog(log)
		return
	}
	t.awaitSince(began, aside(func() { callLog(log) }))
}

// each makes the call for every element, also if one of them ends this goroutine.
func each[T any](all []T, call func(T)) {
	if len(all) == 0 {
		return
	}
	defer each(all[1:], call)
	call(all[0])
}

// aside makes a call that may block, or end its goroutine, on another one. It returns a channel that is closed when the
// call has ended.
func aside(call func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		call()
	}()
	return done
}
