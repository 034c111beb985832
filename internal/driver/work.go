package driver

import (
	"context"
	"time"

	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/lane"
)

// A Work is what a step leaves to do once the lock is free.
type Work struct {
	// At is when the step was taken. Stop is the cause of the run that it was about, once that has fired; Ending its end
	// while that is recorded.
	At     time.Time
	Stop   error
	Ending *lane.Ending

	record []*lane.Recorder // of runs that have something to record
	later  []*lane.Recorder // whose store is to be asked again later
	again  []func()         // ends work that is to be begun again
	left   []func()         // code of the host's that nobody waits for
	behind bool             // the store lacks something of the run, or the host was not told of something
}

func (k *Work) nothing() bool {
	return len(k.record)+len(k.later)+len(k.again)+len(k.left) == 0
}

// Idle reports that a poll has nothing else to do either.
func (k *Work) Idle() bool { return k.nothing() && k.Ending == nil && !k.behind }

// Records reports whether there is something to record.
func (k *Work) Records() bool { return len(k.record) > 0 }

// recordOf has what the run has decided recorded. The caller holds the lock.
func (k *Work) recordOf(r *Run) {
	if r.Record.Want() {
		k.record = append(k.record, &r.Record)
	}
}

func (k *Work) endAll(works []*Dependent, cause error) {
	for _, one := range works {
		k.again = append(k.again, func() { one.cancel(cause) })
	}
}

// doTogether does the work of several sessions on other goroutines.
func doTogether(all []Work) {
	var record []*lane.Recorder
	for i := range all {
		k := &all[i]
		record = append(record, k.record...)
		k.record = nil
		k.doAside()
	}
	lane.Enqueue(record...)
}

// doAside does the work on other goroutines.
func (k *Work) doAside() {
	k.endWorks()
	lane.Enqueue(k.record...)
	k.finish()
}

// Pass does the work for a caller that has waited since began. With PollOnly it is done here, and waits for the store
// no longer than the record time-out since then. The host is told later.
func (k *Work) Pass(t *Tree, began time.Time) {
	if !k.nothing() {
		defer k.finish() // also if the store ends this goroutine
		k.endWorks()
		if t.Inline {
			lane.CarryAll(k.record, began)
		} else {
			lane.Enqueue(k.record...)
		}
	}
}

func (k *Work) endWorks() {
	for _, end := range k.again {
		end()
	}
}

// finish does what nobody waits for.
func (k *Work) finish() {
	for _, r := range k.later {
		r.TryLater()
	}
	if left := k.left; len(left) > 0 {
		go bounded.Each(left, bounded.Quietly)
	}
}

// A Dependent is something that a run ends, or lets go of, when it ends: work under a context, or a registration.
type Dependent struct {
	cancel       context.CancelCauseFunc // of work, which a directive ends, too
	stop         func() bool             // of a registration
	next, before *Dependent
}

// join puts it among those of the run. The caller holds the lock.
func (d *Dependent) join(r *Run) {
	if d.next = r.dependents; d.next != nil {
		d.next.before = d
	}
	r.dependents = d
}

// leave takes it from those of the run. It does nothing for one that was taken. The caller holds the lock.
func (d *Dependent) leave(r *Run) {
	switch {
	case d.before != nil:
		d.before.next = d.next
	case r.dependents == d:
		r.dependents = d.next
	}
	if d.next != nil {
		d.next.before = d.before
	}
	d.next, d.before = nil, nil
}

// Begin has the run end work when it ends or asks for it to be done again, by cancel, on another goroutine. It reports
// whether the run goes on; if not, nothing is begun.
func (d *Dependent) Begin(r *Run, cancel context.CancelCauseFunc) (begun bool) {
	r.Locked(func() {
		if begun = !r.over(); begun {
			d.cancel = cancel
			d.join(r)
		}
	})
	return begun
}

// Register has the run call stop when it ends, on another goroutine, unless done reports under the lock that there is
// no need any more. It reports whether it will.
func (d *Dependent) Register(r *Run, stop func() bool, done func() bool) (registered bool) {
	r.Locked(func() {
		if registered = !done(); registered {
			d.stop = stop
			d.join(r)
		}
	})
	return registered
}

// End has the run forget it. It returns what stops the registration, nil if nothing does any more.
func (d *Dependent) End(r *Run) (stop func() bool) {
	r.Locked(func() {
		d.leave(r)
		stop, d.stop = d.stop, nil
	})
	return stop
}

// takeWorks takes the work that is under way. The caller holds the lock.
func (r *Run) takeWorks() (all []*Dependent) {
	for d := r.dependents; d != nil; {
		next := d.next
		if d.cancel != nil {
			d.leave(r)
			all = append(all, d)
		}
		d = next
	}
	return all
}

// endDependents has everything ended that the run ends with. The caller holds the lock.
func (r *Run) endDependents(k *Work, cause error) {
	for r.dependents != nil {
		d := r.dependents
		d.leave(r)
		stop, cancel := d.stop, d.cancel
		d.stop = nil
		if cancel != nil {
			k.left = append(k.left, func() { cancel(cause) })
		} else {
			k.left = append(k.left, func() { stop() })
		}
	}
}
