package sim_test

import (
	"slices"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// A truth is what the world knows besides. The world's mutex guards it, but for the log's.
type truth struct {
	logMu sync.Mutex

	acknowledged map[string]bool // IDs of events
	leaseOrder   map[string]int
	renewed      map[string]time.Time // when leases were renewed last, in the database
	beats        map[string]int64
	expired      map[string]bool // the leases that the database said have expired
	restoredAt   time.Time       // when the database came back older
	calmSince    time.Time       // since when nothing is wrong anywhere; zero while something is
	setBack      time.Duration
	swept        int
	longest      map[string]time.Duration // of the calls of a kind
	endSeen      map[string]time.Time     // when the events of ends were first seen
}

func newTruth() truth {
	return truth{
		acknowledged: map[string]bool{}, leaseOrder: map[string]int{}, longest: map[string]time.Duration{},
		endSeen: map[string]time.Time{}, renewed: map[string]time.Time{}, beats: map[string]int64{},
		expired: map[string]bool{},
	}
}

// A rowTruth is what happened to the row of a run.
type rowTruth struct {
	stuckUntil time.Time // when it could be written again, after it was locked or refused
	stuckSince time.Time
	deletedAt  time.Time
	attachedAt time.Time // when an attempt was begun last, in the database
	deadSince  time.Time // since when nobody runs it, and it is active
	activeAt   time.Time // when it was last seen to be active
	splitSince time.Time // since when several processes run it
}

func latest(all ...time.Time) time.Time { return slices.MaxFunc(all, time.Time.Compare) }

// acknowledge notes that a client was told that its events are stored.
func (w *world) acknowledge(err error, events []watchdog.Event) error {
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range events {
		w.acknowledged[e.ID] = true
	}
	return nil
}

func (w *world) noteAttach(s session.Session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.runs {
		if r.id == s.RunID {
			r.row.attachedAt, r.row.deadSince = time.Now(), time.Time{}
		}
	}
}

// noteHealth notes who can write now. The caller holds the mutex.
func (w *world) noteHealth() {
	now, calm := time.Now(), w.mode == works
	for _, h := range w.hosts {
		h.link.note(h.link.able(), now)
		h.link.own.note(h.link.reaches(), now)
		calm = calm && (h.gone || h.link.able())
	}
	sweeping := false
	for _, s := range w.sweepers {
		s.link.note(s.link.able(), now)
		calm = calm && (s.gone || s.link.able())
		sweeping = sweeping || !s.gone
	}
	for _, r := range w.runs {
		calm = calm && !w.rows.stuck(r.id)
	}
	calm = calm && w.leases.none()
	w.calmIf(calm && sweeping, now)
}

func (w *world) calmIf(calm bool, now time.Time) {
	switch {
	case !calm:
		w.calmSince = time.Time{}
	case w.calmSince.IsZero():
		w.calmSince = now
	}
}

// disturb notes that something happened at this moment.
func (w *world) disturb() {
	if !w.calmSince.IsZero() {
		w.calmSince = time.Now()
	}
}

func (w *world) notePass(s *sweeper, p sweep.Pass) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.longest["pass"] = max(w.longest["pass"], p.Duration)
	s.counted += p.Cancelled
}
