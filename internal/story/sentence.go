package story

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/record"
)

// Sentence says one event in one sentence. An event that is of another writer, or cannot be read, is called what it is.
func Sentence(e watchdog.Event) string {
	w, problem := windowOf(e)
	if problem != "" {
		return fmt.Sprintf("event %s: %s", e.Type, problem)
	}
	t := newTeller(Story{StartedAt: time.Time(w.SessionStartedAt)}, nil)
	if problem := t.take(e); problem != "" {
		return fmt.Sprintf("event %s: %s", e.Type, problem)
	}
	if moments := t.Moments(); len(moments) > 0 && len(t.Holds) == 0 {
		return moments[0].What
	}
	return t.sentenceOfKind(e, w)
}

// OfFailure reports whether an event says that the command of a run failed.
func OfFailure(e watchdog.Event) (failed bool) {
	if e.Type == event.Complete {
		_ = with(e, func(p *record.Complete) { failed = p.Outcome == record.Failed })
	}
	return failed
}

// sentenceOfKind says an event that needs more than its payload.
func (t *teller) sentenceOfKind(e watchdog.Event, w record.Window) (said string) {
	switch e.Type {
	case event.Cancel, event.Complete:
		t.current = currentWindow([]watchdog.Event{e}, fold.WindowID{Parent: w.Parent, Fresh: w.Window}, time.Time{})
		t.end()
		if t.End != nil {
			return t.sentenceOfEnd()
		}
	case event.Hold:
		return fmt.Sprintf("hold %q stops the wall clock for at most %v", t.Holds[0].Key, t.Holds[0].Cap)
	case event.Release:
		_ = with(e, func(p *record.Release) {
			if said = fmt.Sprintf("hold %q released", p.Hold); p.TakenBy != "" {
				said = fmt.Sprintf("hold %q taken over, its process was gone", p.Hold)
			}
		})
	case event.Warning: // the decision that an event of its own carries out
		_ = with(e, func(p *record.Trip) { said = "decision: " + requestOfTrip(e, p).String() })
	default:
		said = plainKinds[e.Type]
	}
	return said
}

var plainKinds = map[string]string{
	event.Correction: "the cancel was wrong: it had finished by itself",
	event.Resume:     "resumed in a fresh window",
	event.Progress:   "progress puts the ladders back to their first rungs",
	event.Start:      "the store keeps when the run began",
}

func (t *teller) sentenceOfEnd() string {
	text := string(t.State)
	if why := t.End.Why(); why != "" {
		text += ": " + why
	}
	if t.End.Noted != "" {
		text += fmt.Sprintf(", last noted %q", t.End.Noted)
	}
	return text
}

// A Moment is something that happened to a run, in one sentence.
type Moment struct {
	At   time.Time
	What string
}

// Moments are what happened in the window before its end, in the order of time.
func (s Story) Moments() (all []Moment) {
	for _, r := range s.Asked {
		all = append(all, Moment{r.At, r.String()})
	}
	for _, x := range s.Extensions {
		all = append(all, Moment{x.At, x.String()})
	}
	for _, h := range s.Holds {
		what := "hold " + h.String()
		if h.ReleasedAt.IsZero() && s.End != nil {
			what = fmt.Sprintf("hold %q was open until the end; it stopped the wall clock for at most %v", h.Key, h.Cap)
		}
		all = append(all, Moment{h.OpenedAt, what})
	}
	for _, o := range s.Overruns {
		all = append(all, Moment{o.At, o.String()})
	}
	for _, i := range s.Interrupts {
		all = append(all, Moment{i.At, "interrupted by " + i.Signal})
	}
	slices.SortStableFunc(all, func(a, b Moment) int { return a.At.Compare(b.At) })
	return all
}

// LeftAlive says what is known to be left alive, or may be; empty for nothing.
func (s Story) LeftAlive() string {
	for _, o := range slices.Backward(s.Overruns) {
		if o.OfCommand {
			return o.survivors()
		}
	}
	if s.End != nil && s.End.StopFailed {
		return "what works on it could not be stopped, and may be alive"
	}
	return ""
}
