package sweep

import (
	"context"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/internal/verdict"
	"github.com/seed62658d38/watchdog/session"
)

// sessions goes through the sessions of a page. It stops and reports true when the page has become stale. It goes on
// after the cancels that were planned, because not all of them may have been done.
func (w *walk) sessions(ctx context.Context, found page) (stale bool, err error) {
	for more := true; more && !stale && err == nil; {
		stale, err = w.judgeAll(ctx, found)
		more = len(w.planned) > 0
		if err == nil {
			err = w.cancelPlanned(ctx)
		}
	}
	w.planned = nil // those of a pass that ends are found again
	return stale, err
}

// judgeAll judges the sessions of a page, until the page has become stale. When the pass is full it leaves those that
// count.
func (w *walk) judgeAll(ctx context.Context, found page) (stale bool, err error) {
	for _, s := range found.Sessions {
		switch {
		case ctx.Err() != nil:
			return false, stopped(ctx)
		case w.seen["run "+s.RunID] || w.full() && w.counts(s):
			continue
		case time.Since(found.came) > stalePage:
			return true, nil
		}
		w.seen["run "+s.RunID] = true
		w.pending.saw(s.RunID, w.number)
		if err := w.judge(context.WithoutCancel(ctx), s, found); err != nil {
			return false, err
		}
	}
	return false, nil
}

// judge decides whether a session is stalled, and acts if it is. An error ends the pass.
func (w *walk) judge(ctx context.Context, s session.Session, found page) error {
	if flaw := rowFlaw(s); flaw != "" {
		w.addUnreadable("run "+s.RunID, fmt.Errorf("%w: run %q: %s", session.ErrUnreadable, s.RunID, flaw))
		return nil
	}
	w.pass.Checked++
	now := found.now()
	c := Case{Session: s, Silence: s.SilentFor(now), Threshold: w.thresholdOf(s)}
	limits, age := verdict.SessionLimits{Threshold: c.Threshold, MinAge: w.query.MinAge}, now.Sub(s.CreatedAt)
	if s.Status != session.Active || !verdict.Stalled(limits, age, c.Silence) {
		return nil
	}
	w.pass.Found++
	if s.Lease == "" && !verdict.Stalled(limits, age, w.certain(c.Silence)) {
		w.pass.Deferred++
		return nil
	}
	w.tryBegan = time.Now()
	return w.act(ctx, c, now)
}

func (w *walk) thresholdOf(s session.Session) time.Duration {
	return verdict.SessionThreshold(s.Threshold, w.query.Threshold, s.Allowance)
}

// rowFlaw says what makes a row unreadable, or returns "". Such a row is never cancelled.
func rowFlaw(s session.Session) string {
	switch {
	case s.RunID == "":
		return "it has no name"
	case s.CreatedAt.IsZero():
		return "it has no time of creation"
	case s.Threshold < 0:
		return fmt.Sprintf("its threshold is %v", s.Threshold)
	}
	return ""
}

func (w *walk) act(ctx context.Context, c Case, now time.Time) error {
	m := w.pending.of(c.Session)
	switch {
	case w.pass.DryRun:
		if w.counts(c.Session) {
			w.counted++
		}
		w.addCase(c, CaseWouldCancel)
		w.logger().Info("a stalled session would be cancelled", c.attrs()...)
		return nil
	case time.Now().Before(m.next) || m.failures > 0 && w.retried >= retryingFor:
		w.pass.Deferred++
		return nil
	}
	if waits, err := w.inGrace(ctx, c, m, now); waits {
		return err
	}
	if w.cancels() >= w.most && w.counts(c.Session) {
		w.pass.Deferred++
		return nil
	}
	if w.together(c.Session) {
		w.plan(c, m, now)
		return nil
	}
	if err := w.cancelPlanned(ctx); err != nil { // they come before this session
		return err
	}
	return w.cancel(ctx, c, m, now)
}

// counts reports whether a session counts toward the cap of a pass and the rate. One that was lost with its process
// does not, unless its cancel has a func of the host called.
func (w *walk) counts(s session.Session) bool { return !s.Lost || w.callsHost(s) }

// callsHost reports whether the cancel of a session has it stopped, or started again.
func (w *walk) callsHost(s session.Session) bool {
	return w.cfg.StopHook != nil || w.cfg.resumes(s)
}

// remember keeps what is to be known of a session at its next try.
func (w *walk) remember(c Case, m pending) {
	m.seenBy = w.number
	w.pending.keep(c.Session.RunID, m)
}

// left returns how many more sessions the pass may cancel, or warn.
func (w *walk) left() int {
	used, most := w.cancels(), w.most
	switch {
	case w.pass.DryRun:
	case w.cfg.Grace > 0 && (w.warned < most || w.cancelDue()):
		used = min(used, w.warned)
	case w.cfg.Grace > 0:
		used = most
	}
	return most - used
}

// cancels returns how many sessions that count the pass has cancelled, or is about to.
func (w *walk) cancels() int {
	planned := 0
	for _, p := range w.planned {
		if w.counts(p.judged.Session) {
			planned++
		}
	}
	return w.counted + planned
}

// cancelDue reports whether the pass may still cancel, and a warned session that it has not seen yet is due.
func (w *walk) cancelDue() bool {
	now := time.Now()
	for _, m := range w.pending {
		if !m.due.IsZero() && m.seenBy != w.number && !now.Before(m.due) && !now.Before(m.next) {
			return w.cancels() < w.most
		}
	}
	return false
}

func (w *walk) full() bool { return w.left() <= 0 }
