package sweep

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/session"
)

// lookUpFor is how long a pass looks up cancels in doubt before it goes on to its sessions. The other cancels are
// looked up by the next pass.
const lookUpFor = 30 * time.Second

// maxUnreached is how many sessions in a row may fail and then not be read either. After that the database is at fault.
const maxUnreached = 3

// A fate is what became of a session whose cancel was not answered.
type fate int

const (
	fateActive    fate = iota // nothing: it is judged as usual
	fateCancelled             // this sweeper cancelled it
	fateElse                  // it ended in another way
)

func (w *walk) readSession(ctx context.Context, runID string) (session.Session, error) {
	return limited(ctx, w.cfg.RecordTimeout, func(ctx context.Context) (session.Session, error) {
		return w.reader.Session(ctx, runID)
	})
}

// fateOf reads what became of a session whose cancel was not answered.
func (w *walk) fateOf(ctx context.Context, m pending) (fate, error) {
	row, err := w.readSession(ctx, m.doubt.Session.RunID)
	switch {
	case errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrUnreadable):
		return fateElse, nil
	case err != nil:
		return 0, fmt.Errorf("look up the cancel of run %s: %w", m.doubt.Session.RunID, err)
	case row.Status == session.Active:
		return fateActive, nil
	case row.Status == session.Cancelled && row.Claim == m.by && row.Reason == m.doubt.Reason():
		return fateCancelled, nil
	}
	return fateElse, nil
}

// settle handles a session by its fate. It reports false if the session is active.
func (w *walk) settle(ctx context.Context, m pending, became fate) bool {
	switch became {
	case fateCancelled:
		w.logger().Warn("the answer about a cancel was lost, and the session was cancelled", m.doubt.attrs()...)
		w.cancelled(ctx, *m.doubt, m)
	case fateElse:
		w.spared(*m.doubt)
	default:
		return false
	}
	return true
}

// lookUpDoubts looks up the sessions whose cancel was not answered in the passes before, also those that are not found
// any more. It stops if the database cannot be read.
func (w *walk) lookUpDoubts(ctx context.Context) {
	if w.reader == nil {
		return
	}
	began, unreached := time.Now(), 0
	for _, runID := range slices.Sorted(maps.Keys(w.pending)) {
		m := *w.pending[runID]
		switch {
		case ctx.Err() != nil || unreached >= maxUnreached || time.Since(began) > lookUpFor:
			return
		case !m.lookUp:
			continue
		}
		became, err := w.fateOf(context.WithoutCancel(ctx), m)
		if err != nil {
			unreached++
			w.addError(err)
			continue
		}
		unreached = 0
		if !w.settle(context.WithoutCancel(ctx), m, became) {
			m.lookUp = false
			w.pending.keep(runID, m)
		}
	}
}

// inDoubt handles an error of Cancel, which may have been committed all the same: the row decides. It returns an error
// if the pass has to end.
func (w *walk) inDoubt(ctx context.Context, c Case, m pending, err error) error {
	m.doubt, m.lookUp = &c, true
	if w.reader == nil || w.unreached >= maxUnreached {
		w.noteStopped(ctx, c, m)
		return w.failed(c, m, err)
	}
	became, lookUpErr := w.fateOf(ctx, m)
	switch {
	case lookUpErr != nil:
		w.unreached++
		err = errors.Join(err, lookUpErr)
	case w.settle(ctx, m, became):
		return nil
	default:
		w.unreached = 0
		w.noteStopped(ctx, c, m)
		m.lookUp = false // a later answer of Cancel, or a pass that does not find it, has it looked up again
	}
	if failure := w.failed(c, m, err); failure != nil {
		return failure
	}
	if w.unreached >= maxUnreached {
		return fmt.Errorf("%d sessions in a row failed and cannot be read, the last: %w", w.unreached, err)
	}
	return nil
}
