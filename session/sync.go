package session

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog/internal/handle"
)

// maxSyncs is how many runs read the store at once for why they were cancelled.
const maxSyncs = 16

// A syncer has runs read the store for why they were cancelled, as the roster requests it.
type syncer struct {
	roster *roster
	rows   *rowBuilder
	leases *leaseKeeper
}

// loop syncs the requested runs, and at every pace those whose sync failed, until ctx ends.
func (s *syncer) loop(ctx context.Context) {
	var syncing sync.WaitGroup
	defer syncing.Wait()
	room := make(chan struct{}, maxSyncs)
	again := time.NewTicker(s.roster.cfg.Pace)
	defer again.Stop()
	for {
		for _, r := range s.roster.takeRequested() {
			room <- struct{}{}
			syncing.Go(func() {
				defer func() { <-room }()
				s.sync(ctx, r)
			})
		}
		select {
		case <-s.roster.requested:
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

// sync has a run read its events for a cancel, because its row says that it has ended, is another attempt's, or is
// missing. If there is no cancel, the row decides.
func (s *syncer) sync(ctx context.Context, r *keptRun) {
	stop, err := r.run.Sync(ctx)
	if stop == nil && err == nil {
		err = s.heedRow(ctx, r)
	}
	if r.run.Context().Err() != nil {
		err = nil // the next flush writes how it ended
	}
	if first := s.roster.requestAgain(r, err); first && ctx.Err() == nil {
		s.roster.cfg.logger().Error("a run cannot read the store for its cancel", "run", r.run.ID(), "error", err)
	}
}

// heedRow ends a run that another process has taken over, and makes a row again that was lost.
func (s *syncer) heedRow(ctx context.Context, r *keptRun) error {
	ctx, cancel := context.WithTimeout(ctx, s.roster.cfg.RecordTimeout)
	defer cancel()
	row, err := s.roster.cfg.Store.Session(ctx, r.run.ID())
	switch {
	case errors.Is(err, ErrNotFound) || err == nil && row.Attempt < r.attempt:
		return s.makeAgain(ctx, r)
	case err == nil && s.roster.heed(r, row):
		s.takenOver(r, row)
	}
	return err
}

// makeAgain makes the row of a live run that is not in the database: it was deleted, or lost with a server.
func (s *syncer) makeAgain(ctx context.Context, r *keptRun) error {
	threshold, err := s.roster.cfg.runThreshold(r.run.ID())
	if err != nil {
		return err
	}
	row := s.rows.attached(r.run, threshold)
	row.Attempt = r.attempt
	made, err := s.leases.attach(ctx, row)
	if err != nil {
		return err
	}
	if made.after.Attempt > r.attempt || s.roster.foreign(made.after.Lease) {
		s.takenOver(r, made.after)
		return nil
	}
	s.roster.madeAgain(r, made.at, threshold, row.Allowance)
	s.roster.cfg.logger().Warn("the row of a run was lost and is made again", "run", r.run.ID(), "attempt", r.attempt)
	return nil
}

// takenOver ends a run whose row is a later attempt's, and keeps it no longer.
func (s *syncer) takenOver(r *keptRun, by Session) {
	s.roster.drop(r)
	s.roster.cfg.logger().Warn("a run was taken over by another process, and ends here",
		"run", r.run.ID(), "attempt", r.attempt, "by_attempt", by.Attempt, "by_host", by.Host)
	handle.Of(r.run.Context()).End(&TakeoverError{RunID: by.RunID, Attempt: r.attempt, By: by.Attempt, Host: by.Host})
}

func (s *roster) beginAttaching(runID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attaching[runID]++
}

// endAttaching has an earlier attempt of this process find out what became of an attach that failed, and the run look
// for a cancel that it was told of meanwhile.
func (s *roster) endAttaching(runID string, failed bool) {
	s.mu.Lock()
	if s.attaching[runID]--; s.attaching[runID] == 0 {
		delete(s.attaching, runID)
	}
	told := s.toSync[runID]
	s.mu.Unlock()
	if failed || told {
		s.request(runID)
	}
}

// request has a run of this process look in the store for a cancel. Other runs are ignored: a listener is told of those
// of the whole fleet.
func (s *roster) request(runID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs[runID] != nil || s.attaching[runID] > 0 {
		s.toSync[runID] = true
		wake(s.requested)
	}
}

// takeRequested returns the runs that are to look, and removes the requests. That of a run that this process still
// attaches to stays until it has.
func (s *roster) takeRequested() (all []*keptRun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for runID := range s.toSync {
		r := s.runs[runID]
		if r == nil && s.attaching[runID] > 0 {
			continue
		}
		delete(s.toSync, runID)
		if r != nil {
			all = append(all, r)
		}
	}
	return all
}

// requestAgain notes the result of a look, and requests another after one that failed, unless the stored data is at
// fault. It reports whether this is the first failure in a row.
func (s *roster) requestAgain(r *keptRun, err error) (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first = err != nil && !r.syncFailed
	r.syncFailed = err != nil
	if err != nil && !permanent(err) {
		s.toSync[r.run.ID()] = true
	}
	return first
}

// heed decides about the row of an active session or of a later attempt, and reports whether the run was taken over.
// While this process attaches to the run the later attempt may be that one. After a row was lost another process can
// have begun an attempt with the same number: then the one whose lease has the row runs on. A row that is not in the
// lease is claimed back: the next flush writes it.
func (s *roster) heed(r *keptRun, row Session) (takenOver bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	later, active := row.Attempt > r.attempt, row.Status == Active
	switch {
	case s.runs[row.RunID] != r || later && s.attaching[row.RunID] > 0:
	case later || active && s.isForeign(row.Lease):
		return true
	case active && (s.held == nil || s.held.id != row.Lease):
		s.recheck(r)
	}
	return false
}

// madeAgain notes what the row of a run says that was made again, and has the next flush write it.
func (s *roster) madeAgain(r *keptRun, at, own, allowance time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.written, r.quiet, r.own, r.allowance = at, false, own, allowance
	s.recheck(r)
}

// A comparer compares the rows that name the lease with the runs that are kept.
type comparer struct {
	roster *roster
	strays map[AttemptID]bool // in rows of the lease, and not kept, at the last comparison
}

// compare has a run that no row names read its row, to find out what became of it. A row that nobody keeps, twice in a
// row, is of an attach whose answer was lost: it is ended, because nobody runs it.
func (c *comparer) compare(ctx context.Context) {
	l, cfg := c.roster.lease(), c.roster.cfg
	if l == nil {
		return
	}
	kept := c.roster.attempts()
	ctx, cancel := context.WithTimeout(ctx, cfg.RecordTimeout)
	defer cancel()
	named, err := cfg.Store.LeaseSessions(ctx, l.id)
	if err != nil {
		return // flush logs an outage of the store
	}
	var twice []AttemptID
	strays := map[AttemptID]bool{}
	for _, a := range c.roster.compare(kept, named) {
		if strays[a] = true; c.strays[a] {
			twice = append(twice, a)
		}
	}
	if c.strays = strays; len(twice) > 0 {
		cfg.logger().Warn("rows of this process are of no run of it and are ended", "runs", len(twice))
		c.end(ctx, twice)
	}
}

// end ends rows that nobody runs. Each says how the run ended as far as that is stored. The next comparison finds what
// was not ended.
func (c *comparer) end(ctx context.Context, strays []AttemptID) {
	store := c.roster.cfg.Store
	var ends []Ending
	for _, a := range strays {
		e := Ending{RunID: a.RunID, Attempt: a.Attempt, Status: Interrupted}
		s, err := store.Session(ctx, a.RunID)
		if err == nil {
			e, err = doubtfulEnd{e, s.StartedAt, false}.asStored(ctx, store)
		}
		if err == nil || permanent(err) {
			ends = append(ends, e)
		}
	}
	_, _ = store.End(ctx, ends)
}

func (s *roster) attempts() map[AttemptID]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := make(map[AttemptID]bool, len(s.runs))
	for runID, r := range s.runs {
		kept[AttemptID{runID, r.attempt}] = true
	}
	return kept
}

// compare has runs read their rows that were kept before the rows were read and are not among those that name the
// lease, and returns those of the named that nobody keeps.
func (s *roster) compare(kept map[AttemptID]bool, named []AttemptID) (strays []AttemptID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range named {
		if s.attempt(a) == nil {
			strays = append(strays, a)
			continue
		}
		delete(kept, a)
	}
	for a := range kept {
		if s.attempt(a) != nil {
			s.toSync[a.RunID] = true
			wake(s.requested)
		}
	}
	return strays
}

// ticksPerPoll is how many ticks there are for one poll while the store is listened to. The poll finds cancels that no
// notification came for, and keeps the mark recent for when the connection is lost.
const ticksPerPoll = 30

// The waits between tries to listen again.
const (
	shortestRetry = time.Second
	longestRetry  = 30 * time.Second
)

// A poller asks the store what others have ended of the lease, and requests a sync of those runs.
type poller struct {
	roster    *roster
	told      []AttemptID // which the store can forget
	listening atomic.Bool
	ready     chan struct{} // has room for one: the store listens now
}

// watch polls the store until ctx ends, and listens to it, too, if the store is a [Listener].
func (p *poller) watch(ctx context.Context) {
	var listening sync.WaitGroup
	defer listening.Wait()
	if listener, ok := p.roster.cfg.Store.(Listener); ok {
		listening.Go(func() { p.listen(ctx, listener) })
	}
	p.run(ctx)
}

func (p *poller) run(ctx context.Context) {
	tick := time.NewTicker(p.roster.cfg.Poll)
	defer tick.Stop()
	for left := 0; ; left-- {
		if left <= 0 || !p.listening.Load() {
			left = ticksPerPoll
			if !p.poll(ctx) {
				left = 1 // what ended before it listened is found by nothing else
			}
		}
		select {
		case <-p.ready:
			left = 0 // what ended before is not notified
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// poll polls once, and reports whether the store answered. If it did not the next poll asks for the same. What it tells
// of a run is requested until it was read, and so the store need not tell it again. Without a lease there is nothing to
// ask: when one begins the rows of all runs are written, which finds those that have ended. An attempt ends once, so it
// does no harm if the store is to forget one of the lease before.
func (p *poller) poll(ctx context.Context) bool {
	l := p.roster.lease()
	if l == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, p.roster.cfg.RecordTimeout)
	defer cancel()
	ended, err := p.roster.cfg.Store.Ended(ctx, l.id, p.told)
	if err != nil {
		return false // flush logs an outage of the store
	}
	p.told = ended
	for _, a := range ended {
		p.roster.request(a.RunID)
	}
	return true
}

// listen listens, and listens again when the connection is lost, until ctx ends.
func (p *poller) listen(ctx context.Context, listener Listener) {
	lost, retry := false, shortestRetry
	for {
		err := listener.Listen(ctx, func() {
			p.listening.Store(true)
			wake(p.ready)
			if lost {
				p.roster.cfg.logger().Info("listening for cancelled sessions works again")
			}
			lost, retry = false, shortestRetry
		}, p.roster.request)
		p.listening.Store(false)
		if ctx.Err() == nil && !lost {
			p.roster.cfg.logger().Warn("cannot listen for cancelled sessions, polling for them", "error", err)
			lost = true
		}
		select {
		case <-time.After(retry):
		case <-ctx.Done():
			return
		}
		retry = min(2*retry, longestRetry)
	}
}
