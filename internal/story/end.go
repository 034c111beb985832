package story

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/wording"
	"github.com/seed62658d38/watchdog/session"
)

// A Party is who ended a run.
type Party string

// The parties.
const (
	// ByWatchdog is a limit of the run's own watchdog.
	ByWatchdog Party = "watchdog"
	// BySweeper is a sweeper, which may be of another process.
	BySweeper Party = "sweeper"
	// BySentinel is the guard of a command.
	BySentinel Party = "sentinel"
	// ByHost is the host of the run.
	ByHost Party = "host"
	// BySignal is something outside: a signal, a person.
	BySignal Party = "signal"
	// ByNobody is a process that is gone and wrote no end.
	ByNobody Party = "nobody"
)

// An End is what ended a run.
type End struct {
	At time.Time `json:"at,omitzero"`
	// Code is the stable code of a stop; empty where nothing stopped the run. Meaning says it in words.
	Code    watchdog.StopReason `json:"code,omitempty"`
	Meaning string              `json:"meaning"`
	By      Party               `json:"by"`
	// Author is who wrote the event, if not the run's own process. Signal is what ended the run from outside.
	Author string `json:"author,omitempty"`
	Signal string `json:"signal,omitempty"`
	// Limit is the limit that was exceeded, Used what was used of it, Allowed what there was; Usage if it is counted.
	Limit   string          `json:"limit,omitempty"`
	Used    Span            `json:"used_seconds,omitempty"`
	Allowed Span            `json:"allowed_seconds,omitempty"`
	Usage   *watchdog.Usage `json:"usage,omitempty"`
	Hold    string          `json:"hold,omitempty"`
	Noted   string          `json:"noted,omitempty"`
	// Attempt is the rung of the limit's ladder, 0 where it has none.
	Attempt     int       `json:"attempt,omitempty"`
	LastEventAt time.Time `json:"last_event_at,omitzero"`
	// StopFailed says that what worked on the run could not be stopped, and may be alive.
	StopFailed bool `json:"stop_failed,omitempty"`
	// Lease is that of the run's process, which was found dead or cut off; nil if there was none, or the event does not
	// say.
	Lease *Lease `json:"lease,omitempty"`
	// CorrectedAt is when the stop was found to be wrong: what it ended had finished by itself.
	CorrectedAt time.Time `json:"corrected_at,omitzero"`
	// RowOnly says that no event tells of the end, only the session's row. AtLastSign says that the row does not tell when
	// that was, and At is the run's last sign of life.
	RowOnly    bool `json:"row_only,omitempty"`
	AtLastSign bool `json:"at_last_sign,omitempty"`
	// Outcome is succeeded or failed for a command that ended by itself, ExitStatus its exit status; Signal is then what
	// ended it.
	Outcome    string `json:"outcome,omitempty"`
	ExitStatus *int   `json:"exit_status,omitempty"`
}

// A Lease is what a sweeper saw of the lease of a process before it expired.
type Lease struct {
	ID string `json:"id"`
	// Looks is how many looks in a row found that the lease is not renewed, RenewedAt when it was renewed last.
	Looks     int       `json:"looks,omitempty"`
	RenewedAt time.Time `json:"renewed_at,omitzero"`
}

// String says which lease it is, since when it was not renewed and how often that was seen.
func (l Lease) String() string {
	text := fmt.Sprintf("lease %q not renewed", l.ID)
	if !l.RenewedAt.IsZero() {
		text += " since " + l.RenewedAt.UTC().Format(time.RFC3339)
	}
	if l.Looks > 0 {
		text += fmt.Sprintf(" in %d looks", l.Looks)
	}
	return text
}

// Meaning is why a run with the code ended. It is empty for a code that this version does not know.
func Meaning(code watchdog.StopReason) string { return wording.Meaning(record.Reason(string(code))) }

// partyOf is who ends runs with the code.
func partyOf(code watchdog.StopReason, author string) Party {
	switch {
	case author != "" || code == watchdog.SessionIdleTimeout || code == watchdog.SessionHostLost:
		return BySweeper
	case code == watchdog.CommandNoOutput || code == watchdog.CommandNoProgress || code == watchdog.CommandTerminal:
		return BySentinel
	case strings.HasPrefix(string(code), record.CodePrefix):
		return ByWatchdog
	}
	return ByHost
}

// end finds how the run ended, if it did. What is in the events counts, also where the row does not say so yet.
func (t *teller) end() {
	stop := t.current.Stop
	switch {
	case stop != nil && !t.fixed.IsZero():
		t.State, t.End = Finished, t.endOfStop(stop)
		t.End.CorrectedAt, t.End.Meaning = t.fixed, tooLate
	case t.current.Complete():
		t.End = &End{At: t.current.CompletedAt, By: ByHost, Noted: t.note}
		t.endOfCommand(t.command)
	case stop != nil:
		t.State, t.End = Stopped, t.endOfStop(stop)
	case t.rowTells():
		t.endOfRow()
	case len(t.Interrupts) > 0 && !t.last.After(t.Interrupts[len(t.Interrupts)-1].At):
		t.endOfInterrupt()
	default:
		t.State = Unknown
	}
	if t.End != nil && t.End.At.IsZero() && !t.End.RowOnly {
		t.End.At = t.last // of an event that does not say when
	}
}

// tooLate is why the stop of a run that had finished is corrected.
const tooLate = "it had finished by itself, and the stop came too late"

func (t *teller) endOfStop(stop *record.Cancel) *End {
	e := &End{
		At: time.Time(stop.FiredAt), Code: codeOf(stop.Reason), Author: stop.Author,
		Used: Span(fold.Elapsed(stop)), Allowed: Span(record.Duration(stop.ConfiguredBudgetSeconds)),
		Usage: usageOf(stop.Spend), Hold: stop.Hold, Noted: stop.Note, Attempt: int(stop.Rung),
		LastEventAt: time.Time(stop.LastEventAt), StopFailed: stop.StopFailed,
	}
	e.Meaning, e.By = e.sentence(), partyOf(e.Code, e.Author)
	if e.Usage != nil {
		e.Usage.Run = t.RunID
	}
	if l := stop.Lease; l != nil {
		e.Lease = &Lease{l.ID, int(l.Looks), time.Time(l.RenewedAt)}
	}
	if e.Code.Own() {
		e.Limit = record.LimitOf(record.Reason(string(e.Code)))
	}
	return e
}

// sentence says why a run was stopped, with the numbers that decided.
func (e *End) sentence() string {
	if e.Usage != nil {
		return usageText(e.Usage)
	}
	allowed := time.Duration(e.Allowed)
	if allowed >= watchdog.NoLimit {
		allowed = 0
	}
	text := wording.Stop(record.Reason(string(e.Code)), time.Duration(e.Used), allowed, e.Hold)
	return cmp.Or(text, "its host or another guard stopped it")
}

// usageText says that a counted limit stopped a run, and how far it is used: often not to its end, for a call that may
// need more than is left is refused.
func usageText(u *watchdog.Usage) string {
	if u.Pattern != "" {
		return fmt.Sprintf("it did the same %d times and got the same (%s)", u.Used, u.Pattern)
	}
	if u.Remaining() > 0 {
		return "a call did not fit in its limit: " + u.String()
	}
	return "it reached its limit: " + u.String()
}

// rowTells reports whether there is a row that is of the window, and not of the one before.
func (t *teller) rowTells() bool {
	return t.row != nil && (t.row.Status == session.Active || t.isCurrent(t.row.StartedAt))
}

// StateOf is where the row of a session says that its run stands.
func StateOf(row *session.Session) State {
	switch {
	case EscalationOf(row) != nil:
		return Ending
	case row.Status == session.Active:
		return Running
	case row.Status == session.Cancelled:
		return Stopped
	case row.Status == session.Interrupted:
		return Interrupted
	case row.Status != session.Finished:
		return Unknown
	case row.Failed():
		return Failed
	case row.Reason == record.CompleteReason:
		return Complete
	}
	return Finished
}

// EscalationOf is how far the end of the command of a live run is, nil while it is not being ended. What a process said
// that was found dead is from before that.
func EscalationOf(row *session.Session) *session.Escalation {
	var state session.State
	if row.Status != session.Active || !bytes.Contains(row.State, []byte(`"ending"`)) || row.HostLost() ||
		json.Unmarshal(row.State, &state) != nil {
		return nil
	}
	return state.Escalation
}

// EscalationText says which signal the command was sent, and what follows.
func EscalationText(s *session.Escalation) string {
	text := fmt.Sprintf("%s sent at %s", s.Signal, s.SentAt.UTC().Format(time.TimeOnly))
	if s.Next == "" {
		return text + " UTC, and nothing follows"
	}
	return text + fmt.Sprintf(", %s due at %s UTC", s.Next, s.NextAt.UTC().Format(time.TimeOnly))
}

// endOfRow is how the row says that the run ended.
func (t *teller) endOfRow() {
	row := t.row
	t.State = StateOf(row)
	switch t.State {
	case Running, Ending:
		t.Escalation = EscalationOf(row)
		t.Silence = Span(row.Silence)
		t.Vouched, t.AgentsStopped, t.Behind = row.Lease != "", row.Stopped, row.Behind
		return
	case Stopped:
		t.End = &End{Code: row.Reason, By: partyOf(row.Reason, ""), StopFailed: row.StopFailed}
		defer t.tellNumbers()
	case Interrupted:
		if len(t.Interrupts) > 0 {
			t.endOfInterrupt()
			return
		}
		t.End = &End{Meaning: "its process ended without saying how, or was ended from outside", By: ByNobody}
	case Unknown:
		return
	default:
		t.End = &End{Meaning: "its host closed it", By: ByHost}
		if t.State != Finished {
			var end record.CommandEnd
			_ = json.Unmarshal(row.State, &end) // another program's state has no such fields
			t.endOfCommand(end)
		}
	}
	t.End.At, t.End.RowOnly, t.End.AtLastSign = row.SilentSince(), true, row.EndedAt.IsZero()
	if row.EndedAt.After(t.End.At) {
		t.End.At = row.EndedAt
	}
}

// tellNumbers says which limit was exceeded, and how far a count is used, as far as the row tells. It does not tell how
// long was too long: between its times are also the graces of a command.
func (t *teller) tellNumbers() {
	e := t.End
	e.Allowed = t.allowedBy(e.Code)
	for _, s := range t.Spent {
		if u := usedOf(s); u.Code() == e.Code && (e.Usage == nil || u.Remaining() < e.Usage.Remaining()) {
			e.Usage = &u
		}
	}
	e.Meaning = e.sentence()
}

// allowedBy is the limit of time with a code, as the row has it; 0 where that is not certain.
func (t *teller) allowedBy(code watchdog.StopReason) Span {
	limit := record.LimitOf(record.Reason(string(code)))
	if code == watchdog.CommandNoOutput {
		limit = "idle" // as the row of its run has it
	}
	i, known := t.lengths[[2]string{limit, ""}]
	ofHold := code == watchdog.IdleExceeded && t.OpenHolds > 0 // a hold can have an idle limit of its own
	if !known || !code.Timeout() || ofHold {
		return 0
	}
	return t.Allowed[i].Length
}

// endOfCommand tells the end of a complete run by that of its command, if it has one.
func (t *teller) endOfCommand(end record.CommandEnd) {
	t.State, t.End.Code, t.End.Meaning = Complete, record.CompleteReason, "it has done its work"
	t.End.Outcome, t.End.Signal, t.End.ExitStatus = end.Outcome, end.Signal, statusOf(end)
	if end.Outcome == record.Failed {
		t.State, t.End.Code, t.End.Meaning = Failed, session.ReasonFailed, "its command failed"
	}
}

func statusOf(end record.CommandEnd) *int {
	if end.ExitStatus == nil {
		return nil
	}
	status := int(*end.ExitStatus)
	return &status
}

func (t *teller) endOfInterrupt() {
	last := t.Interrupts[len(t.Interrupts)-1]
	t.State = Interrupted
	t.End = &End{At: last.At, Meaning: "it was interrupted from outside", By: BySignal, Signal: last.Signal}
	if last.Signal == "panic" {
		t.End.Meaning, t.End.By = "its code panicked, or did not return", ByHost
	}
}

// Why is all that is said of an end, on one line.
func (e End) Why() string {
	if e.ofStop() {
		return e.Meaning + ", " + e.String()
	}
	return e.String()
}

// String says who ended the run with what: more than the Meaning.
func (e End) String() string {
	var parts []string
	if e.ofStop() {
		parts = append(parts, string(e.Code))
	}
	if e.Outcome == record.Failed {
		return e.ofFailure()
	}
	if !e.CorrectedAt.IsZero() && (e.Usage != nil || e.Allowed > 0) {
		parts = append(parts, e.sentence())
	}
	if e.Attempt > 1 {
		parts = append(parts, fmt.Sprintf("attempt %d", e.Attempt))
	}
	if e.Lease != nil {
		parts = append(parts, e.Lease.String())
	}
	if by := e.by(); by != "" {
		parts = append(parts, by)
	}
	return strings.Join(parts, ", ")
}

// ofFailure says how a command that failed ended, empty if nobody saw that.
func (e End) ofFailure() string {
	switch {
	case e.Signal != "":
		return "ended by " + e.Signal
	case e.ExitStatus != nil:
		return fmt.Sprintf("exit status %d", *e.ExitStatus)
	}
	return ""
}

// ofStop reports whether the code is that of a stop.
func (e End) ofStop() bool {
	return e.Code != "" && e.Code != record.CompleteReason && e.Code != session.ReasonFailed
}

func (e End) by() string {
	switch e.By {
	case BySweeper:
		return "by " + cmp.Or(e.Author, "a sweeper")
	case BySentinel:
		return "by the guard of its command"
	case BySignal:
		return "by " + cmp.Or(e.Signal, "a signal")
	case ByHost:
		if e.ofStop() {
			return "by its host"
		}
	case ByWatchdog, ByNobody:
	}
	return ""
}
