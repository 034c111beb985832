package story

import (
	"time"

	"github.com/seed62658d38/watchdog/session"
)

// A Meter is how a counted limit was used up in the window that the run is in, for a picture of it.
type Meter struct {
	session.Spent
	Points []MeterPoint
}

// A MeterPoint is which part of the limit was used at some time.
type MeterPoint struct {
	At   time.Time
	Part float64
}

// Meters are those of the limits of which something is used: from the window's start, by what was said of them when the
// run was warned or asked for something, to how far they are used at last.
func (s Story) Meters() (all []Meter) {
	for _, spent := range s.Spent {
		if spent.Allowed <= 0 || spent.Used <= 0 || s.StartedAt.IsZero() {
			continue
		}
		m := Meter{Spent: spent}
		if spent.Scope == "" { // others may have used a shared one before
			m.add(s.StartedAt, 0, spent.Allowed)
		}
		for _, r := range s.Asked {
			if u := r.Usage; u != nil && u.Limit == spent.Limit && u.Tool == spent.Tool && u.Scope == spent.Scope {
				m.add(r.At, u.Used, u.Allowed)
			}
		}
		m.add(s.StartedAt.Add(time.Duration(s.Elapsed+s.Paused)), spent.Used, spent.Allowed)
		if len(m.Points) > 1 {
			all = append(all, m)
		}
	}
	return all
}

func (m *Meter) add(at time.Time, used, allowed int64) {
	if allowed > 0 {
		m.Points = append(m.Points, MeterPoint{at, float64(used) / float64(allowed)})
	}
}
