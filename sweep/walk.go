package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/internal/verdict"
	"github.com/seed62658d38/watchdog/session"
)

const (
	// maxPage is the largest page that a walk asks for.
	maxPage = 100
	// stalePage is the age at which a page is read again. Its sessions may have woken up since, and the stop hook
	// ends their agents without the check that guards the cancel.
	stalePage = 10 * time.Second
)

// A walk goes through the stalled sessions once: it is a pass while it lasts.
type walk struct {
	*Sweeper
	number       int // of the pass, from 1
	pass         Pass
	seen         map[string]bool
	failedInARow int
	complete     bool // every stalled session was seen
}

// walk goes through the stalled sessions and returns the pass.
func (s *Sweeper) walk(ctx context.Context) Pass {
	s.begin()
	began := time.Now()
	w := &walk{
		Sweeper: s, number: s.Stats().Passes + 1, seen: map[string]bool{},
		pass: Pass{StartedAt: began, DryRun: s.cfg.DryRun},
	}
	w.pass.Err = w.pages(ctx)
	if w.pass.Err != nil {
		w.pass.Errors++
	}
	now := time.Now()
	s.pending.forget(w.number, w.complete, now)
	w.pass.Duration = now.Sub(began)
	return w.pass
}

// A page is a page of sessions and when it came.
type page struct {
	session.Page
	came time.Time
}

// now returns the database's time: the time of the page and the time that went by since it came.
func (p page) now() time.Time { return p.Now.Add(time.Since(p.came)) }

// pages goes through the pages of stalled sessions. It starts again at the first page when a page has become stale,
// and then skips the sessions that it has seen.
func (w *walk) pages(ctx context.Context) error {
	after := ""
	for {
		found, err := w.page(ctx, after)
		if err != nil {
			return err
		}
		stale, err := w.sessions(ctx, found)
		switch {
		case err != nil:
			return err
		case w.full():
			return nil
		case stale:
			after = ""
			continue
		case found.Next == "":
			w.complete = true
			return nil
		case found.Next == after:
			return fmt.Errorf("ask for stalled sessions: the finder gave the page after %q twice", after)
		}
		after = found.Next
	}
}

func (w *walk) page(ctx context.Context, after string) (page, error) {
	q := w.query
	q.After, q.Limit = after, min(min(w.left(), maxPage)+len(w.pending), maxPage)
	found, err := limited(ctx, w.cfg.RecordTimeout, func(ctx context.Context) (session.Page, error) {
		return w.finder.Stalled(ctx, q)
	})
	switch {
	case err != nil:
		return page{}, fmt.Errorf("ask for stalled sessions: %w", err)
	case found.Now.IsZero():
		return page{}, errors.New(
			"ask for stalled sessions: the finder does not say what time it is; set the Now of its pages")
	}
	for _, err := range found.Unreadable {
		w.addUnreadable(err.Error(), err)
	}
	return page{found, time.Now()}, nil
}

// sessions goes through the sessions of a page. It stops and reports true when the page has become stale.
func (w *walk) sessions(ctx context.Context, found page) (stale bool, err error) {
	for _, s := range found.Sessions {
		switch {
		case ctx.Err() != nil:
			return false, fmt.Errorf("stopped: %w", context.Cause(ctx))
		case w.full():
			return false, nil
		case w.seen["run "+s.RunID]:
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
	c := Case{
		Session: s, Silence: now.Sub(s.SilentSince()), Threshold: cmp.Or(s.Threshold, w.query.Threshold),
	}
	limits := verdict.SessionLimits{Threshold: c.Threshold, MinAge: w.query.MinAge}
	if s.Status != session.Active || !verdict.Stalled(limits, now.Sub(s.CreatedAt), c.Silence) {
		return nil
	}
	w.pass.Found++
	return w.act(ctx, c, now)
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

// act warns, cancels or defers a stalled session.
func (w *walk) act(ctx context.Context, c Case, now time.Time) error {
	m := w.pending.of(c.Session)
	switch {
	case w.pass.DryRun:
		w.addCase(c, CaseWouldCancel)
		w.logger().Info("a stalled session would be cancelled", c.attrs()...)
	case time.Now().Before(m.next):
		w.pass.Deferred++
	case w.cfg.Grace > 0 && m.warnedAt.IsZero():
		if w.pass.Warned >= w.cfg.maxCancellations() {
			w.pass.Deferred++
			return nil
		}
		return w.warn(ctx, c, m, now)
	case w.pass.Cancelled >= w.cfg.maxCancellations():
		w.pass.Deferred++
	default:
		return w.cancel(ctx, c, m, now)
	}
	return nil
}

// left returns how many more sessions the pass may cancel, or warn.
func (w *walk) left() int {
	used, most := w.pass.Cancelled, w.cfg.maxCancellations()
	switch {
	case w.pass.DryRun:
		used = len(w.pass.Cases)
	case w.cfg.Grace > 0 && (w.pass.Warned < most || w.cancelDue()):
		used = min(used, w.pass.Warned)
	case w.cfg.Grace > 0:
		used = most
	}
	return most - used
}

// cancelDue reports whether the pass may still cancel, and a warned session that it has not seen yet is due.
func (w *walk) cancelDue() bool {
	now := time.Now()
	for _, m := range w.pending {
		if !m.warnedAt.IsZero() && m.seenBy != w.number && !now.Before(m.next) {
			return w.pass.Cancelled < w.cfg.maxCancellations()
		}
	}
	return false
}

// full reports whether the pass has done as much as it may.
func (w *walk) full() bool { return w.left() <= 0 }

func (w *walk) addCase(c Case, handling Handling) {
	c.Handling = handling
	w.pass.Cases = append(w.pass.Cases, c)
}

func (w *walk) addError(err error) { w.pass.addError(err) }

// addUnreadable counts a row that cannot be judged, once.
func (w *walk) addUnreadable(key string, err error) {
	if key = "unreadable " + key; w.seen[key] {
		return
	}
	w.seen[key] = true
	w.pass.Checked++
	w.addError(err)
}
