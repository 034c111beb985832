package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/session"
)

const (
	// maxPage is the largest page that a walk asks for.
	maxPage = 100
	// stalePage is the age at which a page is read again. Its sessions may have woken up since, and the stop hook
	// ends their agents without the check that guards the cancel.
	stalePage = 10 * time.Second
	// searchFor is how long a full pass goes on through pages in which no session is lost.
	searchFor = 10 * time.Second
)

// A walk goes through the stalled sessions: it is a pass while it lasts.
type walk struct {
	*passes
	failures
	number     int // of the pass, from 1
	pass       Pass
	most       int // cancels, and warnings, of those that count
	spent          // what the pass has used of that
	seen       map[string]bool
	tryBegan   time.Time       // at the session in hand
	planned    []planned       // cancels that are not written yet
	startsRuns bool            // it calls Start for the runs whose start is due
	startsLeft bool            // there may be more of them
	complete   bool            // every stalled session was seen
	lostAt     time.Time       // of the last page that had lost sessions, or of the first that was read only for such
	steps      []time.Duration // by which the database's clock was set
}

// Spent counts the cancels and the warnings that count toward the cap of a pass.
type spent struct{ counted, warned int }

// newWalk begins a pass. What those before have spent of its cap counts.
func (p *passes) newWalk(before spent) *walk {
	p.number++
	began := time.Now()
	return &walk{
		passes: p, number: p.number, seen: map[string]bool{}, spent: before,
		pass: Pass{StartedAt: began, DryRun: p.cfg.DryRun},
		most: before.counted + min(p.cfg.maxCancellations()-before.counted, p.throttle.room(began)),
	}
}

// leg goes through the stalled sessions. A pass can have several, and others can have theirs in between. What failed
// before makes the pass a failed one.
func (w *walk) leg(ctx context.Context, failed error) {
	w.pass.Err = errors.Join(w.pages(ctx), failed)
	w.settleGone(ctx)
	if w.startsRuns {
		w.takeStarts(ctx)
	}
	w.holdBack()
	w.pending.forget(w.number, w.complete, time.Now())
}

func (w *walk) end() Pass {
	if w.pass.Err == nil && w.nothingWorked() {
		w.pass.Err = w.tooMany()
	}
	if w.pass.Err != nil {
		w.pass.Errors++
	}
	w.pass.Duration = time.Since(w.pass.StartedAt)
	return w.pass
}

// nextAt returns when to have the next pass because this one left work; zero if that may wait. It is soon if the pass
// was full and only the cap in each minute limits the sweeper.
func (w *walk) nextAt() (at time.Time) {
	if w.startsLeft {
		return time.Now()
	}
	if w.full() && !w.cfg.DryRun {
		at = w.throttle.next(time.Now(), max(w.counted, w.warned))
	}
	return earliest(w.pending.due(time.Now()), at)
}

func stopped(ctx context.Context) error { return fmt.Errorf("stopped: %w", context.Cause(ctx)) }

// A page is a page of sessions and when it came.
type page struct {
	session.Page
	came time.Time
}

// now returns the database's time: the time of the page and the time that went by since it came.
func (p page) now() time.Time { return p.Now.Add(time.Since(p.came)) }

// pages goes through the pages of stalled sessions, and skips the sessions that it has seen. A pass that is full goes
// on for the lost sessions alone.
func (w *walk) pages(ctx context.Context) error {
	after, searching := "", false
	for {
		if w.full() && !searching {
			after, searching = w.search(after), true
		}
		if searching && time.Since(w.lostAt) > searchFor {
			w.searched = after
			return nil
		}
		next, err := w.onePage(ctx, after)
		if err != nil {
			return err
		}
		if next == "" {
			w.complete = !searching && !w.full()
			return nil
		}
		after = next
	}
}

// onePage goes through a page, and returns where the next one begins. It reads a page again that has become stale.
func (w *walk) onePage(ctx context.Context, after string) (next string, err error) {
	for stale := true; stale; {
		found, err := w.page(ctx, after)
		if err != nil {
			return "", err
		}
		stale, err = w.sessions(ctx, found)
		if slices.ContainsFunc(found.Sessions, func(s session.Session) bool { return s.Lost }) {
			w.lostAt = time.Now()
		}
		if err != nil {
			return "", err
		}
		next = found.Next
	}
	if next != "" && next == after {
		return "", fmt.Errorf("ask for stalled sessions: the finder gave the page after %q twice", after)
	}
	return next, nil
}

// search begins a search for lost sessions behind those that a full pass has to leave, or goes on where the pass before
// had to stop.
func (w *walk) search(after string) string {
	from := cmp.Or(w.searched, after)
	w.searched, w.lostAt = "", time.Now()
	return from
}

func (w *walk) page(ctx context.Context, after string) (page, error) {
	q := w.query
	q.After, q.Limit = after, w.pageLimit()
	began := w.clock()
	found, err := bounded.Within(ctx, w.cfg.RecordTimeout, func(ctx context.Context) (session.Page, error) {
		return w.finder.Stalled(ctx, q)
	})
	switch {
	case err != nil:
		return page{}, fmt.Errorf("ask for stalled sessions: %w", err)
	case found.Now.IsZero():
		return page{}, errors.New(
			"ask for stalled sessions: the finder does not say what time it is; set the Now of its pages")
	}
	w.readClock(began, w.clock(), found.Now)
	for _, err := range found.Unreadable {
		w.addUnreadable(err.Error(), err)
	}
	return page{found, time.Now()}, nil
}

// pageLimit returns how many sessions to ask for: as many as may be cancelled, and those that may have to wait.
func (w *walk) pageLimit() int {
	if w.full() || !w.lostAt.IsZero() {
		return maxPage
	}
	return min(min(w.left(), maxPage)+len(w.pending), maxPage)
}

// readClock notes what the database's clock showed in an answer that began and ended at two instants.
func (w *walk) readClock(began, ended time.Duration, shown time.Time) {
	step := w.database.read(began, ended, shown)
	if step == 0 {
		return
	}
	direction := "forward"
	if step < 0 {
		direction = "back"
	}
	w.logger().Warn("the clock of the database was set; silence by it is not certain for a while",
		"step", step, "direction", direction)
	w.steps = append(w.steps, step)
}

func (w *walk) alert(ctx context.Context) {
	alert, cancels := w.rate.add(time.Now())
	if !alert {
		return
	}
	w.logger().Warn("many sessions were cancelled", "cancels", cancels, "within", w.rate.Within)
	if err := w.callHost(ctx, func(ctx context.Context) error { w.rate.Func(ctx, cancels); return nil }); err != nil {
		w.pass.addError(fmt.Errorf("alert of %d cancels: %w", cancels, err))
	}
}

func (w *walk) addCase(c Case, handling Handling) {
	c.Handling = handling
	w.pass.Cases = append(w.pass.Cases, c)
}

// addUnreadable counts a row that cannot be judged, once.
func (w *walk) addUnreadable(key string, err error) {
	if key = "unreadable " + key; w.seen[key] {
		return
	}
	w.seen[key] = true
	w.pass.Checked++
	w.pass.addError(err)
}
