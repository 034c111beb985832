package page

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog/internal/story"
)

// How many lanes there are: of layers, and of each of the other kinds, whose last one has all that are left.
const (
	maxLanes = 12
	maxOther = 3
)

// A timeline is the life of a run as a picture. Places are parts of a hundred of its width, because it is as wide as
// the window; heights are pixels.
type timeline struct {
	Since, Until time.Time
	Height       int
	Bands        []band
	Marks        []mark
	Ticks        []tick
	Lanes        []*lane
	layers       int
	MoreLanes    int // layers without a lane
	Axis         int // where the times are, from the top
}

type (
	// A band is a stretch of time.
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
		At           time.Time // of the first, which is the beginning
	}
	// A lane is a row of stretches under the window, or of a layer, or with a Line the meter of a limit.
	lane struct {
		Y           int
		Kind, Label string
		Bands       []band
		Line        string
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
	for _, x := range stretches {
		at, width := s.wide(x.Since, x.Until)
		switch x.Kind {
		case story.StretchWindow:
			t.Bands = append(t.Bands, band{at, width, string(x.State), "window, " + string(x.State)})
		case story.StretchHold:
			label := fmt.Sprintf("hold %q", x.Name)
			t.lane("hold", label).add(band{at, width, "hold", label})
		case story.StretchGrace:
			t.lane("grace", x.Name).add(band{at, width, "grace", x.Name})
		case story.StretchAttempt:
			t.lane("attempt", "attempts").add(band{at, width, string(x.State), v.labelOf(x)})
		case story.StretchLayer:
			t.addLayer(x, band{at, width, string(x.State), x.Name})
		}
	}
	t.addMeters(v.Meters(), s)
	slices.SortStableFunc(t.Lanes, func(a, b *lane) int {
		return slices.Index(kinds, a.Kind) - slices.Index(kinds, b.Kind)
	})
	y := bandHeight
	for _, l := range t.Lanes {
		l.Y = y
		y += laneHeight
	}
	for _, e := range v.Entries {
		t.Marks = append(t.Marks, mark{s.at(e.At), e.Kind, e.Said, e.At})
	}
	t.Axis, t.Height = y+axisHeight-6, y+axisHeight
	t.addTicks()
	return t
}

// kinds are those of lanes, from the top.
var kinds = []string{"attempt", "hold", "grace", "meter", "layer"}

// lane is that of a kind with a label. When there are too many, the last one is for all others of the kind.
func (t *timeline) lane(kind, label string) *lane {
	n := 0
	var last *lane
	for _, l := range t.Lanes {
		if l.Kind != kind {
			continue
		}
		if l.Label == label {
			return l
		}
		last = l
		n++
	}
	if n > maxOther {
		return last
	}
	if n == maxOther {
		label = "others"
	}
	t.Lanes = append(t.Lanes, &lane{Kind: kind, Label: label})
	return t.Lanes[len(t.Lanes)-1]
}

// add draws a stretch, of very many the last.
func (l *lane) add(b band) {
	l.Bands = append(l.Bands, b)
	l.Bands = l.Bands[max(len(l.Bands)-maxEntries, 0):]
}

// addLayer draws a layer in a lane of its own.
func (t *timeline) addLayer(x story.Stretch, b band) {
	if t.layers++; t.layers > maxLanes {
		t.MoreLanes++
		return
	}
	t.Lanes = append(t.Lanes, &lane{Kind: "layer", Label: x.Name, Bands: []band{b}})
}

// labelOf says which attempt it is: of the last one the row tells the number.
func (v *runPage) labelOf(x story.Stretch) string {
	switch {
	case x.Name != "":
		return "attempt, interrupted by " + x.Name
	case v.Attempt > 0:
		return fmt.Sprintf("attempt %d, %s", v.Attempt, x.State)
	}
	return "attempt, " + string(x.State)
}

// addMeters draws how the first counted limits were used up: a line that rises to the top of its lane.
func (t *timeline) addMeters(meters []story.Meter, s scale) {
	for _, m := range meters[:min(len(meters), maxOther)] {
		b := counted(m.Spent)
		var line strings.Builder
		fmt.Fprintf(&line, "M%v 100", s.at(m.Points[0].At))
		for _, p := range m.Points {
			fmt.Fprintf(&line, "L%v %v", s.at(p.At), 100-percent(p.Part, 1))
		}
		line.WriteString("V100")
		label := fmt.Sprintf("%s, %s of %s left", b.Name, b.Text, b.Of)
		t.Lanes = append(t.Lanes, &lane{Kind: "meter", Label: label, Line: line.String()})
	}
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
		t.Ticks = append(t.Ticks, tick{X: 100 * place.part, Text: "+" + length(at), Anchor: place.anchor})
	}
	t.Ticks[0].Text, t.Ticks[0].At = t.Since.UTC().Format("15:04:05 UTC"), t.Since
}
