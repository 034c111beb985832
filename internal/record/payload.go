// Package record is the bytes of the events: their payloads, times and derived IDs. Every guard writes them with it, so
// that a session's event is the same whoever wrote it. A change of a byte here is a change of the contract, which
// golden files hold.
//
// It does not know what an event is for, and stores nothing.
package record

import (
	"encoding/json"
	"time"

	"github.com/seed62658d38/watchdog/event"
)

// The payloads of the events. The order of the fields is the order in the JSON text. A field is added at the end and
// never renamed. Whatever else stands in a payload that is read is left alone.
type (
	// Cancel says that a guard ended the run.
	Cancel struct {
		Reason           string      `json:"reason"`
		SessionStartedAt event.Stamp `json:"session_started_at"`
		FiredAt          event.Stamp `json:"fired_at"`
		Used
		Parent          string      `json:"parent,omitempty"`
		Hold            string      `json:"hold,omitempty"`
		Note            string      `json:"note,omitempty"`
		Rung            Count       `json:"attempt,omitempty"`          // left out where the limit has no ladder
		MeasuredSeconds Seconds     `json:"measured_seconds,omitempty"` // not floored; left out for the wall clock
		Author          string      `json:"author,omitempty"`           // who wrote it, if not the run's own process
		LastEventAt     event.Stamp `json:"last_event_at,omitzero"`
		PausedSeconds   Seconds     `json:"paused_seconds,omitempty"` // not in elapsed_seconds
		Window          string      `json:"window,omitempty"`
		StopFailed      bool        `json:"stop_failed,omitempty"` // what works on the run could not be stopped
		Spend           *Spend      `json:"spend,omitempty"`       // of a counted limit
		Lease           *Lease      `json:"lease,omitempty"`       // of the run's process, which was found dead
		Spent           []Spend     `json:"spent,omitempty"`       // in all, by limit; left out if nothing was counted
	}
	// Lease says how often in a row the lease of a process was found not renewed before it expired, and since when.
	Lease struct {
		ID        string      `json:"id"`
		Looks     Count       `json:"looks,omitempty"`
		RenewedAt event.Stamp `json:"renewed_at,omitzero"`
	}
	// Trip says that a limit was exceeded and which directive it gave.
	Trip struct {
		Reason           string      `json:"reason"`
		SessionStartedAt event.Stamp `json:"session_started_at"`
		FiredAt          event.Stamp `json:"fired_at"`
		Used
		Directive       string      `json:"directive"`
		Rung            Count       `json:"attempt"`
		Hold            string      `json:"hold,omitempty"`
		Note            string      `json:"note,omitempty"`
		ObserveOnly     bool        `json:"observe_only,omitempty"`
		Parent          string      `json:"parent,omitempty"`
		MeasuredSeconds Seconds     `json:"measured_seconds"`
		Author          string      `json:"author,omitempty"`
		LastEventAt     event.Stamp `json:"last_event_at,omitzero"`
		Window          string      `json:"window,omitempty"`
		// Resets are the IDs of directives that this one takes the place of: a ladder's last wait comes again.
		Resets []string `json:"resets,omitempty"`
		Spend  *Spend   `json:"spend,omitempty"`
	}
	// Used says how much of a limit of time was used, floored, and how much there was.
	Used struct {
		ElapsedSeconds          Seconds `json:"elapsed_seconds"`
		ConfiguredBudgetSeconds Seconds `json:"configured_budget_seconds"`
	}
	// Resume says that a fresh window was opened.
	Resume struct {
		SessionStartedAt  event.Stamp `json:"session_started_at"`
		PreviousStartedAt event.Stamp `json:"previous_started_at"`
		Parent            string      `json:"parent,omitempty"`
	}
	// Extend says that a window was given more time.
	Extend struct {
		SessionStartedAt        event.Stamp `json:"session_started_at"`
		ExtendedAt              event.Stamp `json:"extended_at"`
		ElapsedSeconds          Seconds     `json:"elapsed_seconds"`
		ExtensionSeconds        Seconds     `json:"extension_seconds"`
		ConfiguredBudgetSeconds Seconds     `json:"configured_budget_seconds"`
		Parent                  string      `json:"parent,omitempty"`
		Window                  string      `json:"window,omitempty"`
		Spend                   []Spend     `json:"spend,omitempty"` // the counted limits with what each was given
	}
	// Warning says that a fraction of a limit was used up.
	Warning struct {
		Reason           string      `json:"reason"`
		SessionStartedAt event.Stamp `json:"session_started_at"`
		WarnedAt         event.Stamp `json:"warned_at"`
		Used
		Fraction         Seconds `json:"fraction"`
		RemainingSeconds Seconds `json:"remaining_seconds"`
		Parent           string  `json:"parent,omitempty"`
		Window           string  `json:"window,omitempty"`
		Spend            *Spend  `json:"spend,omitempty"`
	}
	// WrapUp says that only the reserve of a limit is left.
	WrapUp struct {
		Reason           string      `json:"reason"`
		SessionStartedAt event.Stamp `json:"session_started_at"`
		AskedAt          event.Stamp `json:"asked_at"`
		Used
		RemainingSeconds Seconds `json:"remaining_seconds"`
		Note             string  `json:"note,omitempty"`
		Parent           string  `json:"parent,omitempty"`
		Window           string  `json:"window,omitempty"`
		Spend            *Spend  `json:"spend,omitempty"`
	}
	// Spend says how far a counted limit is used.
	Spend struct {
		Limit     string `json:"limit"`
		Tool      string `json:"tool,omitempty"`
		Scope     string `json:"scope,omitempty"`    // who shared it, of an older version
		Currency  string `json:"currency,omitempty"` // its numbers are micro-units then
		Used      Number `json:"used"`
		Admitted  Number `json:"admitted,omitempty"`
		Allowed   Number `json:"allowed"`
		Needed    Number `json:"needed,omitempty"`    // what the call may use that did not fit
		Pattern   string `json:"pattern,omitempty"`   // what a loop repeats
		Extension Number `json:"extension,omitempty"` // what it was given
	}
	// Progress says that directives which were given do not count any more, because there was progress.
	Progress struct {
		SessionStartedAt event.Stamp `json:"session_started_at"`
		ProgressedAt     event.Stamp `json:"progressed_at"`
		Resets           []string    `json:"resets"` // the IDs of the directives
		Parent           string      `json:"parent,omitempty"`
		Window           string      `json:"window,omitempty"`
	}
	// Hold says that a hold which stops the wall clock was opened: so long after the window's start, for that long at
	// most.
	Hold struct {
		Hold             string      `json:"hold"`
		SessionStartedAt event.Stamp `json:"session_started_at"`
		OpenedAt         event.Stamp `json:"opened_at"`
		OpenedSeconds    Seconds     `json:"opened_seconds"`
		CapSeconds       Seconds     `json:"cap_seconds"`
		Layer            string      `json:"layer,omitempty"` // whose it is: it ends with that
		Parent           string      `json:"parent,omitempty"`
		Window           string      `json:"window,omitempty"`
		Opener           *Opener     `json:"opener,omitempty"` // left out by older versions
	}
	// Opener says which process opened a hold, so that another one can tell whether it is gone.
	Opener struct {
		Boot    string `json:"boot"` // of its machine, and the namespaces in which it has the PID and the start
		PID     Count  `json:"pid"`
		Started Number `json:"started"` // on Linux in clock ticks since the boot
		Host    string `json:"host,omitempty"`
		Attempt Count  `json:"attempt,omitempty"` // at the run, where a keeper counts them
		Attach  string `json:"attach"`            // of that process to the run
	}
	// Release says that such a hold was closed, or that one was which had been given directives.
	Release struct {
		Hold             string      `json:"hold"`
		SessionStartedAt event.Stamp `json:"session_started_at"`
		ReleasedAt       event.Stamp `json:"released_at"`
		ReleasedSeconds  Seconds     `json:"released_seconds"`
		Opening          string      `json:"opening,omitempty"` // the ID of the hold event
		Resets           []string    `json:"resets,omitempty"`
		Parent           string      `json:"parent,omitempty"`
		Window           string      `json:"window,omitempty"`
		TakenBy          string      `json:"taken_by,omitempty"` // the ID of the hold event that took it over
	}
	// Interrupt says that something outside ended the run.
	Interrupt struct {
		Signal           string      `json:"signal"`
		SessionStartedAt event.Stamp `json:"session_started_at"`
		InterruptedAt    event.Stamp `json:"interrupted_at"`
		ElapsedSeconds   Seconds     `json:"elapsed_seconds"`
		Parent           string      `json:"parent,omitempty"`
		Window           string      `json:"window,omitempty"`
	}
	// Complete says that the host declared the run done.
	Complete struct {
		Reason           string      `json:"reason"`
		SessionStartedAt event.Stamp `json:"session_started_at"`
		CompletedAt      event.Stamp `json:"completed_at"`
		ElapsedSeconds   Seconds     `json:"elapsed_seconds"`
		PausedSeconds    Seconds     `json:"paused_seconds,omitempty"`
		Note             string      `json:"note,omitempty"`
		Parent           string      `json:"parent,omitempty"`
		Window           string      `json:"window,omitempty"`
		CommandEnd
		Spent []Spend `json:"spent,omitempty"` // as that of a Cancel
	}
	// CommandEnd is how the command of a complete run ended. It is zero for a run that has no command.
	CommandEnd struct {
		Outcome    string `json:"outcome,omitempty"`     // Succeeded or Failed
		ExitStatus *Count `json:"exit_status,omitempty"` // left out where it has none, or nobody saw it
		Signal     string `json:"signal,omitempty"`      // that ended it
	}
	// Correction says that a cancel was wrong: what it cancelled had finished by itself.
	Correction struct {
		Cancel           string      `json:"cancel_id"` // the ID of the event
		SessionStartedAt event.Stamp `json:"session_started_at"`
		CorrectedAt      event.Stamp `json:"corrected_at"`
		Parent           string      `json:"parent,omitempty"`
		Window           string      `json:"window,omitempty"`
	}
	// Start says when a run began whose start the store keeps.
	Start struct {
		SessionStartedAt event.Stamp `json:"session_started_at"`
		StoredAt         event.Stamp `json:"stored_at"`
		Parent           string      `json:"parent,omitempty"`
	}
	// Window is what the payload of every kind says of the window that it belongs to.
	Window struct {
		SessionStartedAt event.Stamp `json:"session_started_at"`
		Parent           string      `json:"parent"`
		Window           string      `json:"window"`
	}
	// Overrun says that a call in the run took longer than it may, or was abandoned, or that processes of its command
	// were.
	Overrun struct {
		Key              string      `json:"key"`
		Layer            string      `json:"layer"`
		SessionStartedAt event.Stamp `json:"session_started_at"`
		OverranAt        event.Stamp `json:"overran_at"`
		LimitSeconds     Seconds     `json:"limit_seconds"`   // 0 for a call without a limit
		ElapsedSeconds   Seconds     `json:"elapsed_seconds"` // not floored
		Abandoned        bool        `json:"abandoned,omitempty"`
		Note             string      `json:"note,omitempty"`
		Parent           string      `json:"parent,omitempty"`
		LimitedBy        string      `json:"limited_by,omitempty"` // the run whose remaining time was the limit
		Window           string      `json:"window,omitempty"`
		// Survivors is how many processes of a command are left alive, SurvivorPIDs are the first of them.
		Survivors    Count   `json:"survivors,omitempty"`
		SurvivorPIDs []Count `json:"survivor_pids,omitempty"`
	}
)

// UsedOf is how much of a limit was used.
func UsedOf(used, limit time.Duration) Used { return Used{WholeSeconds(used), FloatSeconds(limit)} }

// LayerCommand is the layer of an [Overrun] that says that processes of a command could not be ended.
const LayerCommand = "command"

// maxPIDs is how many processes an event names.
const maxPIDs = 16

// SetSurvivors says which processes of a command are left alive.
func (o *Overrun) SetSurvivors(pids []int) {
	o.Survivors = Count(len(pids))
	for _, pid := range pids[:min(len(pids), maxPIDs)] {
		o.SurvivorPIDs = append(o.SurvivorPIDs, Count(pid))
	}
}

// CompleteReason is the reason of a complete event, and of the session row of a run that is complete.
const CompleteReason = "complete"

// The outcomes of a command.
const (
	Succeeded = "succeeded"
	Failed    = "failed"
)

// JSON is the text of a payload. Payloads hold strings, numbers and times, so that it cannot fail; if it did, no store
// would take the event.
func JSON(payload any) json.RawMessage {
	text, _ := json.Marshal(payload)
	return text
}
