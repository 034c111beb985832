package story

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
	"github.com/seed62658d38/watchdog/session"
)

// Of tells the story of a run at a time: the database's, or any other. It never fails: what cannot be read is among the
// story's Others.
func Of(r Record, now time.Time) Story {
	r.Events = Happened(r.Events)
	t := newTeller(Story{RunID: r.RunID, ToldAt: event.Truncate(now)}, r.Row)
	t.readRow()
	of := t.lineage(r)
	t.Parent = of.Parent
	var hostStart time.Time
	if t.row != nil {
		hostStart = event.Truncate(t.row.StartedAt)
	}
	t.current = currentWindow(r.Events, of, hostStart)
	t.StartedAt = t.windowStart(r.Events, of)
	if t.row != nil && t.isCurrent(t.row.StartedAt) {
		t.readState(t.row)
	}
	for _, e := range r.Events {
		t.read(e, of)
	}
	t.conclude()
	t.tellLayers(r)
	t.Next = t.next()
	return t.Story
}

// Happened are the events that tell of something that happened, which a start and a checkpoint of before do not.
func Happened(all []watchdog.Event) []watchdog.Event {
	return slices.DeleteFunc(slices.Clone(all), func(e watchdog.Event) bool {
		return e.Type == event.Start || e.Type == record.Checkpoint
	})
}

type teller struct {
	Story
	row     *session.Session
	current fold.Window
	lengths map[[2]string]int // the places of Allowed, by limit and hold
	before  map[time.Time]*Window
	resets  map[string]time.Time // when the event with an ID did not count any more
	fixed   time.Time            // when the end of the window was corrected
	last    time.Time            // of the window's events
	noted   string               // by the latest request
	stopped bool                 // a cancel was taken
	note    string               // of the complete
	command record.CommandEnd    // of that
}

func newTeller(s Story, row *session.Session) *teller {
	return &teller{
		Story: s, row: row, lengths: map[[2]string]int{}, before: map[time.Time]*Window{}, resets: map[string]time.Time{},
	}
}

func (t *teller) readRow() {
	if t.row == nil {
		return
	}
	t.Host, t.Attempt, t.Resumes = t.row.Host, t.row.Attempt, t.row.Resumes
	if t.row.Threshold < watchdog.NoLimit {
		t.allow("idle_timeout", "", Span(t.row.Threshold))
	}
}

// lineage is the run that the story is about: run IDs may hold slashes, so that one aggregate can be that of a run and
// of another's layer.
func (t *teller) lineage(r Record) (of fold.WindowID) {
	switch {
	case r.Parent != "":
		of.Parent = r.Parent
	case r.Row != nil:
		return fold.WindowID{Parent: r.Row.Parent}
	}
	for _, e := range r.Events {
		w, problem := windowOf(e)
		if problem == "" && (r.Parent == "" || w.Parent == r.Parent) {
			of = fold.WindowID{Parent: w.Parent, Fresh: w.Window}
		}
	}
	return of
}

// windowStart is the start of the window that the run is in. Where neither its row nor an end or a resume says which it
// is, it is the last that an event names.
func (t *teller) windowStart(events []watchdog.Event, of fold.WindowID) (start time.Time) {
	if !t.current.StartedAt.IsZero() {
		return t.current.StartedAt
	}
	for _, e := range events {
		w, problem := windowOf(e)
		at := event.Truncate(time.Time(w.SessionStartedAt))
		if problem == "" && w.Parent == of.Parent && w.Window == of.Fresh && at.After(start) {
			start = at
		}
	}
	return start
}

// currentWindow is the window that the run is in, as far as its events can be read: there is a story to tell all the
// same.
func currentWindow(events []watchdog.Event, of fold.WindowID, hostStart time.Time) fold.Window {
	h := fold.Of(of, events)
	return h.Current(hostStart)
}

// windowOf is the window that an event names, or why it is of none.
func windowOf(e watchdog.Event) (w record.Window, problem string) {
	if !strings.HasPrefix(e.Type, kinds) {
		return w, "of another writer"
	}
	if err := json.Unmarshal(e.Payload, &w); err != nil {
		return w, unreadable(err)
	}
	if time.Time(w.SessionStartedAt).IsZero() {
		return w, "it has no session_started_at"
	}
	return w, ""
}

// kinds begins the types of the watchdog's own events.
const kinds = "runtime.watchdog."

func (t *teller) isCurrent(start time.Time) bool { return event.Truncate(start).Equal(t.StartedAt) }

func (t *teller) read(e watchdog.Event, of fold.WindowID) {
	w, problem := windowOf(e)
	switch {
	case problem != "":
	case w.Parent != of.Parent:
		problem = "of another run with this ID"
		if w.Parent != "" {
			problem = "of a layer of run " + w.Parent
		}
	case t.isCurrent(time.Time(w.SessionStartedAt)) && w.Window == of.Fresh:
		if problem = t.take(e); problem == "" && e.Timestamp.After(t.last) {
			t.last = e.Timestamp
		}
	default:
		problem = t.takeBefore(e, time.Time(w.SessionStartedAt))
	}
	if problem != "" {
		t.Others = append(t.Others, Other{ID: e.ID, At: e.Timestamp, Type: e.Type, Problem: problem})
	}
}

// take takes an event of the current window.
func (t *teller) take(e watchdog.Event) (problem string) {
	switch e.Type {
	case event.Cancel:
		return with(e, t.takeCancel)
	case event.Complete:
		return with(e, func(p *record.Complete) {
			t.note, t.command = p.Note, p.CommandEnd
			t.total(p.Spent)
		})
	case event.Correction:
		return with(e, func(p *record.Correction) {
			if t.fixed = time.Time(p.CorrectedAt); t.fixed.IsZero() {
				t.fixed = e.Timestamp
			}
		})
	case event.Extend:
		return with(e, func(p *record.Extend) {
			t.extend(extensionOf(e.Timestamp, p))
			t.allow("wall_clock", "", span(p.ConfiguredBudgetSeconds))
		})
	case event.Hold:
		return with(e, func(p *record.Hold) { t.Holds = append(t.Holds, holdOf(e, p)) })
	case event.Release:
		return with(e, func(p *record.Release) {
			t.reset(p.Resets, e.Timestamp)
			release(t.Holds, e.Timestamp, p)
		})
	case event.Progress:
		return with(e, func(p *record.Progress) { t.reset(p.Resets, e.Timestamp) })
	case event.Interrupt:
		return with(e, func(p *record.Interrupt) { t.Interrupts = append(t.Interrupts, Interrupt{e.Timestamp, p.Signal}) })
	case event.Overrun:
		return with(e, func(p *record.Overrun) { t.Overruns = append(t.Overruns, overrunOf(e.Timestamp, p)) })
	case event.Resume, event.Start, record.Checkpoint:
		return ""
	}
	return t.takeRequest(e)
}

func (t *teller) takeRequest(e watchdog.Event) (problem string) {
	switch e.Type {
	case event.Warning:
		var kind struct {
			Directive string `json:"directive"`
		}
		if err := json.Unmarshal(e.Payload, &kind); err == nil && kind.Directive != "" {
			return with(e, func(p *record.Trip) { t.takeDecision(requestOfTrip(e, p)) })
		}
		return with(e, func(p *record.Warning) { t.ask(requestOfWarning(e.Timestamp, p)) })
	case event.WrapUp:
		return with(e, func(p *record.WrapUp) { t.ask(requestOfWrapUp(e.Timestamp, p)) })
	case event.Wait, event.Retry, event.Unstuck:
		return with(e, func(p *record.Trip) {
			t.reset(p.Resets, e.Timestamp)
			t.ask(requestOfTrip(e, p))
		})
	}
	return "of a kind that this version does not know"
}

// takeDecision takes a warning that has a directive. Where that was given to the host, an event of its own says so, and
// where it is a sweeper's cancel, the cancel does.
func (t *teller) takeDecision(r Request) {
	if r.Observed || r.Author != "" && r.Kind != string(watchdog.DirectiveCancel) {
		t.ask(r)
	}
}

func (t *teller) ask(r Request) {
	t.Asked = append(t.Asked, r)
	t.noted = cmp.Or(r.Noted, t.noted)
	if r.Usage != nil {
		t.spend(r.Usage)
		return
	}
	t.allow(r.Limit, r.Hold, r.Allowed)
}

func (t *teller) takeCancel(p *record.Cancel) {
	if t.stopped {
		return
	}
	t.stopped = true
	t.spend(usageOf(p.Spend))
	t.total(p.Spent)
	if p.Spend == nil {
		t.allow(record.LimitOf(p.Reason), p.Hold, span(p.ConfiguredBudgetSeconds))
	}
}

// takeBefore takes an event of another window.
func (t *teller) takeBefore(e watchdog.Event, start time.Time) (problem string) {
	w := t.before[start]
	if w == nil {
		w = &Window{StartedAt: start}
		t.before[start] = w
	}
	if e.Timestamp.After(w.LastEventAt) {
		w.LastEventAt = e.Timestamp
	}
	switch e.Type {
	case event.Cancel:
		return with(e, func(p *record.Cancel) { w.EndedAt, w.Code = e.Timestamp, codeOf(p.Reason) })
	case event.Complete:
		return with(e, func(p *record.Complete) {
			if w.EndedAt, w.Code = e.Timestamp, record.CompleteReason; p.Outcome == record.Failed {
				w.Code, w.ExitStatus, w.Signal = session.ReasonFailed, statusOf(p.CommandEnd), p.Signal
			}
		})
	case event.Correction:
		w.Corrected = true
	case event.Hold:
		return with(e, func(p *record.Hold) { w.Holds = append(w.Holds, holdOf(e, p)) })
	case event.Release:
		return with(e, func(p *record.Release) { release(w.Holds, e.Timestamp, p) })
	}
	return ""
}

// with reads an event's payload, or returns why that cannot be read.
func with[P any](e watchdog.Event, take func(*P)) (problem string) {
	var p P
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return unreadable(err)
	}
	take(&p)
	return ""
}

func unreadable(err error) string { return record.Note("unreadable: " + err.Error()) }

// codeOf is the stop code of a cancel's reason.
func codeOf(reason string) watchdog.StopReason { return watchdog.StopReason(record.Code(reason)) }

// conclude says where the run stands, and what follows from that.
func (t *teller) conclude() {
	for i := range t.Asked {
		t.Asked[i].voidAt, t.Asked[i].Void = t.resets[t.Asked[i].id]
	}
	t.Noted = cmp.Or(t.noted, t.Noted)
	for _, w := range t.before {
		t.Before = append(t.Before, *w)
	}
	slices.SortFunc(t.Before, func(a, b Window) int { return a.StartedAt.Compare(b.StartedAt) })
	for i := range t.Allowed {
		if t.Allowed[i].Limit == "wall_clock" {
			t.Allowed[i].Extended = Span(t.current.Extended)
		}
	}
	t.end()
	t.measure()
	if !t.State.Live() {
		t.OpenHolds = 0 // what the row says of them is from before the end
	}
	if t.End != nil {
		t.Noted = cmp.Or(t.End.Noted, t.Noted)
	}
}

func (t *teller) measure() {
	at := t.ToldAt
	switch {
	case t.End != nil && !t.End.At.IsZero():
		at = t.End.At
	case !t.State.Live():
		at = t.last
	}
	if t.StartedAt.IsZero() || at.Before(t.StartedAt) {
		return
	}
	lasted := at.Sub(t.StartedAt)
	paused := verdict.PausedBefore(t.current.Paused(), lasted)
	t.Elapsed, t.Paused = Span(lasted-paused), Span(paused)
}

// readState takes what the run's process said about it into its row, if that is about the window.
func (t *teller) readState(row *session.Session) {
	var state session.State
	if len(row.State) == 0 || json.Unmarshal(row.State, &state) != nil {
		return
	}
	for _, l := range []struct {
		limit   string
		seconds float64
	}{
		{"wall_clock", state.WallClock}, {"safety", state.Safety}, {"idle", state.Idle}, {"no_progress", state.NoProgress},
	} {
		t.allow(l.limit, "", span(record.Seconds(l.seconds)))
	}
	t.OpenHolds = state.Holds
	t.Reserve, t.Noted = span(record.Seconds(state.Reserve)), state.Phase
	for _, x := range state.Spent {
		used := usedOf(x)
		t.spend(&used)
		if i := t.spentOf(x.Limit, x.Tool); i >= 0 {
			t.Spent[i].Reserve, t.Spent[i].WarnAt = x.Reserve, x.WarnAt
		}
	}
}

func (t *teller) tellLayers(r Record) {
	t.MoreLayers = r.MoreLayers
	for _, below := range r.Layers {
		below.Parent = cmp.Or(below.Parent, r.RunID)
		if s := Of(below, t.ToldAt); len(s.Others) < len(below.Events) || below.Row != nil {
			t.Layers = append(t.Layers, layerOf(s, below.Events))
		}
	}
	t.Layers = slices.DeleteFunc(t.Layers, func(l Layer) bool { // that ended in a window before
		return len(t.Before) > 0 && !l.At.IsZero() && l.At.Before(t.StartedAt)
	})
	slices.SortFunc(t.Layers, func(a, b Layer) int {
		return cmp.Or(b.At.Compare(a.At), strings.Compare(a.RunID, b.RunID))
	})
}

func layerOf(s Story, events []watchdog.Event) Layer {
	l := Layer{RunID: s.RunID, State: s.State, Elapsed: s.Elapsed, StartedAt: s.StartedAt, LeftAlive: s.LeftAlive()}
	if len(events) > 0 {
		l.At = events[len(events)-1].Timestamp
	}
	if s.End != nil {
		l.At, l.Code, l.Meaning = s.End.At, s.End.Code, s.End.Meaning
	}
	return l
}
