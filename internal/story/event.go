package story

import (
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/record"
)

// Sentence says one event in one sentence. An event that is of another writer, or cannot be read, is called what it is.
func Sentence(e watchdog.Event) string {
	w, problem := windowOf(e)
	if problem != "" {
		return fmt.Sprintf("event %s: %s", e.Type, problem)
	}
	t := teller{Story: Story{StartedAt: time.Time(w.SessionStartedAt)}}
	if problem := t.take(e); problem != "" {
		return fmt.Sprintf("event %s: %s", e.Type, problem)
	}
	switch {
	case len(t.Asked) > 0:
		return t.Asked[0].String()
	case len(t.Extensions) > 0:
		return t.Extensions[0].String()
	case len(t.Overruns) > 0:
		return t.Overruns[0].String()
	case len(t.Interrupts) > 0:
		return "interrupted by " + t.Interrupts[0].Signal
	}
	return t.sentenceOfKind(e, w)
}

// OfFailure reports whether an event says that the command of a run failed.
func OfFailure(e watchdog.Event) (failed bool) {
	if e.Type == watchdog.EventComplete {
		_ = with(e, func(p *record.Complete) { failed = p.Outcome == record.Failed })
	}
	return failed
}

// sentenceOfKind says an event that needs more than its payload.
func (t *teller) sentenceOfKind(e watchdog.Event, w record.Window) string {
	switch e.Type {
	case watchdog.EventCancel, watchdog.EventComplete:
		t.current = currentWindow([]watchdog.Event{e}, fold.WindowID{Parent: w.Parent, Fresh: w.Window}, time.Time{})
		t.end()
		if t.End != nil {
			return t.sentenceOfEnd()
		}
	case watchdog.EventHold:
		return fmt.Sprintf("hold %q stops the wall clock for at most %v", t.Holds[0].Key, t.Holds[0].Cap)
	case watchdog.EventRelease:
		var p record.Release
		_ = with(e, func(read *record.Release) { p = *read })
		return fmt.Sprintf("hold %q released", p.Hold)
	case watchdog.EventWarning:
		var p record.Trip // the decision that an event of its own carries out
		_ = with(e, func(read *record.Trip) { p = *read })
		return "decision: " + requestOfTrip(e, &p).String()
	}
	return plainKinds[e.Type]
}

var plainKinds = map[string]string{
	watchdog.EventCorrection: "the cancel was wrong: it had finished by itself",
	watchdog.EventResume:     "resumed in a fresh window",
	watchdog.EventProgress:   "progress puts the ladders back to their first rungs",
	watchdog.EventCheckpoint: "what the events came to was written down",
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
