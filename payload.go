package watchdog

import (
	"crypto/rand"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"math"
	"time"
)

// The payloads of the events. The order of the fields is the order in the JSON text; a field is added at the end and
// never renamed. Whatever else stands in a payload that is read is left alone.
type (
	cancelPayload struct {
		Reason                  string  `json:"reason"`
		SessionStartedAt        stamp   `json:"session_started_at"`
		FiredAt                 stamp   `json:"fired_at"`
		ElapsedSeconds          float64 `json:"elapsed_seconds"`
		ConfiguredBudgetSeconds float64 `json:"configured_budget_seconds"`
		Parent                  string  `json:"parent,omitempty"`
		Hold                    string  `json:"hold,omitempty"`
		Note                    string  `json:"note,omitempty"`
		Attempt                 int     `json:"attempt,omitempty"`          // left out where the limit has no ladder
		MeasuredSeconds         float64 `json:"measured_seconds,omitempty"` // what elapsed, not floored; of the wall clock the times tell it
		Author                  string  `json:"author,omitempty"`           // who wrote it, where that is not the run's own process
		LastEventAt             stamp   `json:"last_event_at,omitzero"`
	}
	tripPayload struct {
		Reason                  string  `json:"reason"`
		SessionStartedAt        stamp   `json:"session_started_at"`
		FiredAt                 stamp   `json:"fired_at"`
		ElapsedSeconds          float64 `json:"elapsed_seconds"`
		ConfiguredBudgetSeconds float64 `json:"configured_budget_seconds"`
		Directive               string  `json:"directive"`
		Attempt                 int     `json:"attempt"`
		Hold                    string  `json:"hold,omitempty"`
		Note                    string  `json:"note,omitempty"`
		ObserveOnly             bool    `json:"observe_only,omitempty"`
		Parent                  string  `json:"parent,omitempty"`
		MeasuredSeconds         float64 `json:"measured_seconds"`
		Author                  string  `json:"author,omitempty"`
		LastEventAt             stamp   `json:"last_event_at,omitzero"`
	}
	resumePayload struct {
		SessionStartedAt  stamp  `json:"session_started_at"`
		PreviousStartedAt stamp  `json:"previous_started_at"`
		Parent            string `json:"parent,omitempty"`
	}
	extendPayload struct {
		SessionStartedAt        stamp   `json:"session_started_at"`
		ExtendedAt              stamp   `json:"extended_at"`
		ElapsedSeconds          float64 `json:"elapsed_seconds"`
		ExtensionSeconds        float64 `json:"extension_seconds"`
		ConfiguredBudgetSeconds float64 `json:"configured_budget_seconds"`
		Parent                  string  `json:"parent,omitempty"`
	}
	warningPayload struct {
		Reason                  string  `json:"reason"`
		SessionStartedAt        stamp   `json:"session_started_at"`
		WarnedAt                stamp   `json:"warned_at"`
		ElapsedSeconds          float64 `json:"elapsed_seconds"`
		ConfiguredBudgetSeconds float64 `json:"configured_budget_seconds"`
		Fraction                float64 `json:"fraction"`
		RemainingSeconds        float64 `json:"remaining_seconds"`
		Parent                  string  `json:"parent,omitempty"`
	}
	interruptPayload struct {
		Signal           string  `json:"signal"`
		SessionStartedAt stamp   `json:"session_started_at"`
		InterruptedAt    stamp   `json:"interrupted_at"`
		ElapsedSeconds   float64 `json:"elapsed_seconds"`
		Parent           string  `json:"parent,omitempty"`
	}
)

// wholeSeconds floors, as elapsed_seconds must be.
func wholeSeconds(d time.Duration) float64 { return float64(d / time.Second) }

// exactSeconds are to the microsecond, as times are.
func exactSeconds(d time.Duration) float64 { return d.Truncate(time.Microsecond).Seconds() }

// duration is the length that a payload's seconds stand for.
func duration(seconds float64) time.Duration {
	if seconds >= math.MaxInt64/float64(time.Second) {
		return NoLimit
	}
	return time.Duration(math.Round(seconds*1e6)) * time.Microsecond
}

// newEvent returns the event of one kind about a run. Events of the same name, window and run have the same ID,
// whichever process makes them; an empty name makes an event of its own.
func (w *Watchdog) newEvent(kind string, at time.Time, name string, payload any) Event {
	return eventOf(w.id, w.eventID(kind, name), kind, at, payload)
}

func eventOf(runID, id, kind string, at time.Time, payload any) Event {
	text, _ := json.Marshal(payload) // strings, numbers and times: it cannot fail, and if it did, no store would take the event
	return Event{ID: id, AggregateType: AggregateType, AggregateID: runID, Type: kind, Payload: text, Timestamp: truncate(at)}
}

// once names the one event of its kind in a window.
const once = "once"

func (w *Watchdog) eventID(kind, name string) string {
	if name == "" {
		return randomID()
	}
	return derivedID(w.id, w.startedAt.Format(stampLayout), kind, name)
}

// derivedID is a name-based UUID (RFC 9562, version 5) of what an event is about.
func derivedID(parts ...string) string {
	name := make([]byte, 0, 160)
	for _, part := range parts {
		name = append(append(name, part...), 0)
	}
	sum := sha1.Sum(name)
	return formatUUID([16]byte(sum[:16]), 5)
}

// randomID is a random UUID (RFC 9562, version 4).
func randomID() string {
	var id [16]byte
	rand.Read(id[:]) // never fails
	return formatUUID(id, 4)
}

func formatUUID(id [16]byte, version byte) string {
	id[6] = id[6]&0x0f | version<<4
	id[8] = id[8]&0x3f | 0x80
	text := make([]byte, 0, MaxEventID)
	for i, group := range [][]byte{id[:4], id[4:6], id[6:8], id[8:10], id[10:]} {
		if i > 0 {
			text = append(text, '-')
		}
		text = hex.AppendEncode(text, group)
	}
	return string(text)
}
