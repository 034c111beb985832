package story

import (
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/session"
)

// A Stretch is a part of a run's life, for a picture of it.
type Stretch struct {
	Kind         StretchKind
	Since, Until time.Time
	// Name is the signal that interrupted an attempt, the key of a hold, what a grace was given for, or the run ID of a
	// layer.
	Name string
	// State is how a window, an attempt or a layer ended.
	State State
}

// A StretchKind is what a stretch is.
type StretchKind string

// The kinds.
const (
	StretchWindow  StretchKind = "window"
	StretchAttempt StretchKind = "attempt"
	StretchHold    StretchKind = "hold"
	StretchGrace   StretchKind = "grace"
	StretchLayer   StretchKind = "layer"
)

// Stretches are the windows of the run, oldest first, each followed by what is in it, and then its layers, in their
// order. Of the window that the run is in these are its attempts, if it was interrupted, its holds, and the graces in
// which it was to do what it was asked for. What has not ended lasts until the story is told.
func (s Story) Stretches() (all []Stretch) {
	for _, w := range s.Before {
		window := Stretch{Kind: StretchWindow, Since: w.StartedAt, Until: w.until(), State: w.state()}
		all = append(append(all, window), holdsIn(window, w.Holds)...)
	}
	if !s.StartedAt.IsZero() {
		until := s.StartedAt.Add(time.Duration(s.Elapsed + s.Paused))
		window := Stretch{Kind: StretchWindow, Since: s.StartedAt, Until: until, State: s.State}
		all = append(append(all, window), s.attempts(window)...)
		all = append(append(all, holdsIn(window, s.Holds)...), s.graces(window)...)
	}
	for _, l := range s.Layers {
		since := l.StartedAt
		if since.IsZero() {
			since = l.At
		}
		all = append(all, Stretch{Kind: StretchLayer, Since: since, Until: l.At, Name: l.RunID, State: l.State})
	}
	return all
}

// attempts are those of a window that was interrupted. When one began nothing tells: it is taken to be when the first
// thing after the interrupt happened, or else at the interrupt.
func (s Story) attempts(window Stretch) (all []Stretch) {
	since, moments := window.Since, s.Moments()
	for _, x := range s.Interrupts {
		if x.At.Before(since) {
			continue // of the same attempt
		}
		all = append(all, Stretch{StretchAttempt, since, x.At, x.Signal, Interrupted})
		since = x.At
		for len(moments) > 0 && !moments[0].At.After(x.At) {
			moments = moments[1:]
		}
		if len(moments) > 0 {
			since = moments[0].At
		}
	}
	if len(all) > 0 && since.Before(window.Until) {
		all = append(all, Stretch{StretchAttempt, since, window.Until, "", s.State})
	}
	return all
}

// graces are from when something was asked of the host until it was asked for more, or had done what was asked, and no
// longer than the limit that was exceeded, after which it would be asked again.
func (s Story) graces(window Stretch) (all []Stretch) {
	asked := map[[2]string]time.Time{} // when a limit was asked for next
	for _, r := range slices.Backward(s.Asked) {
		if r.Kind == "warning" || r.Observed {
			continue
		}
		until, limit := window.Until, [2]string{r.Limit, r.Hold}
		if r.Void {
			until = r.voidAt
		}
		ends := []time.Time{asked[limit]}
		if r.Allowed > 0 && r.Left == 0 {
			ends = append(ends, r.At.Add(time.Duration(r.Allowed)))
		}
		for _, end := range ends {
			if !end.IsZero() && end.Before(until) {
				until = end
			}
		}
		if until.Before(r.At) {
			until = r.At
		}
		asked[limit] = r.At
		name := directive(r.Kind) + " for " + limitName(r.Limit)
		all = append(all, Stretch{Kind: StretchGrace, Since: r.At, Until: until, Name: name})
	}
	slices.Reverse(all)
	return all
}

// holdsIn are the holds of a window. One that was not released ends with its window, or at its cap.
func holdsIn(window Stretch, holds []Hold) (all []Stretch) {
	for _, h := range holds {
		until := h.ReleasedAt
		if until.IsZero() {
			until = window.Until
		}
		if h.Cap > 0 {
			until = slices.MinFunc([]time.Time{until, h.OpenedAt.Add(time.Duration(h.Cap))}, time.Time.Compare)
		}
		all = append(all, Stretch{Kind: StretchHold, Since: h.OpenedAt, Until: until, Name: h.Key})
	}
	return all
}

func (w Window) until() time.Time {
	if w.EndedAt.IsZero() {
		return w.LastEventAt
	}
	return w.EndedAt
}

func (w Window) state() State {
	switch {
	case w.Corrected:
		return Finished
	case w.Code == session.ReasonFailed:
		return Failed
	case w.Code == record.CompleteReason:
		return Complete
	case w.Code != "":
		return Stopped
	}
	return Unknown
}

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
		m.add(s.StartedAt, 0, spent.Allowed)
		for _, r := range s.Asked {
			if u := r.Usage; u != nil && u.Limit == spent.Limit && u.Tool == spent.Tool {
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
