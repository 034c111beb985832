package fold

import (
	"maps"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// clone returns a history that can be folded on, apart from this one.
func (h *History) clone() History {
	c := *h
	c.windows = make(map[time.Time]*Window, len(h.windows))
	for start, w := range h.windows {
		c.windows[start] = w.clone()
	}
	c.after, c.cancels = maps.Clone(h.after), maps.Clone(h.cancels)
	c.corrected, c.unreadable = slices.Clone(h.corrected), slices.Clone(h.unreadable)
	return c
}

func (w *Window) clone() *Window {
	c := *w
	c.Given, c.asked, c.pauses = maps.Clone(w.Given), maps.Clone(w.asked), maps.Clone(w.pauses)
	c.directives, c.resets = maps.Clone(w.directives), maps.Clone(w.resets)
	return &c
}

// compact forgets what no event after that instant can ask for.
func (h *History) compact(until time.Time) {
	slices.Sort(h.corrected)
	h.corrected = slices.Compact(h.corrected)
	for _, w := range h.windows {
		// What became of a directive may have been stored before it, but not long before.
		maps.DeleteFunc(w.resets, func(id string, at time.Time) bool {
			_, given := w.directives[id]
			delete(w.directives, id)
			return given || at.Before(until.Add(-2*Lookback))
		})
		// No budget is as small again as one of which more was given since.
		maps.DeleteFunc(w.asked, func(of record.FoldedNumber, _ bool) bool {
			given := record.Seconds(w.Given[of.FoldedLimit])
			if of.FoldedLimit == (Key{}) {
				given = record.Seconds(w.Extended.Seconds())
			}
			return of.Budget < given
		})
	}
}

// mergedPause is the ID of the pause that stands for those that were over long ago.
const mergedPause = "merged"

// Merges reports whether pauses were merged in it: who knows them by their IDs cannot go on from it.
func (b *Base) Merges() bool {
	for _, h := range []History{b.settled, b.folded} {
		for _, w := range h.windows {
			if _, merges := w.pauses[mergedPause]; merges {
				return true
			}
		}
	}
	return false
}

// merged returns the pauses with one in place of those that were over before the instant of the window, and before any
// other was opened. From their end on it stands for as much time as they do.
func (w *Window) merged(before time.Duration) map[string]pause {
	before = w.apart(before)
	rest, over := map[string]pause{}, []verdict.Pause(nil)
	end := time.Duration(0)
	for id, p := range w.pauses {
		if p.opened && p.over(before) {
			over, end = append(over, p.Pause.Pause), max(end, p.end())
		} else {
			rest[id] = p
		}
	}
	if total := verdict.PausedBefore(over, end); total > 0 {
		rest[mergedPause] = pause{opened: true, Pause: Pause{Pause: verdict.Pause{
			ID: mergedPause, Opened: end - total, Cap: total, Released: end, Closed: true,
		}}}
	}
	return rest
}

// apart returns the last instant, not after that one, at which no pause was open.
func (w *Window) apart(at time.Duration) time.Duration {
	for {
		earliest := at
		for _, p := range w.pauses {
			if !p.opened || !p.over(at) {
				earliest = min(earliest, p.Opened)
			}
		}
		if earliest == at {
			return at
		}
		at = earliest
	}
}

// end is when a pause that was closed did end.
func (p pause) end() time.Duration { return min(p.Released, verdict.Sum(p.Opened, p.Cap)) }

// over reports whether the pause had ended by then.
func (p pause) over(by time.Duration) bool { return p.Closed && p.end() <= by }
