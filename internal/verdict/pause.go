package verdict

import (
	"cmp"
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

// maxPauses is how many closed pauses are kept apart. Those beyond are only summed up: then one that is learned of late
// and overlaps them counts twice.
const maxPauses = 1000

// Pauses are those of a window. The zero value has none.
type Pauses struct {
	all   []Pause
	union []interval    // of all, sorted, apart
	older time.Duration // what those paused that are not kept
}

// Set notes a pause, or what became of one that is known; of two ends the later told one counts. It reports whether that
// was news.
func (p *Pauses) Set(pause Pause) bool {
	i := slices.IndexFunc(p.all, func(known Pause) bool { return known.ID == pause.ID })
	switch {
	case i < 0:
		p.all = append(p.all, pause)
	case !pause.Closed || p.all[i].Closed && p.all[i].Released == pause.Released:
		return false
	default:
		p.all[i].Closed, p.all[i].Released = true, pause.Released
	}
	p.forget()
	p.unite()
	return true
}

// Find returns what is known of a pause, and whether its opening is.
func (p *Pauses) Find(id string) (known Pause, opened bool) {
	for _, known := range p.all {
		if known.ID == id {
			return known, true
		}
	}
	return Pause{}, false
}

// forget sums up the oldest pauses where there are too many, once all are closed.
func (p *Pauses) forget() {
	open := func(pause Pause) bool { return !pause.Closed }
	if len(p.all) < maxPauses || slices.ContainsFunc(p.all, open) {
		return
	}
	p.unite()
	for _, stretch := range p.union {
		p.older += stretch.to - stretch.from
	}
	p.all = nil
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
	paused := p.older
	for _, stretch := range p.union {
		paused += max(min(stretch.to, now)-stretch.from, 0)
	}
	return paused
}

// instant returns the first instant at which the wall clock shows that much, as far as can be known now: a pause that is
// open may still end earlier.
func (p *Pauses) instant(worked time.Duration) time.Duration {
	if p == nil {
		return worked
	}
	at := Sum(worked, p.older)
	for _, stretch := range p.union {
		if at <= stretch.from {
			break
		}
		at = Sum(at, stretch.to-stretch.from)
	}
	return at
}

// All returns the pauses that are kept, in the order in which they were learned of.
func (p *Pauses) All() []Pause {
	if p == nil {
		return nil
	}
	return slices.Clone(p.all)
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
