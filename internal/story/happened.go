package story

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/wording"
)

// An Extension is more that a running window was given.
type Extension struct {
	At     time.Time        `json:"at"`
	Length Span             `json:"length_seconds,omitempty"`
	Counts []ExtensionCount `json:"counts,omitempty"`
}

// An ExtensionCount is more of a counted limit.
type ExtensionCount struct {
	Limit    string `json:"limit"`
	Tool     string `json:"tool,omitempty"`
	Currency string `json:"currency,omitempty"`
	Count    int64  `json:"count"`
	Allowed  int64  `json:"allowed"` // with it
}

func extensionOf(at time.Time, p *record.Extend) Extension {
	x := Extension{At: at, Length: span(p.ExtensionSeconds)}
	for _, s := range p.Spend {
		x.Counts = append(x.Counts, ExtensionCount{
			Limit: s.Limit, Tool: s.Tool, Currency: s.Currency, Count: int64(s.Extension),
			Allowed: int64(s.Allowed),
		})
	}
	return x
}

// String says how much was given.
func (x Extension) String() string {
	var given []string
	if x.Length != 0 {
		given = append(given, fmt.Sprintf("%v of wall clock", x.Length))
	}
	for _, c := range x.Counts {
		given = append(given, fmt.Sprintf("%s %s", wording.Amount(c.Count, c.Currency), limitName(c.Limit)))
	}
	return "given " + strings.Join(given, " and ") + " more"
}

// A Hold is a hold that stopped the wall clock.
type Hold struct {
	Key        string    `json:"hold"`
	OpenedAt   time.Time `json:"opened_at"`
	ReleasedAt time.Time `json:"released_at,omitzero"`
	Cap        Span      `json:"cap_seconds"`
	Layer      string    `json:"layer,omitempty"` // whose hold it is

	id string
}

func holdOf(e watchdog.Event, p *record.Hold) Hold {
	return Hold{Key: p.Hold, OpenedAt: e.Timestamp, Cap: span(p.CapSeconds), Layer: p.Layer, id: e.ID}
}

// release ends the hold that a release is of. That of its own process counts, else that of the first one that took it
// over.
func release(holds []Hold, at time.Time, p *record.Release) {
	if p.Opening == "" {
		return
	}
	for i := len(holds) - 1; i >= 0; i-- { // it is one of the last ones
		if h := &holds[i]; h.id == p.Opening {
			if p.TakenBy == "" || h.ReleasedAt.IsZero() {
				h.ReleasedAt = at
			}
			return
		}
	}
}

// String says how long it was open.
func (h Hold) String() string {
	if h.ReleasedAt.IsZero() {
		return fmt.Sprintf("%q was not released; it stops the wall clock for at most %v", h.Key, h.Cap)
	}
	open := Span(h.ReleasedAt.Sub(h.OpenedAt))
	return fmt.Sprintf("%q stopped the wall clock for %v (at most %v)", h.Key, min(open, h.Cap), h.Cap)
}

// An Overrun is a call in the run that took longer than it may, or was abandoned, or a command of which processes could
// not be ended.
type Overrun struct {
	At        time.Time `json:"at"`
	Key       string    `json:"key,omitempty"`
	Limit     Span      `json:"limit_seconds"`
	Elapsed   Span      `json:"elapsed_seconds"`
	Abandoned bool      `json:"abandoned,omitempty"`
	Noted     string    `json:"noted,omitempty"`
	LimitedBy string    `json:"limited_by,omitempty"` // the run whose remaining time was the limit
	// Survivors is how many processes of a command are left alive, SurvivorPIDs are the first of them; 0 and empty where
	// it is not known which are.
	Survivors    int   `json:"survivors,omitempty"`
	SurvivorPIDs []int `json:"survivor_pids,omitempty"`
	// OfCommand says that it is of a command.
	OfCommand bool `json:"of_command,omitempty"`
}

func overrunOf(at time.Time, p *record.Overrun) Overrun {
	o := Overrun{
		At: at, Key: p.Key, Limit: span(p.LimitSeconds), Elapsed: span(p.ElapsedSeconds), Abandoned: p.Abandoned,
		Noted: p.Note, LimitedBy: p.LimitedBy, Survivors: int(p.Survivors), OfCommand: p.Layer == record.LayerCommand,
	}
	for _, pid := range p.SurvivorPIDs {
		o.SurvivorPIDs = append(o.SurvivorPIDs, int(pid))
	}
	return o
}

// survivors says which processes of a command are left alive.
func (o Overrun) survivors() string {
	if o.Survivors == 0 {
		return "processes of its command may be alive"
	}
	text := fmt.Sprintf("%d processes of its command could not be ended", o.Survivors)
	if o.Survivors == 1 {
		text = "a process of its command could not be ended"
	}
	if len(o.SurvivorPIDs) == 0 {
		return text
	}
	pids := make([]string, len(o.SurvivorPIDs))
	for i, pid := range o.SurvivorPIDs {
		pids[i] = strconv.Itoa(pid)
	}
	if o.Survivors > len(pids) {
		pids = append(pids, "...")
	}
	return fmt.Sprintf("%s (PID %s)", text, strings.Join(pids, ", "))
}

// String says how long the call took, or what is left of the command.
func (o Overrun) String() string {
	if o.OfCommand {
		return o.survivors()
	}
	text := "a call"
	if o.Key != "" {
		text = fmt.Sprintf("call %q", o.Key)
	}
	if o.Abandoned {
		text += fmt.Sprintf(" was abandoned after %v", o.Elapsed)
	} else {
		text += fmt.Sprintf(" took %v", o.Elapsed)
	}
	if o.Limit > 0 {
		text += fmt.Sprintf(" of %v", o.Limit)
	}
	return text
}

// An Interrupt is an end from outside.
type Interrupt struct {
	At     time.Time `json:"at"`
	Signal string    `json:"signal"`
}

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
	for _, id := range ids {
		if id != "" {
			t.resets[id] = at
		}
	}
}

// String says what became of the layer.
func (l Layer) String() string {
	text := fmt.Sprintf("%s %s", l.RunID, l.State)
	if (End{Code: l.Code}).ofStop() {
		text += fmt.Sprintf(" (%s)", l.Code)
	}
	if l.Elapsed > 0 {
		text += fmt.Sprintf(" after %v", l.Elapsed)
	}
	if l.LeftAlive != "" {
		text += "; " + l.LeftAlive
	}
	return text
}
