package record

import (
	"encoding/json"
)

// The payloads of the events. The order of the fields is the order in the JSON text. A field is added at the end and
// never renamed. Whatever else stands in a payload that is read is left alone.
type (
	// Cancel says that a guard ended the run.
	Cancel struct {
		Reason                  string  `json:"reason"`
		SessionStartedAt        Stamp   `json:"session_started_at"`
		FiredAt                 Stamp   `json:"fired_at"`
		ElapsedSeconds          float64 `json:"elapsed_seconds"`
		ConfiguredBudgetSeconds float64 `json:"configured_budget_seconds"`
		Parent                  string  `json:"parent,omitempty"`
		Hold                    string  `json:"hold,omitempty"`
		Note                    string  `json:"note,omitempty"`
		Rung                    int     `json:"attempt,omitempty"`          // left out where the limit has no ladder
		MeasuredSeconds         float64 `json:"measured_seconds,omitempty"` // not floored; left out for the wall clock
		Author                  string  `json:"author,omitempty"`           // who wrote it, if not the run's own process
		LastEventAt             Stamp   `json:"last_event_at,omitzero"`
	}
	// Trip says that a limit was exceeded and which directive it gave.
	Trip struct {
		Reason                  string  `json:"reason"`
		SessionStartedAt        Stamp   `json:"session_started_at"`
		FiredAt                 Stamp   `json:"fired_at"`
		ElapsedSeconds          float64 `json:"elapsed_seconds"`
		ConfiguredBudgetSeconds float64 `json:"configured_budget_seconds"`
		Directive               string  `json:"directive"`
		Rung                    int     `json:"attempt"`
		Hold                    string  `json:"hold,omitempty"`
		Note                    string  `json:"note,omitempty"`
		ObserveOnly             bool    `json:"observe_only,omitempty"`
		Parent                  string  `json:"parent,omitempty"`
		MeasuredSeconds         float64 `json:"measured_seconds"`
		Author                  string  `json:"author,omitempty"`
		LastEventAt             Stamp   `json:"last_event_at,omitzero"`
	}
	// Resume says that a fresh window was opened.
	Resume struct {
		SessionStartedAt  Stamp  `json:"session_started_at"`
		PreviousStartedAt Stamp  `json:"previous_started_at"`
		Parent            string `json:"parent,omitempty"`
	}
	// Extend says that a window was given more time.
	Extend struct {
		SessionStartedAt        Stamp   `json:"session_started_at"`
		ExtendedAt              Stamp   `json:"extended_at"`
		ElapsedSeconds          float64 `json:"elapsed_seconds"`
		ExtensionSeconds        float64 `json:"extension_seconds"`
		ConfiguredBudgetSeconds float64 `json:"configured_budget_seconds"`
		Parent                  string  `json:"parent,omitempty"`
	}
	// Warning says that a fraction of the wall clock was used up.
	Warning struct {
		Reason                  string  `json:"reason"`
		SessionStartedAt        Stamp   `json:"session_started_at"`
		WarnedAt                Stamp   `json:"warned_at"`
		ElapsedSeconds          float64 `json:"elapsed_seconds"`
		ConfiguredBudgetSeconds float64 `json:"configured_budget_seconds"`
		Fraction                float64 `json:"fraction"`
		RemainingSeconds        float64 `json:"remaining_seconds"`
		Parent                  string  `json:"parent,omitempty"`
	}
	// Interrupt says that something outside ended the run.
	Interrupt struct {
		Signal           string  `json:"signal"`
		SessionStartedAt Stamp   `json:"session_started_at"`
		InterruptedAt    Stamp   `json:"interrupted_at"`
		ElapsedSeconds   float64 `json:"elapsed_seconds"`
		Parent           string  `json:"parent,omitempty"`
	}
	// Overrun says that a call in the run took longer than it may, or was abandoned.
	Overrun struct {
		Key              string  `json:"key"`
		Layer            string  `json:"layer"`
		SessionStartedAt Stamp   `json:"session_started_at"`
		OverranAt        Stamp   `json:"overran_at"`
		LimitSeconds     float64 `json:"limit_seconds"`   // 0 for a call without a limit
		ElapsedSeconds   float64 `json:"elapsed_seconds"` // not floored
		Abandoned        bool    `json:"abandoned,omitempty"`
		Note             string  `json:"note,omitempty"`
		Parent           string  `json:"parent,omitempty"`
		LimitedBy        string  `json:"limited_by,omitempty"` // the run whose remaining time was the limit
	}
)

// JSON is the text of a payload. Payloads hold strings, numbers and times, so that it cannot fail; if it did, no store
// would take the event.
func JSON(payload any) json.RawMessage {
	text, _ := json.Marshal(payload)
	return text
}
