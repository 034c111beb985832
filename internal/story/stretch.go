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
	// Name is the key of a hold, or the run ID of a layer.
	Name string
	// State is how a window or a layer ended.
	State State
}

// A StretchKind is what a stretch is.
type StretchKind string

// The kinds.
const (
	StretchWindow StretchKind = "window"
	StretchHold   StretchKind = "hold"
	StretchLayer  StretchKind = "layer"
)

// Stretches are the windows of the run, oldest first, each followed by its holds, and then its layers, in their order.
// What has not ended lasts until the story is told.
func (s Story) Stretches() (all []Stretch) {
	for _, w := range s.Before {
		window := Stretch{Kind: StretchWindow, Since: w.StartedAt, Until: w.until(), State: w.state()}
		all = append(append(all, window), holdsIn(window, w.Holds)...)
	}
	if !s.StartedAt.IsZero() {
		until := s.StartedAt.Add(time.Duration(s.Elapsed + s.Paused))
		window := Stretch{Kind: StretchWindow, Since: s.StartedAt, Until: until, State: s.State}
		all = append(append(all, window), holdsIn(window, s.Holds)...)
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
