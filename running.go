package watchdog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/driver"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/looper"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/record"
)

// A run is a run of package driver in the words of this package. The lock guards what changes and is not atomic.
type run struct {
	driver.Run
	settings

	digests atomic.Pointer[digests]
	readers atomic.Pointer[readers]
	account atomic.Pointer[account] // nil while nothing is counted

	stop *Stop   // once fired
	more *extras // nil if there is nothing in them
}

// extras are what few runs have.
type extras struct {
	attempt Attempt
	keeper  func(context.Context) // tells the keeper of the end, nil if there is none
	looper  *looper.Looper        // nil before the first step
	// resumeInDoubt tells that it was not resumed, and that the store may have the resume all the same.
	resumeInDoubt bool
}

// extras are made at the first need. The caller holds the lock.
func (r *run) extras() *extras {
	if r.more == nil {
		r.more = &extras{}
	}
	return r.more
}

// around is the run around a layer, nil for a session.
func (r *run) around() *run {
	outer := r.Outer()
	if outer == nil {
		return nil
	}
	return outer.Host().(*run)
}

// poll looks at the run and carries out what it finds. It returns the stop once there is one.
func (r *run) poll() *Stop { return asStop(r.Poll()) }

// asStop is the stop that a cause is.
func asStop(cause error) *Stop {
	stop, _ := cause.(*Stop) //nolint:errorlint // as [run.Stopped] returned it
	return stop
}

// adopt does what the store says, unless the run has ended meanwhile. The caller has waited since began.
func (r *run) adopt(found *fold.Window, began time.Time) (*Stop, error) {
	stop, adopted := r.Adopt(found, began)
	if !adopted {
		return r.howEnded()
	}
	return asStop(stop), nil
}

// howEnded is the stop of a run that has ended, or an error that says how it ended.
func (r *run) howEnded() (stop *Stop, err error) {
	r.Locked(func() { stop = r.stop })
	if stop == nil {
		err = r.errEnded()
	}
	return stop, err
}

// errEnded says how the run has ended.
func (r *run) errEnded() error { return fmt.Errorf("%w: %w", ErrEnded, r.Cause()) }

// Log implements [driver.Host].
func (r *run) Log() *slog.Logger { return r.log() }

// Busy implements [driver.Host].
func (r *run) Busy() bool { return r.busyHost() }

// Stopped implements [driver.Host].
func (r *run) Stopped(stop *record.Cancel) error {
	r.stop = stopOf(stop, r.Node.Run)
	if all := r.readers.Load(); all != nil { // else the first one finds it
		all.End(r.stop.directive())
	}
	return r.stop
}

// Asks implements [driver.Host].
func (r *run) Asks(e *machine.Entry) { r.readersOf().Line(e, *r.directiveOf(e.Notice)) }

// Asked implements [driver.Host].
func (r *run) Asked(e *machine.Entry) { r.readersOf().Tried(e) }

// Again implements [driver.Host]. It is the directive that was put in line: hosts compare what ended their work with
// what they poll.
func (r *run) Again(e *machine.Entry) error {
	if d, ok := r.readersOf().Lined(e); ok {
		return &d
	}
	return r.directiveOf(e.Notice)
}

// Traced implements [driver.Host].
func (r *run) Traced(s *machine.Signal) { r.signals.Add(r.signalOf(s)) }

// Warns implements [driver.Host].
func (r *run) Warns() bool { return r.onWarning != nil }

// Warn implements [driver.Host].
func (r *run) Warn(o *machine.Notice) {
	r.CallHost("OnWarning", func() { r.onWarning(r.warningOf(o)) })
}

// Deliver implements [driver.Host].
func (r *run) Deliver(here bool) { r.readers.Load().Deliver(here) }

// ReportStop implements [driver.Host]. It skips formatting when Warn is off: ten thousand runs can stop at once.
func (r *run) ReportStop(recordErr error) {
	log, stop := r.log(), r.stop
	if !log.Enabled(context.Background(), slog.LevelWarn) {
		return
	}
	if recordErr != nil {
		log.Error("watchdog stopped a run and could not record it", "run", r.Node.Run, "reason", string(stop.Code), "error",
			recordErr)
		return
	}
	log.Warn("watchdog stopped a run", "run", r.Node.Run, "reason", string(stop.Code), "elapsed", stop.Elapsed, "budget",
		stop.Budget)
}

// close does what is left to do for a run that has ended by it, or before.
func (r *run) close(began time.Time) (err error) {
	t, told := r.Tree, r.TellAside()
	spending := clocks.Now(t.Clock)
	spent := r.account.Load().close()
	defer func() {
		t.Await(spending, spent)
		if r.Outer() == nil {
			err = errors.Join(err, t.Shared.Load().Unpaid())
		}
	}()
	t.Await(began, r.Record.Underway())
	defer r.tellKeeper(began)
	if r.Record.Waiting() {
		if err := r.Record.Flush(); err != nil {
			return err
		}
	}
	r.closeSteps(t.Left(began))
	t.Await(began, told)
	return nil
}
