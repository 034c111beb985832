package verdict

import (
	"slices"
	"sort"
	"time"
)

// A Pause is a stretch that the wall clock does not count: a hold that stops it, from its opening until it is released,
// or until its cap is used up.
type Pause struct {
	// ID tells it from others.
	ID string
	// Opened is when it began, Cap how long it may last.
	Opened, Cap time.Duration
	// Released is when it ended; it counts once Closed is set.
	Released time.Duration
	Closed   bool
	// Own says that this process opened it: it knows what became of it, whatever a store has.
	Own bool
}

// end returns when the pause ends, if nothing releases it earlier.
func (p Pause) end() time.Duration {
	end := Sum(p.Opened, p.Cap)
	if p.Closed {
		end = min(end, p.Released)
	}
	return end
}

// A stretch is a time that the wall clock does not count, from one instant up to another.
type stretch struct {
	from, to time.Duration
	before   time.Duration // how long those before it last, together
}

func (s stretch) length() time.Duration { return max(s.to-s.from, 0) }

// Pauses are those of a window. The zero value has none.
type Pauses struct {
	all   []*Pause          // by when they were opened
	index map[string]*Pause // by ID
	// union are the stretches of all, sorted, apart, as far as it is not stale: from an instant on it is made when it is
	// asked for, so that many pauses that are noted at once are merged once.
	union  []stretch
	stale  bool
	from   time.Duration
	merged int // how many were merged, in all
}

// Set notes a pause, or what became of one that is known; of two ends the later told one counts. It reports whether
// that was news. What the next question takes grows with the pauses that overlap with this one or were opened later,
// not with all.
func (p *Pauses) Set(pause Pause) bool {
	known := p.index[pause.ID]
	switch {
	case known == nil:
		known = &pause
		p.insert(known)
	case !known.ended(pause):
		return false
	}
	if !p.stale || known.Opened < p.from {
		p.stale, p.from = true, known.Opened
	}
	return true
}

func (p *Pauses) insert(pause *Pause) {
	i := sort.Search(len(p.all), func(i int) bool { return p.all[i].Opened > pause.Opened })
	p.all = slices.Insert(p.all, i, pause)
	if p.index == nil {
		p.index = map[string]*Pause{}
	}
	p.index[pause.ID] = pause
}

// ended notes the end that was told, and reports whether that was news.
func (p *Pause) ended(told Pause) bool {
	if !told.Closed || p.Closed && p.Released == told.Released {
		return false
	}
	p.Closed, p.Released = true, told.Released
	return true
}

// MakeOwn makes a pause that is known one of this process's own.
func (p *Pauses) MakeOwn(id string) {
	if known := p.index[id]; known != nil {
		known.Own = true
	}
}

// News returns what is news in what a store has, as [Pauses.Set] takes it.
func (p *Pauses) News(stored []Pause) (news []Pause) {
	for _, s := range stored {
		if p.IsNews(s) {
			news = append(news, s)
		}
	}
	return news
}

// IsNews reports whether what a store has of a pause is news: a pause of another process, or its end. Of two ends that
// which the store has counts.
func (p *Pauses) IsNews(stored Pause) bool {
	known, opened := p.Find(stored.ID)
	return !opened || !known.Own && stored.Closed && (!known.Closed || known.Released != stored.Released)
}

// With returns these pauses and the others.
func (p *Pauses) With(others []Pause) *Pauses {
	all := &Pauses{}
	for _, pause := range p.all {
		all.Set(*pause)
	}
	for _, other := range others {
		all.Set(other)
	}
	return all
}

// Find returns what is known of a pause, and whether its opening is.
func (p *Pauses) Find(id string) (known Pause, opened bool) {
	if at := p.index[id]; at != nil {
		return *at, true
	}
	return Pause{}, false
}

// None reports whether there is no pause.
func (p *Pauses) None() bool { return len(p.all) == 0 }

// Open returns the pauses that are open at the instant now, or will be. It looks at those from the stretch on that the
// instant is in.
func (p *Pauses) Open(now time.Duration) (open []Pause) {
	from, union := now, p.stretches()
	if n := sort.Search(len(union), func(i int) bool { return union[i].from > now }); n > 0 {
		if last := union[n-1]; last.to > now {
			from = last.from
		}
	}
	first := sort.Search(len(p.all), func(i int) bool { return p.all[i].Opened >= from })
	for _, pause := range p.all[first:] {
		if !pause.Closed && pause.end() > now {
			open = append(open, *pause)
		}
	}
	return open
}

// stretches are the union. What lies before the stretch that the first pause which was noted since is in, or comes
// before, stays.
func (p *Pauses) stretches() []stretch {
	if !p.stale {
		return p.union
	}
	opened := p.from
	p.stale = false
	at := sort.Search(len(p.union), func(i int) bool { return p.union[i].to >= opened })
	if at < len(p.union) {
		opened = min(opened, p.union[at].from)
	}
	p.union = p.union[:at]
	first := sort.Search(len(p.all), func(i int) bool { return p.all[i].Opened >= opened })
	for _, pause := range p.all[first:] {
		p.merge(pause)
	}
	p.merged += len(p.all) - first
	return p.union
}

// merge adds a pause that was opened no earlier than all that the union has.
func (p *Pauses) merge(pause *Pause) {
	s := stretch{from: pause.Opened, to: pause.end()}
	if s.to <= s.from {
		return
	}
	if n := len(p.union); n > 0 {
		last := &p.union[n-1]
		if s.from <= last.to {
			last.to = max(last.to, s.to)
			return
		}
		s.before = last.before + last.length()
	}
	p.union = append(p.union, s)
}

// Before returns how long the wall clock stood still before the instant now.
func (p *Pauses) Before(now time.Duration) time.Duration {
	if p == nil {
		return 0
	}
	union := p.stretches()
	n := sort.Search(len(union), func(i int) bool { return union[i].from >= now })
	if n == 0 {
		return 0
	}
	last := union[n-1]
	last.to = min(last.to, now)
	return last.before + last.length()
}

// After returns how much longer than the instant now the wall clock stands still, if nothing is released: 0 if it goes
// on.
func (p *Pauses) After(now time.Duration) time.Duration {
	union := p.stretches()
	n := sort.Search(len(union), func(i int) bool { return union[i].from > now })
	if n == 0 {
		return 0
	}
	return max(union[n-1].to-now, 0)
}

// instant returns the first instant at which the wall clock shows that much, as far as can be known now: a pause that
// is open may still end earlier.
func (p *Pauses) instant(worked time.Duration) time.Duration {
	if p == nil {
		return worked
	}
	union := p.stretches()
	n := sort.Search(len(union), func(i int) bool { return Sum(worked, union[i].before) <= union[i].from })
	if n == 0 {
		return worked
	}
	return Sum(worked, union[n-1].before+union[n-1].length())
}

// PausedBefore returns how long all of these, each with an ID of its own, had stopped the wall clock before the instant
// now.
func PausedBefore(all []Pause, now time.Duration) time.Duration {
	return new(Pauses).With(all).Before(now)
}

func (s *Snapshot) worked(now time.Duration) time.Duration { return now - s.pauses().Before(now) }

func (s *Snapshot) pauses() *Pauses {
	if s.Signs == nil {
		return nil
	}
	return &s.Signs.Pauses
}
