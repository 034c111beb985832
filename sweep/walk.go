package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
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
	// searchFor is how long a full pass goes on through pages in which no session is lost.
	searchFor = 10 * time.Second
)

// A walk goes through the stalled sessions: it is a pass while it lasts.
type walk struct {
	*Sweeper
	failures
	number     int  // of the pass, from 1
	whole      bool // it observes the leases to the end, however long that takes
	pass       Pass
	most       int             // cancels, and warnings, of those that count
	counted    int             // of the cancels
	warned     int             // and of the warnings
	suspects   map[string]bool // leases to be observed
	seen       map[string]bool
	tryBegan   time.Time // at the session in hand
	planned    []planned // cancels that are not written yet
	startsLeft bool      // there may be starts that are due
	complete   bool      // every stalled session was seen
	lostAt     time.Time // of the last page that had lost sessions, or of the first that was read only for such
}

// walk has a pass and returns it.
func (s *Sweeper) walk(ctx context.Context, whole bool) Pass {
	s.begin()
	began := time.Now()
	w := &walk{
		Sweeper: s, number: s.Stats().Passes + 1, whole: whole, seen: map[string]bool{}, suspects: map[string]bool{},
		pass: Pass{StartedAt: began, DryRun: s.cfg.DryRun},
		most: min(s.cfg.maxCancellations(), s.throttle.room(began)),
	}
	w.pass.Err = w.steps(ctx)
	w.holdBack()
	s.pending.forget(w.number, w.complete, time.Now())
	if w.pass.Err != nil {
		w.pass.Errors++
	}
	s.planAgain(w.full(), max(w.counted, w.warned))
	s.again = earliest(s.again, w.nextPassLook())
	if w.startsLeft {
		s.again = time.Now()
	}
	s.goOn = w.goesOn()
	w.pass.Duration = time.Since(began)
	return w.pass
}

// steps goes through the stalled sessions, observes the leases, and goes through the sessions again if a lease has
// expired. What was left over by the passes before comes first.
func (w *walk) steps(ctx context.Context) error {
	w.takeStarts(ctx)
	leasesErr := w.listLeases(ctx)
	if err := w.pages(ctx); err != nil || w.pass.DryRun {
		return errors.Join(err, leasesErr)
	}
	w.setObserving(verdict.ObserveFor(w.longestPromise()))
	if err := w.observe(ctx); err != nil {
		return err
	}
	switch {
	case leasesErr != nil:
		return leasesErr
	case len(w.suspects) > 0 && ctx.Err() != nil:
		return stopped(ctx)
	case w.nothingWorked():
		return w.tooMany()
	}
	return nil
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

// thresholdOf returns how long a session may be silent.
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

// act warns, cancels or defers a stalled session.
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
	case time.Now().Before(m.next) || w.retriedEnough(m):
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
