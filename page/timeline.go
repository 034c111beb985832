package page

import (
	"math"
	"slices"
	"time"
)

const maxLanes = 12

// A timeline is the life of a run as a picture. Places are parts of a hundred of its width, because it is as wide as
// the window; heights are pixels.
type timeline struct {
	Since, Until time.Time
	Height       int
	Bands        []band
	Marks        []mark
	Ticks        []tick
	Lanes        []lane
	Deadline     float64 // where the wall clock ends; 0 if that is not in the picture
	Axis         int     // where the times are, from the top
}

type (
	// A band is a stretch of time: a window, or a hold.
	band struct {
		X, Width    float64
		Kind, Label string
		Since       time.Time
	}
	// A mark is an event.
	mark struct {
		X           float64
		Kind, Label string
		At          time.Time
	}
	// A tick is a place on the axis. Anchor is how its text lies there.
	tick struct {
		X            float64
		Text, Anchor string
	}
	// A lane is a layer.
	lane struct {
		X, Width   float64
		Y          int
		RunID, End string
	}
)

// The heights of the parts of a timeline.
const (
	bandHeight = 44
	laneHeight = 30
	axisHeight = 22
)

// A scale places times.
type scale struct {
	since time.Time
	whole float64
}

func (s scale) at(t time.Time) float64 {
	return math.Round(min(max(float64(t.Sub(s.since))/s.whole, 0), 1)*10000) / 100
}

// wide is the width of a stretch, enough to be seen.
func (s scale) wide(since, until time.Time) (x, width float64) {
	x = s.at(since)
	return x, math.Round(max(s.at(until)-x, 0.3)*100) / 100
}

// drawTimeline draws a run from its first event or the start of its window to its end, or to now.
func drawTimeline(v *runPage) (t timeline) {
	t.Since, t.Until = v.extent()
	s := scale{t.Since, float64(max(t.Until.Sub(t.Since), time.Millisecond))}
	for i, w := range v.Windows {
		t.Bands = append(t.Bands, s.window(w, v, i == len(v.Windows)-1))
	}
	if len(v.Windows) == 0 || v.Live && v.Since.After(v.Windows[len(v.Windows)-1].Since) {
		t.Bands = append(t.Bands, s.band(span{Since: v.Since, Until: t.Until}, "live", "window"))
	}
	for _, h := range v.Holds {
		if h.Until.IsZero() {
			h.Until = t.Until
		}
		t.Bands = append(t.Bands, s.band(h, "hold", h.Name))
	}
	for _, e := range v.Entries {
		t.Marks = append(t.Marks, mark{s.at(e.At), e.Kind, e.Said, e.At})
	}
	t.addLanes(v, s)
	t.addTicks()
	return t
}

// extent is the stretch of time that the picture shows.
func (v *runPage) extent() (since, until time.Time) {
	since, until = v.Since, v.Since
	times := []time.Time{}
	for _, w := range v.Windows {
		times = append(times, w.Since)
	}
	for _, e := range v.Entries {
		times = append(times, e.At)
	}
	for _, l := range v.Layers {
		times = append(times, l.Since, l.Until)
	}
	if v.Live {
		times = append(times, v.Now)
	} else if v.Row != nil {
		times = append(times, v.Row.Until)
	}
	if len(times) == 0 {
		return since, until
	}
	since = slices.MinFunc(append(times, since), time.Time.Compare)
	return since, slices.MaxFunc(append(times, until), time.Time.Compare)
}

// window is the band of a window. One without an end goes on to the next event of all, or to now.
func (s scale) window(w span, v *runPage, last bool) band {
	kind := w.Kind
	switch {
	case !w.Until.IsZero():
	case last && v.Live:
		w.Until, kind = v.Now, "live"
	case last && v.Row != nil:
		w.Until = v.Row.Until
	default:
		for _, e := range v.Entries {
			if e.At.After(w.Until) {
				w.Until = e.At
			}
		}
	}
	return s.band(w, kind, "window")
}

func (s scale) band(stretch span, kind, label string) band {
	x, width := s.wide(stretch.Since, stretch.Until)
	return band{x, width, kind, label, stretch.Since}
}

func (t *timeline) addLanes(v *runPage, s scale) {
	y := bandHeight
	for _, l := range v.Layers[:min(len(v.Layers), maxLanes)] {
		end := "live"
		until := l.Until
		switch {
		case l.Ended != nil:
			end = l.Ended.Kind
		case v.Live:
			until = v.Now
		}
		x, width := s.wide(l.Since, until)
		t.Lanes = append(t.Lanes, lane{x, width, y, l.RunID, end})
		y += laneHeight
	}
	t.Axis, t.Height = y+axisHeight-6, y+axisHeight
}

// addTicks marks the beginning, the end and what lies between.
func (t *timeline) addTicks() {
	whole := t.Until.Sub(t.Since)
	for _, place := range []struct {
		part   float64
		anchor string
	}{{0, "start"}, {0.5, "middle"}, {1, "end"}} {
		at := time.Duration(float64(whole) * place.part)
		t.Ticks = append(t.Ticks, tick{100 * place.part, "+" + length(at), place.anchor})
	}
	t.Ticks[0].Text = t.Since.UTC().Format("15:04:05 UTC")
}
