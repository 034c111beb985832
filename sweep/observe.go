package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/verdict"
	"github.com/seed62658d38/watchdog/session"
)

// maxLeaseErrors is how many leases in a row may fail to expire. After that the database is at fault.
const maxLeaseErrors = 3

// An observed is a lease as the sweeper sees it. Instants are by the sweeper's clock.
type observed struct {
	session.Lease               // as it was seen last
	known         bool          // a new beat was seen, at livedAt
	livedAt       time.Duration //
	looks         verdict.Looks
	due           time.Duration // when the next look is
	judged        bool          // this sweeper has found it dead
	count         int           // by as many looks
	lost          bool          // and its sessions are lost, too
}

// promise returns the lease's promise, at least the shortest that there is.
func (o *observed) promise() time.Duration { return max(o.Promise, session.ShortestPromise) }

// waitsFor reports whether the pass waits until a lease is decided. For one whose promise is longer than a keeper may
// give no pass does, and a pass of Run only if that takes no longer than the interval: until it ends, nobody else is
// seen to die. Other passes look at the lease once, if a promise has gone by since the look before. Rejected: taking a
// shorter promise for it, because its process, which may live, renews it only so often.
func (w *walk) waitsFor(o *observed) bool {
	return o.Promise <= session.LongestPromise && (w.whole || verdict.ObserveFor(o.promise()) <= w.cfg.Interval)
}

// sees notes how the lease was found, and reports whether its process has renewed it since. One that had expired and
// has not any more is of a database that was replaced by an older copy: nothing is known of it.
func (o *observed) sees(l session.Lease, now time.Duration) (lives bool) {
	lives = l.Beat != o.Beat && !l.Expired
	again := o.Expired && !l.Expired
	if o.Lease = l; again {
		o.startAgain()
	}
	if lives {
		o.known, o.livedAt = true, now
	}
	return lives || o.known && now-o.livedAt < o.promise() && !l.Expired
}

// startAgain has a lease observed from the beginning, unless it has expired.
func (o *observed) startAgain() {
	o.looks = verdict.Looks{}
	o.judged = o.judged && o.Expired
}

// listLeases lists the leases. Those that were not renewed since the sweeper saw them last are suspects. What expired
// before is taken from the sessions that still name it.
func (w *walk) listLeases(ctx context.Context) error {
	if w.observer == nil {
		return nil
	}
	all, err := w.observeLeases(ctx, nil)
	if err != nil {
		return fmt.Errorf("list the leases: %w", err)
	}
	w.noteLeases(all)
	if !w.pass.DryRun {
		w.finishExpired(ctx)
	}
	return nil
}

func (w *walk) noteLeases(all []session.Lease) {
	now, there := w.clock(), map[string]*observed{}
	for _, l := range all {
		if !l.Expired {
			w.pass.Behind += len(l.Behind)
		}
		o := w.leases[l.ID]
		switch {
		case o == nil:
			there[l.ID], w.suspects[l.ID] = &observed{Lease: l}, true
		case !o.sees(l, now):
			there[l.ID], w.suspects[l.ID] = o, true
		default:
			there[l.ID] = o
		}
	}
	w.leases = there
	w.forgetDeaths(now)
}

// finishExpired takes the sessions from leases that have expired already. One that somebody else expired is observed
// first: whoever expired it may be taking out its sessions, and knows whether they are lost.
func (w *walk) finishExpired(ctx context.Context) {
	errs := 0
	for _, id := range slices.Sorted(maps.Keys(w.suspects)) {
		o := w.leases[id]
		if !o.Expired || !o.judged {
			continue
		}
		delete(w.suspects, id)
		if errs >= maxLeaseErrors || ctx.Err() != nil {
			continue
		}
		if _, err := w.expire(ctx, o); err == nil {
			errs = 0
		} else {
			errs++
		}
	}
}

func (w *walk) observeLeases(ctx context.Context, suspects []string) ([]session.Lease, error) {
	return limited(ctx, w.cfg.RecordTimeout, func(ctx context.Context) ([]session.Lease, error) {
		return w.observer.ObserveLeases(ctx, suspects)
	})
}

// observe looks at the suspects, each once in its promise, until every one has turned out to live or to have expired.
// When one has expired it goes through the pages at once: the others may take much longer. What is undecided after a
// few promises, and when ctx ends, stays so until the next pass, as do leases that the pass does not wait for.
func (w *walk) observe(ctx context.Context) error {
	until := w.clock() + verdict.ObserveFor(w.longestPromise())
	for len(w.suspects) > 0 {
		due := w.nextLook()
		if due > until || !sleep(ctx, due-w.clock()) {
			break
		}
		if !w.look(ctx) {
			continue
		}
		began := w.clock()
		if err := w.pages(ctx); err != nil {
			return err
		}
		until += w.clock() - began // nobody was looked at meanwhile
	}
	return nil
}

// longestPromise returns the longest promise of a suspect that the pass waits for.
func (w *walk) longestPromise() (longest time.Duration) {
	for id := range w.suspects {
		if o := w.leases[id]; w.waitsFor(o) {
			longest = max(longest, o.promise())
		}
	}
	return longest
}

// nextPassLook returns when a pass should look at a suspect again that this one did not wait for, zero if there is
// none.
func (w *walk) nextPassLook() (next time.Time) {
	for id := range w.suspects {
		if o := w.leases[id]; !w.waitsFor(o) && o.due > 0 {
			next = earliest(next, time.Now().Add(o.due-w.clock()))
		}
	}
	return next
}

// nextLook returns when the next suspect is to be looked at.
func (w *walk) nextLook() time.Duration {
	due := time.Duration(math.MaxInt64)
	for id := range w.suspects {
		due = min(due, w.leases[id].due)
	}
	return due
}

// sleep waits, and reports whether ctx has not ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// look looks at the suspects that are due, in one call. It reports whether a lease has expired.
func (w *walk) look(ctx context.Context) (expired bool) {
	began := w.clock()
	due := w.dueSuspects(began)
	all, err := w.observeLeases(ctx, due)
	if ctx.Err() != nil {
		return false
	}
	if err != nil {
		w.addError(fmt.Errorf("observe %d leases: %w", len(due), err))
	}
	found := map[string]session.Lease{}
	for _, l := range all {
		found[l.ID] = l
	}
	ended := w.clock()
	w.seeLeases(all, ended)
	for _, id := range due {
		l, there := found[id]
		seen := verdict.Look{Began: began, Ended: ended, Sure: err == nil && !l.Locked, Beat: l.Beat}
		switch {
		case !w.suspects[id]: // it has just been renewed
		case err != nil || there:
			expired = w.decide(ctx, w.leases[id], l, seen, err != nil) || expired
		default: // another sweeper found it expired, or its process ended it
			delete(w.suspects, id)
			delete(w.leases, id)
			w.deaths = append(w.deaths, ended)
			expired = true
		}
	}
	return expired
}

// dueSuspects returns the suspects that are to be looked at.
func (w *walk) dueSuspects(now time.Duration) (due []string) {
	for _, id := range slices.Sorted(maps.Keys(w.suspects)) {
		if w.leases[id].due <= now {
			due = append(due, id)
		}
	}
	return due
}

// decide decides by a look whether a suspect lives, has expired, or has to be looked at again.
func (w *walk) decide(
	ctx context.Context, o *observed, l session.Lease, seen verdict.Look, failed bool,
) (expired bool) {
	if o.due = seen.Ended + o.promise(); !seen.Counts(o.promise()) {
		o.due = max(seen.Ended, seen.Began+o.promise())
	}
	switch {
	case !failed && o.sees(l, seen.Ended):
		delete(w.suspects, o.ID)
		return false
	case !o.looks.Add(o.promise(), seen) && !o.judged:
		return false
	}
	w.judgeLease(o)
	expired, err := w.expire(ctx, o)
	if err != nil {
		o.startAgain()
		return false
	}
	delete(w.suspects, o.ID)
	return expired
}

// expire expires a lease, and takes its sessions out of it until none is left or those that are left are locked. It
// reports false if the lease was renewed after all.
func (w *walk) expire(ctx context.Context, o *observed) (expired bool, err error) {
	for before := math.MaxInt; ctx.Err() == nil; {
		l := o.Lease
		l.Lost, l.Looks = o.lost, o.count
		found, left, err := w.expireSome(ctx, l)
		if err != nil {
			w.reportExpire(o, err)
			return false, err
		}
		if !found {
			o.startAgain()
			return false, nil
		}
		w.expired(o)
		if left == 0 {
			delete(w.leases, o.ID)
		}
		if left == 0 || left >= before {
			return true, nil
		}
		before = left
	}
	return false, context.Cause(ctx)
}

// expired notes that a lease has expired.
func (w *walk) expired(o *observed) {
	if o.Expired {
		return
	}
	o.Expired = true
	w.deaths = append(w.deaths, w.clock())
	w.pass.LeasesExpired++
	w.logger().Warn("a lease was not renewed and has expired: its process is dead or cut off",
		append(o.attrs(), "looks", o.count, "renewed_at", o.RenewedAt)...)
}

func (w *walk) reportExpire(o *observed, err error) {
	if errors.Is(err, session.ErrLocked) {
		w.logger().Info("a lease that is not renewed is locked by another transaction", o.attrs()...)
		return
	}
	w.addError(fmt.Errorf("expire the lease %s of host %q: %w", o.ID, o.Host, err))
}

// expireSome makes one call of ExpireLease.
func (w *walk) expireSome(ctx context.Context, l session.Lease) (expired bool, left int, err error) {
	type answer struct {
		expired bool
		left    int
	}
	a, err := limited(ctx, w.cfg.RecordTimeout, func(ctx context.Context) (a answer, err error) {
		a.expired, a.left, err = w.observer.ExpireLease(ctx, l)
		return a, err
	})
	return a.expired, a.left, err
}

// attrs returns the lease for the log.
func (o *observed) attrs() []any {
	return []any{"lease", o.ID, "host", cmp.Or(o.Host, "unknown"), "promise", o.Promise, "beat", o.Beat}
}
