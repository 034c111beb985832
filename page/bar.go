package page

import (
	"math"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/story"
	"github.com/seed62658d38/watchdog/session"
)

// A bar shows how much of a limit is left. Its numbers are parts of a hundred of the limit.
type bar struct {
	Name string
	Left float64
	// Reserve is the part at the end that is kept for wrapping up. Warned are the places of the warnings.
	Reserve float64
	Warned  []float64
	Level   string // "", "low", "warned", "reserve" or "spent"
	// Text says it in words: what is left, and of what. Of a bar that stands Still it is why.
	Text, Of string
	Still    bool
	// Scope is who shares the limit.
	Scope string
	// Limit and Since let the script move a bar of time: its length in seconds, and when nothing of it was used yet. A
	// Limit of 0 stands still.
	Limit float64
	Since time.Time
}

// used is which part of a limit is used, and which more will be in a second.
func (b *bar) used() (part, rate float64) {
	if b.Limit > 0 {
		rate = 1 / b.Limit
	}
	return 1 - b.Left/100, rate
}

// nearest is the limit that is nearest its end, nil for none, and after how many seconds another will be if nothing
// happens; 0 for never.
func nearest(bars []bar) (b *bar, turns float64) {
	for i := range bars {
		if b == nil || bars[i].Left < b.Left || bars[i].Left == b.Left && bars[i].shorter(b) {
			b = &bars[i]
		}
	}
	for i := range bars {
		used, rate := b.used()
		if other, faster := bars[i].used(); faster > rate {
			if after := (used - other) / (faster - rate); turns == 0 || after < turns {
				turns = after
			}
		}
	}
	return b, turns
}

// shorter reports whether a limit burns down faster than another.
func (b *bar) shorter(than *bar) bool {
	_, rate := b.used()
	_, other := than.used()
	return rate > other
}

// low is the part of a limit at which a bar without marks shows that little is left.
const low = 20

// setLevel names how urgent it is.
func (b *bar) setLevel() {
	switch {
	case b.Left <= 0:
		b.Level = "spent"
	case b.Left <= b.Reserve:
		b.Level = "reserve"
	case len(b.Warned) > 0 && b.Left <= slices.Max(b.Warned):
		b.Level = "warned"
	case b.Warned == nil && b.Left <= low:
		b.Level = "low"
	}
}

// timed is the bar of a limit of time of which a part was used.
func timed(name string, limit float64, used time.Duration) bar {
	allowed := seconds(limit)
	left := max(allowed-max(used, 0), 0)
	b := bar{Name: name, Text: length(left), Of: length(allowed)}
	if allowed > 0 {
		b.Left = percent(float64(left), float64(allowed))
	}
	return b
}

// moving has the script move a bar.
func (b bar) moving(limit float64, since time.Time) bar {
	b.Limit, b.Since = limit, since
	return b
}

func percent(part, whole float64) float64 {
	return math.Round(min(max(part/whole, 0), 1)*1000) / 10
}

// barsOf returns the bars of a live session, at the database's time now.
func barsOf(s session.Session, state session.State, now time.Time) []bar {
	var bars []bar
	if state.WallClock > 0 && !s.StartedAt.IsZero() {
		bars = append(bars, wallClock(s, state, now))
	}
	if state.Safety > 0 && s.Lease != "" && !s.LastEventAt.IsZero() { // which is then when the run was attached
		bars = append(bars, moved("safety", state.Safety, s.LastEventAt, now))
	}
	if state.Idle > 0 {
		bars = append(bars, idle(s, state, now))
	}
	for _, spent := range state.Spent {
		if spent.Limit != story.LoopLimit { // in rows of programs before this one
			bars = append(bars, counted(spent))
		}
	}
	for i := range bars {
		bars[i].setLevel()
	}
	return bars
}

// moved is the bar of a limit that began at an instant.
func moved(name string, limit float64, since, now time.Time) bar {
	return timed(name, limit, now.Sub(since)).moving(limit, since)
}

func wallClock(s session.Session, state session.State, now time.Time) bar {
	b := moved("wall clock", state.WallClock, s.StartedAt.Add(seconds(state.Paused)), now)
	b.mark(state.Reserve, state.WallClock, state.WarnAt)
	return b
}

// mark marks the reserve and the warnings of a limit; nil is for the default ones.
func (b *bar) mark(reserve, limit float64, warnAt []float64) {
	b.Reserve = percent(reserve, limit)
	if warnAt == nil {
		warnAt = []float64{watchdog.DefaultWarnAt}
	}
	for _, fraction := range warnAt {
		b.Warned = append(b.Warned, percent(1-fraction, 1))
	}
}

// idle is how much silence is left. Of a session with a lease less than a minute of it is not known, and while a hold
// is open none is counted.
func idle(s session.Session, state session.State, now time.Time) bar {
	switch {
	case state.Holds > 0:
		b := timed("idle", state.Idle, 0)
		b.Text, b.Still = "held", true
		return b
	case s.Lease != "" && s.Silence == 0:
		b := timed("idle", state.Idle, 0)
		b.Text, b.Still = "active", true
		return b
	}
	return moved("idle", state.Idle, now.Add(-s.SilentFor(now)), now)
}

// counted is the bar of a counted limit.
func counted(s session.Spent) bar {
	write := number
	if s.Limit == "cost" {
		write = func(n int64) string { return money(n, "") }
	}
	left := watchdog.Usage{Used: s.Used, Admitted: s.Admitted, Allowed: s.Allowed}.Remaining()
	b := bar{Name: words(s.Limit), Text: write(left), Of: write(s.Allowed), Scope: s.Scope}
	if s.Limit == "cost" {
		b.Of = money(s.Allowed, s.Currency)
	}
	if s.Tool != "" {
		b.Name += " of " + s.Tool
	}
	if s.Allowed > 0 {
		b.Left = percent(float64(left), float64(s.Allowed))
		b.mark(float64(s.Reserve), float64(s.Allowed), s.WarnAt)
	}
	return b
}
