package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/examples/autosession/internal/phase"
	"github.com/seed62658d38/watchdog/examples/autosession/internal/state"
)

// tailLines is how many lines of a failed command's output are shown.
const tailLines = 20

func (s *session) reportAttached(wd *watchdog.Watchdog) {
	s.show.Say("session %s", s.kept.ID)
	s.show.Say("state   %s", s.dir.Path())
	s.show.Say("project %s", projectName(s.kept))
	s.show.Say("window  since %s, %s elapsed, %s", clockTime(wd.StartedAt()), brief(wd.Elapsed()), leftOf(wd))
	s.show.Say("limits\n%s", s.limits.set())
	if s.limits.budget.WallClock == watchdog.NoLimit {
		s.show.Say("without a wall-clock limit nothing stops this session")
	} else {
		s.show.Say("plan    %s: each a command; if the limit comes first, the session is BLOCKED, the", phase.Names())
		s.show.Say("        reason is on record, and a command that resumes it is printed")
	}
	if len(s.kept.Completed) > 0 {
		s.show.Say("done    %s", strings.Join(s.kept.Completed, ", "))
	}
}

// reportStart reports that a phase begins: in the live line on a terminal, elsewhere with a line.
func (s *session) reportStart(wd *watchdog.Watchdog, p phase.Phase) {
	what := p.String()
	if s.opts.hang == p.Name {
		what = "hangs, as asked"
	}
	place := fmt.Sprintf("%-6s %d of %d", p.Name, len(s.kept.Completed)+1, len(phase.Pipeline))
	s.show.Note("%s: %s", place, what)
	s.show.Live(func() string {
		return fmt.Sprintf("%s, %s elapsed, %s: %s", place, wd.Elapsed().Truncate(time.Second), leftOf(wd), what)
	})
}

func (s *session) reportWarning(w watchdog.Warning) {
	s.show.Say("warning: %v%% of the budget of %s is used, %s left", w.Fraction*100, w.Budget, brief(w.Remaining))
}

func (s *session) reportComplete() {
	s.show.Say("COMPLETE: %s", strings.Join(s.kept.Completed, ", "))
	s.show.Say("  once more:   %s", s.command(s.resume()...))
	s.show.Say("               which opens a fresh window and runs all phases again")
}

func (s *session) reportBlocked() {
	s.show.Say("BLOCKED in phase %s: %s", s.kept.Phase, s.stop.Code)
	s.show.Say("  %s of %s were used in the window since %s",
		brief(s.stop.Elapsed), s.stop.Budget, clockTime(s.stop.StartedAt))
	s.show.Say("  its events:  %s", s.command("-events"))
	s.show.Say("  to go on:    %s", s.command(s.resume()...))
	s.show.Say("               which opens a fresh window; -budget sets how long it may last")
}

func (s *session) reportInterrupted(signal string) {
	if s.kept.Phase == "" {
		s.show.Say("INTERRUPTED by %s after the last phase", signal)
	} else {
		s.show.Say("INTERRUPTED by %s in phase %s", signal, s.kept.Phase)
	}
	s.show.Say("  to go on:    %s", s.command())
}

func (s *session) reportFailed(failed *phase.Failure) {
	s.show.Say("FAILED in %v", failed)
	tail, err := phase.Tail(failed.Log, tailLines)
	if err != nil {
		s.show.Say("  its output cannot be read: %v", err)
	} else if len(tail) > 0 {
		s.show.Say("%s", tail)
	}
	s.show.Say("  its output:  %s", failed.Log)
	s.show.Say("  to go on:    %s", s.command())
}

func projectName(kept *state.Session) string {
	if kept.Project == "" {
		return "the built-in demo"
	}
	return kept.Project
}

func leftOf(wd *watchdog.Watchdog) string {
	left := wd.Remaining()
	switch left {
	case watchdog.NoLimit:
		return "no limit"
	case 0:
		return "nothing left"
	}
	return (left + time.Second - 1).Truncate(time.Second).String() + " left"
}

// brief formats a duration without insignificant digits.
func brief(d time.Duration) string {
	if d < time.Second {
		return d.Truncate(time.Millisecond).String()
	}
	return d.Truncate(100 * time.Millisecond).String()
}

func clockTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }
