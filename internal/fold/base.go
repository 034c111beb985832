package fold

import (
	"maps"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/ordered"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// Lookback is how far the clocks of the hosts that write a run's events may be apart. An event that is stored now may
// be dated that long ago, or come that long from now.
const Lookback = time.Hour

// grace is how long an event can be under way: what is newer is not folded yet.
const grace = 2 * time.Second

// A Base is what a process has folded of a run's events, so that it does not read them again: only those from Until on,
// or from Since on if another process has stored one between the two since. It does not change.
//
// Rejected: the IDs of the events of the last hour, to fold each once whoever stores it when. A reader would read the
// hour every time, to find nothing new in it.
type Base struct {
	From  time.Time // no event before it was read, but for those that were asked for by name
	Since time.Time // settled holds those before it
	Until time.Time // folded holds those before it
	Known int       // how many of them there are from Since until Until

	settled, folded History
	next            milestone // the next Since, once it is old enough
}

// A milestone is an earlier Until.
type milestone struct {
	at     time.Time
	folded History
	known  int // how many events there are from Since until it
}

// NewBase returns one that holds nothing, for events from then on.
func NewBase(id WindowID, from time.Time) *Base {
	b := &Base{From: from, Since: from, Until: from, settled: Of(id, nil)}
	b.folded = b.settled
	b.next = milestone{at: from, folded: b.folded}
	return b
}

// Of returns what these events say besides what is folded. They are all from Since on, or, if as many as Known are from
// there until Until, all but those. There may be others of before. Besides are events that are known otherwise.
func (b *Base) Of(events []Event, besides ...Event) History {
	h, _ := b.fold(events)
	h.fold(besides)
	return h
}

func (b *Base) fold(events []Event) (h History, spared bool) {
	known := 0
	for i := range events {
		if b.holds(&events[i]) {
			known++
		}
	}
	spared = known < b.Known
	from := b.settled
	if spared {
		from = b.folded
	}
	h = from.clone()
	h.fold(events)
	return h, spared
}

// holds reports whether an event dated so is among those that are Known, or came later.
func (b *Base) holds(e *Event) bool {
	return !e.Timestamp.Before(b.Since) && e.Timestamp.Before(b.Until)
}

// News counts the events that are not folded yet, as far as can be told without reading those that are.
func (b *Base) News(events []Event) (n int) {
	for i := range events {
		if !events[i].Timestamp.Before(b.Until) {
			n++
		}
	}
	return n
}

// With returns a base that holds these events, too, which are what [Base.Of] takes, now, but for those of the last
// moments. It returns the same one if one of them cannot be read and may be of the window that began then: somebody may
// correct it.
func (b *Base) With(events []Event, window, now time.Time) *Base {
	under := record.Truncate(now).Add(-grace)
	if under.Before(b.Until) {
		under = b.Until
	}
	events = slices.DeleteFunc(slices.Clone(events), func(e Event) bool { return !e.Timestamp.Before(under) })
	h, spared := b.fold(events)
	if h.Unreadable(window) != nil {
		return b
	}
	h.unreadable = nil
	with := &Base{
		From: b.From, Since: b.Since, Until: b.Until, Known: b.Known, settled: b.settled, folded: h, next: b.next,
	}
	with.count(events, spared)
	settled := record.Truncate(now) // as stores do
	if with.Until.Before(now) {
		settled = with.Until
	}
	if settled = settled.Add(-Lookback); spared {
		if !with.next.at.After(settled) {
			with.Since, with.settled = with.next.at, with.next.folded
			with.Known -= with.next.known
			with.setNext()
		}
	} else {
		with.settle(events, settled)
	}
	with.folded.compact(with.Until)
	return with
}

// count moves Until behind the newest of the events.
func (b *Base) count(events []Event, spared bool) {
	from, newest := b.Since, b.Until
	if spared {
		from = b.Until
	} else {
		b.Known = 0
	}
	for i := range events {
		if at := events[i].Timestamp; !at.Before(from) {
			b.Known++
			if !at.Before(newest) {
				newest = at.Add(time.Microsecond)
			}
		}
	}
	b.Until = newest
}

// settle moves Since to then, with all events from the old one on at hand.
func (b *Base) settle(events []Event, then time.Time) {
	if then.After(b.Since) {
		events = slices.Clone(events)
		ordered.Sort(events, Event.Compare)
		at := slices.IndexFunc(events, func(e Event) bool { return !e.Timestamp.Before(then) })
		if at < 0 {
			at = len(events)
		}
		settled := b.settled.clone()
		settled.fold(events[:at])
		settled.unreadable = nil
		settled.compact(then)
		b.Since, b.settled, b.Known = then, settled, len(events)-at
	}
	b.setNext()
}

func (b *Base) setNext() { b.next = milestone{b.Until, b.folded, b.Known} }

// Note returns a base that holds an event, too, which says nothing of a window: it is stored with that time, Until or
// later.
func (b *Base) Note(at time.Time) *Base {
	with := *b
	with.Until, with.Known = at.Add(time.Microsecond), with.Known+1
	return &with
}

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

func (p pause) end() time.Duration { return min(p.Released, verdict.Sum(p.Opened, p.Cap)) }

func (p pause) over(by time.Duration) bool { return p.Closed && p.end() <= by }
