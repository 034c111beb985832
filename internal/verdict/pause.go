package verdict

import (
	"cmp"
	"maps"
	"slices"
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
	// Own says that this process opened it, took it over or ended it: it knows what became of it, whatever a store has.
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

// An interval is a stretch of time from one instant up to another.
type interval struct{ from, to time.Duration }

// Pauses are those of a window. The zero value has none.
type Pauses struct {
	all   []Pause
	index map[string]int // into all, by ID
	union []interval     // of all, sorted, apart
}

// Set notes a pause, or what became of one that is known; of two ends the later told one counts. It reports whether
// that was news.
func (p *Pauses) Set(pause Pause) bool {
	i, known := p.index[pause.ID]
	switch {
	case !known:
		if p.index == nil {
			p.index = map[string]int{}
		}
		p.index[pause.ID] = len(p.all)
		p.all = append(p.all, pause)
	case !pause.Closed || p.all[i].Closed && p.all[i].Released == pause.Released:
		return false
	default:
		p.all[i].Closed, p.all[i].Released = true, pause.Released
	}
	p.unite()
	return true
}

// TakeOver makes a pause that is known one of this process's own.
func (p *Pauses) TakeOver(id string) {
	if i, known := p.index[id]; known {
		p.all[i].Own = true
	}
}

// News returns what is news in what a store has, as [Pauses.Set] takes it: pauses of other processes, and their ends.
// Of two ends the one that the store has counts.
func (p *Pauses) News(stored []Pause) (news []Pause) {
	for _, s := range stored {
		known, opened := p.Find(s.ID)
		if !opened || !known.Own && s.Closed && (!known.Closed || known.Released != s.Released) {
			news = append(news, s)
		}
	}
	return news
}

// With returns these pauses and the others.
func (p *Pauses) With(others []Pause) *Pauses {
	all := &Pauses{all: slices.Clone(p.all), index: maps.Clone(p.index)}
	for _, other := range others {
		all.Set(other)
	}
	all.unite()
	return all
}

// Find returns what is known of a pause, and whether its opening is.
func (p *Pauses) Find(id string) (known Pause, opened bool) {
	i, opened := p.index[id]
	if !opened {
		return Pause{}, false
	}
	return p.all[i], true
}

// Open returns the pauses that are open at the instant now.
func (p *Pauses) Open(now time.Duration) (open []Pause) {
	for _, pause := range p.all {
		if !pause.Closed && pause.end() > now {
			open = append(open, pause)
		}
	}
	return open
}

// unite merges the pauses into stretches that do not overlap.
func (p *Pauses) unite() {
	p.union = p.union[:0]
	for _, pause := range p.all {
		if pause.end() > pause.Opened {
			p.union = append(p.union, interval{pause.Opened, pause.end()})
		}
	}
	slices.SortFunc(p.union, func(a, b interval) int { return cmp.Compare(a.from, b.from) })
	merged := p.union[:0]
	for _, stretch := range p.union {
		if last := len(merged) - 1; last >= 0 && stretch.from <= merged[last].to {
			merged[last].to = max(merged[last].to, stretch.to)
			continue
		}
		merged = append(merged, stretch)
	}
	p.union = merged
}

// Before returns how long the wall clock stood still before the instant now.
func (p *Pauses) Before(now time.Duration) time.Duration {
	if p == nil {
		return 0
	}
	var paused time.Duration
	for _, stretch := range p.union {
		paused += max(min(stretch.to, now)-stretch.from, 0)
	}
	return paused
}

// instant returns the first instant at which the wall clock shows that much, as far as can be known now: a pause that
// is open may still end earlier.
func (p *Pauses) instant(worked time.Duration) time.Duration {
	if p == nil {
		return worked
	}
	at := worked
	for _, stretch := range p.union {
		if at <= stretch.from {
			break
		}
		at = Sum(at, stretch.to-stretch.from)
	}
	return at
}

// PausedBefore returns how long all of these had stopped the wall clock before the instant now.
func PausedBefore(all []Pause, now time.Duration) time.Duration {
	p := Pauses{all: all}
	p.unite()
	return p.Before(now)
}

// worked returns what the wall clock shows at the instant now.
func (s *Snapshot) worked(now time.Duration) time.Duration { return now - s.pauses().Before(now) }

func (s *Snapshot) pauses() *Pauses {
	if s.Signs == nil {
		return nil
	}
	return &s.Signs.Pauses
}
