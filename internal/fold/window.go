package fold

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/ordered"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// sameStart bounds how far a host's start may lie after the recorded one and still be the same, kept in whole seconds.
const sameStart = time.Second

// A Window is what the events of a run say of one stretch of time.
type Window struct {
	StartedAt   time.Time
	OpenedBy    string // the ID of its resume event, empty for the first one
	Extended    time.Duration
	Given       map[Key]int64  // how much counted limits were extended
	Stop        *record.Cancel // nil while nothing stopped it
	CompletedAt time.Time      // zero while it is not complete; a stop beside it was wrong, or came too late
	// Before is the window before one of which nothing is known but that the host passed its later start.
	Before *Window

	// asked are the fractions of budgets that the host was warned of: after an extension the same fraction comes at
	// another time. Without a fraction it is a budget under which the host was asked to wrap up.
	asked      map[request]bool
	directives map[string]Directive // by the IDs of their events
	resets     map[string]time.Time // those that do not count any more, and when an event said so
	pauses     map[string]pause     // by the IDs of their openings

	starts []time.Time // of all windows that are known, in their order
}

// Blank reports whether nothing is known of it but its start.
func (w *Window) Blank() bool {
	return w.OpenedBy == "" && w.Extended == 0 && !w.Over() &&
		max(len(w.Given), len(w.asked), len(w.directives), len(w.resets), len(w.pauses)) == 0
}

// Complete reports whether the host said that its work is done.
func (w *Window) Complete() bool { return !w.CompletedAt.IsZero() }

// Over reports whether it has its end.
func (w *Window) Over() bool { return w.Stop != nil || w.Complete() }

// endedBefore reports whether the host opened a window of its own after this one: later than its cancel or, where it
// has none, later than what keeping whole seconds explains. None follows a complete one but by a resume.
func (w *Window) endedBefore(hostStart time.Time) bool {
	switch {
	case w.Complete():
		return false
	case w.Stop != nil:
		return hostStart.After(time.Time(w.Stop.FiredAt)) && hostStart.After(w.StartedAt)
	}
	return hostStart.Sub(w.StartedAt) >= sameStart
}

// correct makes the window of a wrong cancel one that is complete.
func (w *Window) correct() {
	if w.Stop != nil && !w.Complete() {
		w.CompletedAt = time.Time(w.Stop.FiredAt)
	}
}

// NextStart returns the start of a window that is opened after the current one at that instant. The clock may have gone
// back: no window that is known began then.
func (w *Window) NextStart(at time.Time) time.Time {
	start := event.Truncate(at)
	for start.Equal(w.StartedAt) || slices.ContainsFunc(w.starts, start.Equal) {
		start = start.Add(time.Microsecond)
	}
	return start
}

// WarnedOf counts how many of the fractions, in their order, were warned of under the budget as it is now: that of a
// counted limit, or that of the wall clock in seconds.
func (w *Window) WarnedOf(limit Key, fractions []float64, budget float64) int {
	for i, fraction := range fractions {
		if !w.asked[request{limit, record.Seconds(budget), record.Seconds(fraction)}] {
			return i
		}
	}
	return len(fractions)
}

// WrappedUp reports whether the host was asked to wrap up under the budget as it is now.
func (w *Window) WrappedUp(limit Key, budget float64) bool {
	return w.asked[request{Key: limit, Budget: record.Seconds(budget)}]
}

func (w *Window) ask(of request) {
	if w.asked == nil {
		w.asked = map[request]bool{}
	}
	w.asked[of] = true
}

// Give notes what counted limits were given at least.
func (w *Window) Give(given map[Key]int64) {
	if w.Given = maps.Clone(w.Given); w.Given == nil { // others have it, too
		w.Given = map[Key]int64{}
	}
	for key, n := range given {
		w.Given[key] = max(w.Given[key], n)
	}
}

// Standing returns the directives that still count, by the IDs of their events.
func (w *Window) Standing() iter.Seq2[string, Directive] {
	return func(yield func(string, Directive) bool) {
		for id, d := range w.directives {
			if _, reset := w.resets[id]; !reset && !yield(id, d) {
				return
			}
		}
	}
}

func (w *Window) reset(ids []string, e *event.Event) {
	if w.resets == nil && len(ids) > 0 {
		w.resets = map[string]time.Time{}
	}
	for _, id := range ids {
		w.resets[id] = e.Timestamp
	}
}

// A Pause is a hold that stopped the wall clock, as the events tell of it.
type Pause struct {
	verdict.Pause
	Hold, Layer string         // its key, and the layer whose it is, if it is one's
	Opener      *record.Opener // nil if it is not known
}

// A pause is what is known of one: its end may have been read, and not its opening.
type pause struct {
	Pause
	opened bool
	own    bool // its end is that of its opener
}

// release notes an end. That of its opener counts, which may have lived when it was taken over; else the first one.
func (p *pause) release(at time.Duration, own bool) {
	if own || !p.own && (!p.Closed || at < p.Released) {
		p.Released, p.Closed, p.own = at, true, own
	}
}

func (w *Window) setPause(id string, p pause) {
	if w.pauses == nil {
		w.pauses = map[string]pause{}
	}
	p.ID = id
	w.pauses[id] = p
}

// Pauses are those whose opening is known, in the order of their opening.
func (w *Window) Pauses() []Pause {
	var all []Pause
	for _, p := range w.pauses {
		if p.opened {
			all = append(all, p.Pause)
		}
	}
	ordered.Sort(all, func(a, b Pause) int {
		return cmp.Or(cmp.Compare(a.Opened, b.Opened), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// Paused are the pauses as the decision takes them.
func (w *Window) Paused() []verdict.Pause {
	var all []verdict.Pause
	for _, p := range w.Pauses() {
		all = append(all, p.Pause)
	}
	return all
}

// A Trip is a limit that a process found exceeded, with what it knew of the window then.
type Trip struct {
	On       Key           // zero if another guard decided
	Extended time.Duration // what the wall clock was given
	Given    int64         // what the counted limit was given
	Elapsed  time.Duration // of the window
	Paused   time.Duration // of that
	Pauses   *verdict.Pauses
	LeftOpen string // the pause of a hold that another process left open and whose cap was exceeded
}

// TakesBack reports whether more is known of the window than the trip knew. An extension and another process's pause
// take back what they give more of, the wall clock's end, and nothing else; that a hold was closed by its own process
// takes back its cap.
func (w *Window) TakesBack(t *Trip) bool {
	switch {
	case w.Over():
		return true
	case t.On.Limit == string(verdict.WallClock):
		return w.Extended > t.Extended || t.Pauses.With(t.Pauses.News(w.Paused())).Before(t.Elapsed) > t.Paused
	case t.LeftOpen != "":
		return slices.ContainsFunc(w.Paused(), func(p verdict.Pause) bool { return p.Closed && p.ID == t.LeftOpen })
	}
	return w.Given[t.On] > t.Given
}
