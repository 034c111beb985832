package page

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/story"
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
	MoreLanes    int // layers without a lane
	Axis         int // where the times are, from the top
}

type (
	// A band is a stretch of time: a window, or a hold.
	band struct {
		X, Width    float64
		Kind, Label string
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
		X, Width    float64
		Y           int
		RunID, Kind string
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

// drawTimeline draws a run from its first event or the start of its first window to its end, or to now.
func drawTimeline(v *runPage) (t timeline) {
	stretches := v.Stretches()
	t.Since, t.Until = v.extent(stretches)
	s := scale{t.Since, float64(max(t.Until.Sub(t.Since), time.Millisecond))}
	y := bandHeight
	for _, x := range stretches {
		at, width := s.wide(x.Since, x.Until)
		switch {
		case x.Kind == story.StretchWindow:
			t.Bands = append(t.Bands, band{at, width, string(x.State), "window, " + string(x.State)})
		case x.Kind == story.StretchHold:
			t.Bands = append(t.Bands, band{at, width, "hold", fmt.Sprintf("hold %q", x.Name)})
		case len(t.Lanes) < maxLanes:
			t.Lanes = append(t.Lanes, lane{at, width, y, x.Name, string(x.State)})
			y += laneHeight
		default:
			t.MoreLanes++
		}
	}
	for _, e := range v.Entries {
		t.Marks = append(t.Marks, mark{s.at(e.At), e.Kind, e.Said, e.At})
	}
	t.Axis, t.Height = y+axisHeight-6, y+axisHeight
	t.addTicks()
	return t
}

// extent is the stretch of time that the picture shows.
func (v *runPage) extent(stretches []story.Stretch) (since, until time.Time) {
	times := []time.Time{v.Since}
	for _, x := range stretches {
		times = append(times, x.Since, x.Until)
	}
	for _, e := range v.Entries {
		times = append(times, e.At)
	}
	return slices.MinFunc(times, time.Time.Compare), slices.MaxFunc(times, time.Time.Compare)
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
