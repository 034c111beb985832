package page

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/record"
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
		bars = append(bars, counted(spent))
	}
	for i := range bars {
		bars[i].setLevel()
	}
	return bars
}

// moved is the bar of a limit that began at an instant, which the script moves.
func moved(name string, limit float64, since, now time.Time) bar {
	b := timed(name, limit, now.Sub(since))
	b.Limit, b.Since = limit, since
	return b
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

func counted(s session.Spent) bar {
	write := number
	if s.Limit == "cost" {
		write = func(n int64) string { return money(n, "") }
	}
	left := watchdog.Usage{Used: s.Used, Admitted: s.Admitted, Allowed: s.Allowed}.Remaining()
	b := bar{Name: words(s.Limit), Text: write(left), Of: write(s.Allowed)}
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

// length is a duration for people: two units at most.
func length(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return units(d, time.Minute, "m", time.Second, "s")
	case d < 48*time.Hour:
		return units(d, time.Hour, "h", time.Minute, "m")
	}
	return units(d, 24*time.Hour, "d", time.Hour, "h")
}

func units(d, big time.Duration, bigName string, small time.Duration, smallName string) string {
	text := strconv.Itoa(int(d/big)) + bigName
	if rest := d % big / small; rest > 0 {
		text += fmt.Sprintf(" %d%s", rest, smallName)
	}
	return text
}

// seconds are those of a row, as a duration.
func seconds(s float64) time.Duration { return record.Duration(record.Seconds(s)) }

// number writes a whole number, a large one shortly: 9,999, 41.3k, 1.76M.
func number(n int64) string {
	switch {
	case n >= 10_000_000_000 || n <= -10_000_000_000:
		return short(n, 1e9, "G")
	case n >= 1_000_000 || n <= -1_000_000:
		return short(n, 1e6, "M")
	case n >= 10_000 || n <= -10_000:
		return short(n, 1e3, "k")
	case n >= 1000:
		return fmt.Sprintf("%d,%03d", n/1000, n%1000)
	}
	return strconv.FormatInt(n, 10)
}

// short rounds down to three digits, so that what is left never looks like more.
func short(n int64, unit float64, name string) string {
	value := float64(n) / unit
	digits := max(2-int(math.Log10(math.Abs(value))), 0)
	scale := math.Pow(10, float64(digits))
	return strconv.FormatFloat(math.Trunc(value*scale)/scale, 'f', -1, 64) + name
}

// money writes micro-units with two digits, or as many as a small sum needs.
func money(micros int64, currency string) string {
	text := strconv.FormatFloat(float64(micros)/1e6, 'f', 2, 64)
	if micros%10_000 != 0 && micros < 1_000_000 {
		text = strconv.FormatFloat(float64(micros)/1e6, 'f', -1, 64)
	}
	return strings.TrimSpace(text + " " + currency)
}

// words is a name of the code as people write it.
func words(name string) string { return strings.ReplaceAll(name, "_", " ") }
