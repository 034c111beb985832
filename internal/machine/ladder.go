package machine

import (
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A given directive stands on its ladder until there is progress. Progress, and the end of a hold, are recorded once
// they put a ladder back, so that the ladder survives a restart.
type given struct {
	id   string // of its event
	rung int
	on   fold.Key
	hold verdict.HoldID
	at   time.Duration
}

// standing are the directives that stand on the ladders of a run.
type standing []given

// standingOf are those that a window's events tell of, to whoever attached to it then.
func standingOf(found *fold.Window, attached time.Duration) (s standing) {
	for id, d := range found.Standing() {
		s = append(s, given{id: id, rung: d.Rung, on: d.On, hold: verdict.HoldID{Key: d.On.Hold}, at: attached})
	}
	return s
}

// add notes a directive. A wait that comes again on the last rung takes the place of the one before, whose ID is
// returned, so that a run that waits often keeps one.
func (s *standing) add(g given, last bool) (replaces []string) {
	if last {
		replaces = s.take(func(old *given) bool { return old.on == g.on && old.rung >= g.rung })
	}
	*s = append(*s, g)
	return replaces
}

// take removes the directives that do not count any more, and returns the IDs of their events.
func (s *standing) take(done func(*given) bool) (ids []string) {
	*s = slices.DeleteFunc(*s, func(g given) bool {
		if done(&g) {
			ids = append(ids, g.id)
			return true
		}
		return false
	})
	return ids
}

// rungOf is where a ladder stands.
func (s standing) rungOf(on fold.Key) (rung int) {
	for i := range s {
		if s[i].on == on {
			rung = max(rung, s[i].rung)
		}
	}
	return rung
}
