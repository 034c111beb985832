package story

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/record"
)

// A Request is a warning, or what was asked of the host at some time.
type Request struct {
	At time.Time `json:"at"`
	// Kind is "warning" or a directive: "wait", "retry", "unstuck", "wrap_up"; and "cancel" in a run that is only
	// observed.
	Kind  string `json:"kind"`
	Limit string `json:"limit"`
	Hold  string `json:"hold,omitempty"`
	// Attempt is the rung of the limit's ladder, from 1; 0 where it has none.
	Attempt int `json:"attempt,omitempty"`
	// Fraction is how much of the limit was used at a warning.
	Fraction float64         `json:"fraction,omitempty"`
	Used     Span            `json:"used_seconds,omitempty"`
	Allowed  Span            `json:"allowed_seconds,omitempty"`
	Left     Span            `json:"left_seconds,omitempty"`
	Usage    *watchdog.Usage `json:"usage,omitempty"`
	Noted    string          `json:"noted,omitempty"`
	Observed bool            `json:"observe_only,omitempty"`
	// Author is who asked, if not the run's own process.
	Author string `json:"author,omitempty"`
	// Void says that it does not count any more: there was progress, or its hold was released.
	Void bool `json:"void,omitempty"`

	id     string
	voidAt time.Time
}

func requestOfWarning(at time.Time, p *record.Warning) Request {
	return Request{
		At: at, Kind: "warning", Limit: p.Reason, Fraction: float64(p.Fraction), Used: span(p.ElapsedSeconds),
		Allowed: span(p.ConfiguredBudgetSeconds), Left: span(p.RemainingSeconds), Usage: usageOf(p.Spend),
	}
}

func requestOfWrapUp(at time.Time, p *record.WrapUp) Request {
	return Request{
		At: at, Kind: string(watchdog.DirectiveWrapUp), Limit: p.Reason, Used: span(p.ElapsedSeconds),
		Allowed: span(p.ConfiguredBudgetSeconds), Left: span(p.RemainingSeconds), Noted: p.Note, Usage: usageOf(p.Spend),
	}
}

func requestOfTrip(e watchdog.Event, p *record.Trip) Request {
	return Request{
		At: e.Timestamp, Kind: p.Directive, Limit: record.LimitOf(p.Reason), Hold: p.Hold, Attempt: int(p.Rung),
		Used: span(p.MeasuredSeconds), Allowed: span(p.ConfiguredBudgetSeconds), Usage: usageOf(p.Spend), Noted: p.Note,
		Observed: p.ObserveOnly, Author: p.Author, id: e.ID,
	}
}

// String says what was asked, and what for.
func (r Request) String() string {
	var b strings.Builder
	switch {
	case r.Observed:
		fmt.Fprintf(&b, "would have asked for %s (only observed)", directive(r.Kind))
	case r.Kind == "warning":
		fmt.Fprintf(&b, "warned at %g %% of %s", math.Round(r.Fraction*1e4)/100, r.limit())
	default:
		fmt.Fprintf(&b, "asked for %s", directive(r.Kind))
	}
	if r.Author != "" {
		fmt.Fprintf(&b, " by %s", r.Author)
	}
	if r.Kind != "warning" {
		fmt.Fprintf(&b, ": %s", r.limit())
	}
	b.WriteString(r.amounts())
	if r.Attempt > 1 {
		fmt.Fprintf(&b, ", attempt %d", r.Attempt)
	}
	if r.Void {
		b.WriteString("; void since then")
	}
	return b.String()
}

func (r Request) limit() string {
	if r.Usage != nil {
		return r.Usage.String()
	}
	name := limitName(r.Limit)
	if r.Hold != "" {
		return fmt.Sprintf("%s in hold %q", name, r.Hold)
	}
	return name
}

func (r Request) amounts() string {
	switch {
	case r.Usage != nil:
		return ""
	case r.Left > 0:
		return fmt.Sprintf(", %v left", r.Left)
	case r.Allowed > 0:
		return fmt.Sprintf(", %v of %v", r.Used, r.Allowed)
	}
	return ""
}

// directive is how the documentation writes one.
func directive(kind string) string { return strings.ToUpper(kind) }

// reset notes that the requests with the events of these IDs do not count any more.
func (t *teller) reset(ids []string, at time.Time) {
	if t.resets == nil {
		t.resets = map[string]time.Time{}
	}
	for _, id := range ids {
		if id != "" {
			t.resets[id] = at
		}
	}
}

// voidOf marks the requests whose events do not count any more.
func voidOf(asked []Request, resets map[string]time.Time) {
	for i := range asked {
		asked[i].voidAt, asked[i].Void = resets[asked[i].id]
	}
}
