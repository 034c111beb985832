package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
)

// A report prints one run.
type report struct {
	scenario scenario
	run      watchdog.Run
	out      io.Writer
}

func newReport(s scenario, run watchdog.Run, out io.Writer) report {
	_, _ = fmt.Fprintf(out, "== %s: %s\n", s.name, s.what)
	return report{s, run, out}
}

// say prints a line with the time since the run's start. A write error must not end a run.
func (r report) say(format string, args ...any) { r.line(time.Now(), format, args...) }

func (r report) line(at time.Time, format string, args ...any) {
	_, _ = fmt.Fprintf(r.out, "%6.2fs  %s\n", at.Sub(r.run.StartedAt).Seconds(), fmt.Sprintf(format, args...))
}

// result returns the run's result and prints how it ended and what it cost.
func (r report) result(directives []watchdog.DirectiveKind, wd *watchdog.Watchdog, err error) result {
	stop := wd.Stop()
	found := result{
		Scenario: r.scenario.name, RunID: r.run.ID, Expected: completed, Ended: completed,
		Directives: append([]watchdog.DirectiveKind{}, directives...), Usage: wd.Usage(),
	}
	if want := r.scenario.want.stop; want != "" {
		found.Expected = string(want)
	}
	was := outcome{directives: directives}
	switch {
	case stop != nil:
		was.stop, found.Ended = stop.Code, string(stop.Code)
		r.say("stopped: %s, %s, while at %q", stop.Code, limit(stop), stop.Note)
	case err != nil:
		found.Ended, found.Error = failed, err.Error()
		r.say("failed: %v", err)
	default:
		r.say("completed")
	}
	if found.Usage[0].Used > 0 {
		r.say("%s", total(found.Usage))
	}
	found.AsExpected = found.Ended != failed && was.equal(r.scenario.want) && !overspent(found.Usage)
	return found
}

// limit describes the limit that a run was stopped by.
func limit(stop *watchdog.Stop) string {
	if stop.Usage != nil {
		return stop.Usage.String()
	}
	return fmt.Sprintf("which is %v", stop.Budget)
}

// overspent reports whether more was charged than allowed. That of a loop has no number that is allowed.
func overspent(limits []watchdog.Usage) bool {
	return slices.ContainsFunc(limits, func(u watchdog.Usage) bool {
		return u.Allowed > 0 && u.Used+u.Admitted > u.Allowed
	})
}

// end adds the stored events to the result and prints them, but for checkpoints, which tell no story.
func (r report) end(found result, events []watchdog.Event, raw bool) result {
	events = slices.DeleteFunc(events, func(e watchdog.Event) bool { return e.Type == watchdog.EventCheckpoint })
	found.Events = append([]watchdog.Event{}, events...) // an empty list, not null
	for _, e := range events {
		if raw {
			text, err := json.Marshal(e)
			_, _ = fmt.Fprintf(r.out, "%s\n", text)
			found.AsExpected = found.AsExpected && err == nil
			continue
		}
		r.line(e.Timestamp, "event: %s%s", kind(e), why(e))
	}
	_, _ = fmt.Fprintln(r.out)
	return found
}

// why describes the reason in an event.
func why(e watchdog.Event) string {
	var p struct {
		Reason   string          `json:"reason"`
		Fraction float64         `json:"fraction"`
		Attempt  int             `json:"attempt"`
		Hold     string          `json:"hold"`
		Note     string          `json:"note"`
		Spend    *watchdog.Usage `json:"spend"`
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return ", which cannot be read: " + err.Error()
	}
	text := ""
	if p.Reason != kind(e) { // that of a complete is its kind
		text = " " + p.Reason
	}
	if p.Fraction > 0 {
		text += fmt.Sprintf(", %v%% used", p.Fraction*100)
	}
	if p.Spend != nil && p.Fraction == 0 { // a warning may come before or after another settlement of the same moment
		text += fmt.Sprintf(", %v", *p.Spend)
	}
	if p.Attempt > 0 {
		text += fmt.Sprintf(", attempt %d", p.Attempt)
	}
	if p.Hold != "" {
		text += fmt.Sprintf(", in hold %q", p.Hold)
	}
	if p.Note != "" {
		text += fmt.Sprintf(", while at %q", p.Note)
	}
	return text
}
