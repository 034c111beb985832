package fold

import (
	"maps"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/record"
)

// Lookback is how far the clocks of the hosts that write a run's events may be apart. An event that is stored now may
// be dated that long ago, or come that long from now.
const Lookback = time.Hour

// grace is how long an event can be under way: what is newer is read again.
const grace = 2 * time.Second

// A Base is what a process has read of a run's events, so that it does not read them again: only those from Until on,
// or from Since on if another process has stored one between the two since. It does not change.
//
// Rejected: the IDs of the events of the last hour, to fold each once whoever stores it when. A reader would read the
// hour every time, to find nothing new in it.
type Base struct {
	Since time.Time // settled holds those before it
	Until time.Time // folded holds those before it
	Known int       // how many of them there are from Since until Until

	settled, folded History
}

// NewBase returns one that holds nothing, for events from then on.
func NewBase(id WindowID, from time.Time) *Base {
	b := &Base{Since: from, Until: from, settled: Of(id, nil)}
	b.folded = b.settled
	return b
}

// Of returns what these events say besides what is folded. They are all from Since on, or, if as many as Known are from
// there until Until, all but those. There may be others of before. Besides are events that are known otherwise.
func (b *Base) Of(events []event.Event, besides ...event.Event) History {
	h := b.settled
	if b.spares(events) {
		h = b.folded
	}
	h = h.with(events)
	return h.with(besides)
}

// spares reports whether those are missing that are Known.
func (b *Base) spares(events []event.Event) bool {
	known := 0
	for i := range events {
		if at := events[i].Timestamp; !at.Before(b.Since) && at.Before(b.Until) {
			known++
		}
	}
	return known < b.Known
}

// News counts the events that are not folded yet, as far as can be told without reading those that are.
func (b *Base) News(events []event.Event) (n int) {
	for i := range events {
		if !events[i].Timestamp.Before(b.Until) {
			n++
		}
	}
	return n
}

// Wide reports that a store counts the events of more than two hours to tell whether there is a late one. All from
// Since on are to be read once more then, which moves it.
func (b *Base) Wide() bool { return b.Until.Sub(b.Since) > 2*Lookback }

// Read returns what [Base.Of] does, and a base that holds the events, too, but for those of the last moments before now
// and those that cannot be read.
func (b *Base) Read(events []event.Event, now time.Time) (h History, next *Base) {
	now = event.Truncate(now) // as stores do
	over, young := before(later(now.Add(-grace), b.Until), inOrder(events))
	next = &Base{Since: b.Since, Until: b.Until, Known: b.Known, settled: b.settled, folded: b.folded}
	if n := len(over); n > 0 {
		next.Until = later(b.Until, over[n-1].Timestamp.Add(time.Microsecond))
	}
	if b.spares(events) {
		next.Known += b.News(over)
	} else {
		over = next.settle(over, now)
		next.folded = next.settled
	}
	next.folded = next.folded.with(over)
	if len(over) > 0 {
		next.folded.compact(next.Until)
	}
	h = next.folded.with(young)
	next.settled.unreadable, next.folded.unreadable = nil, nil
	return h, next
}

// settle moves Since, with all events from the old one until Until at hand, and returns those from the new one on.
func (b *Base) settle(events []event.Event, now time.Time) (unsettled []event.Event) {
	if b.Until.Before(now) {
		now = b.Until
	}
	b.Since = later(b.Since, now.Add(-Lookback))
	old, unsettled := before(b.Since, events)
	b.Known = len(unsettled)
	if len(old) > 0 {
		b.settled = b.settled.with(old)
		b.settled.compact(b.Since)
	}
	return unsettled
}

// before divides ordered events at a time.
func before(at time.Time, events []event.Event) (older, others []event.Event) {
	first := event.Event{Timestamp: at} // an empty ID comes before every other
	n, _ := slices.BinarySearchFunc(events, first, event.Event.Compare)
	return events[:n], events[n:]
}

func later(one, other time.Time) time.Time {
	if other.After(one) {
		return other
	}
	return one
}

// with returns a history that these events are folded into, too. This one stays as it is.
func (h *History) with(events []event.Event) History {
	if len(events) == 0 {
		return *h
	}
	c := *h
	c.windows = make(map[time.Time]*Window, len(h.windows))
	for start, w := range h.windows {
		c.windows[start] = w.clone()
	}
	c.after, c.cancels = maps.Clone(h.after), maps.Clone(h.cancels)
	c.corrected, c.unreadable = slices.Clone(h.corrected), slices.Clone(h.unreadable)
	c.fold(events)
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
		maps.DeleteFunc(w.asked, func(of request, _ bool) bool {
			given := record.Seconds(w.Given[of.Key])
			if of.Key == (Key{}) {
				given = record.Seconds(w.Extended.Seconds())
			}
			return of.Budget < given
		})
	}
}
