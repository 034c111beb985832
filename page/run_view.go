package page

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/record"
)

const (
	completeReason = record.CompleteReason
	eventPrefix    = "runtime.watchdog."
)

// A runView is what the events of a run tell.
type runView struct {
	Windows []span
	Holds   []span
	Entries []entry
	// Ended is the end of the last window, nil while there is none.
	Ended *ending
	// Allowed is the wall-clock budget that an event named last, 0 if none did.
	Allowed time.Duration
}

// A span is a stretch of time. Until is zero for one that lasts.
type span struct {
	Name         string
	Since, Until time.Time
	Kind         string // how a window ended
}

// An entry is one event. Text is ours; Key and Note are the host's words.
type entry struct {
	At              time.Time
	Kind, Said      string
	Text, Key, Note string
}

// An ending says how a window ended.
type ending struct {
	At                   time.Time
	Kind, Reason, Why    string // Kind is complete, cancel or interrupt
	Used, Key, Note      string
	By                   string
	StopFailed, Finished bool // Finished is a cancel that was wrong: the work had finished
	Paused               time.Duration
}

// A payload has the fields of all kinds that are shown.
type payload struct {
	Reason     string         `json:"reason"`
	Window     string         `json:"window"`
	Elapsed    record.Seconds `json:"elapsed_seconds"`
	Budget     record.Seconds `json:"configured_budget_seconds"`
	Extension  record.Seconds `json:"extension_seconds"`
	Remaining  record.Seconds `json:"remaining_seconds"`
	Fraction   record.Seconds `json:"fraction"`
	Paused     record.Seconds `json:"paused_seconds"`
	Cap        record.Seconds `json:"cap_seconds"`
	Limit      record.Seconds `json:"limit_seconds"`
	Directive  string         `json:"directive"`
	Rung       record.Count   `json:"attempt"`
	Hold       string         `json:"hold"`
	Note       string         `json:"note"`
	Key        string         `json:"key"`
	Signal     string         `json:"signal"`
	Author     string         `json:"author"`
	Observe    bool           `json:"observe_only"`
	Abandoned  bool           `json:"abandoned"`
	StopFailed bool           `json:"stop_failed"`
	Spend      payloadSpend   `json:"spend"`
	Started    record.Stamp   `json:"session_started_at"`
}

// A payloadSpend reads one counted limit. An extension has a list of them, which is not shown.
type payloadSpend struct{ *record.Spend }

// UnmarshalJSON implements [json.Unmarshaler].
func (s *payloadSpend) UnmarshalJSON(text []byte) error {
	var spend record.Spend
	if json.Unmarshal(text, &spend) == nil {
		s.Spend = &spend
	}
	return nil
}

// storyOf reads the events of a run, which are in order.
func storyOf(events []watchdog.Event) (v runView) {
	for _, e := range events {
		var p payload
		_ = json.Unmarshal(e.Payload, &p) // another writer's payload is shown as far as it can be read
		v.add(e, p)
	}
	return v
}

func (v *runView) add(e watchdog.Event, p payload) {
	kind, own := strings.CutPrefix(e.Type, eventPrefix)
	if !own {
		v.Entries = append(v.Entries, entry{At: e.Timestamp, Kind: "other", Said: e.Type})
		return
	}
	v.openWindow(e, p)
	if p.Spend.Spend == nil && strings.HasPrefix(p.Reason, "wall_clock") || kind == "extend" {
		v.Allowed = seconds(float64(p.Budget))
	}
	switch kind {
	case "cancel", "complete", "interrupt":
		v.end(e, p, kind)
	case "correction":
		if v.Ended != nil {
			v.Ended.Finished = true
		}
	case "hold":
		v.Holds = append(v.Holds, span{Name: p.Hold, Since: e.Timestamp})
	case "release":
		v.release(p.Hold, e.Timestamp)
	}
	v.Entries = append(v.Entries, entryOf(e, p, kind))
}

// openWindow begins a window where an event is of another than the last.
func (v *runView) openWindow(e watchdog.Event, p payload) {
	start := time.Time(p.Started)
	if start.IsZero() {
		start = e.Timestamp
	}
	name := p.Window
	if name == "" {
		name = p.Started.String()
	}
	if n := len(v.Windows); n > 0 && (v.Windows[n-1].Name == name || e.Type == watchdog.EventCorrection) {
		return
	}
	v.Windows = append(v.Windows, span{Name: name, Since: start})
	v.Ended = nil
}

func (v *runView) end(e watchdog.Event, p payload, kind string) {
	v.Ended = &ending{
		At: e.Timestamp, Kind: kind, Reason: p.Reason, Why: reasonText(p.Reason), Key: p.Hold, Note: p.Note,
		Used: usedText(p), By: p.Author, StopFailed: p.StopFailed, Paused: seconds(float64(p.Paused)),
	}
	if kind == "interrupt" {
		v.Ended.Reason, v.Ended.Why = p.Signal, "something outside ended it"
	}
	last := &v.Windows[len(v.Windows)-1]
	last.Until, last.Kind = e.Timestamp, kind
	for i := range v.Holds {
		if v.Holds[i].Until.IsZero() {
			v.Holds[i].Until = e.Timestamp
		}
	}
}

func (v *runView) release(key string, at time.Time) {
	for i := len(v.Holds) - 1; i >= 0; i-- {
		if h := &v.Holds[i]; h.Name == key && h.Until.IsZero() {
			h.Until = at
			return
		}
	}
}

// usedText is how much was used of what a payload is about.
func usedText(p payload) string {
	if s := p.Spend.Spend; s != nil {
		write := number
		if s.Limit == "cost" {
			write = func(n int64) string { return money(n, s.Currency) }
		}
		return strings.TrimSpace(fmt.Sprintf("%s of %s %s", write(int64(s.Used)), write(int64(s.Allowed)), words(s.Limit)))
	}
	switch elapsed, budget := seconds(float64(p.Elapsed)), seconds(float64(p.Budget)); {
	case budget > 0:
		return length(elapsed) + " of " + length(budget)
	case elapsed > 0:
		return length(elapsed)
	}
	return ""
}

// entryOf says what an event is.
func entryOf(e watchdog.Event, p payload, kind string) entry {
	n := entry{At: e.Timestamp, Kind: kind, Said: words(kind), Key: p.Hold, Note: p.Note}
	if said, other := saidKinds[kind]; other {
		n.Said = said
	}
	switch kind {
	case "interrupt":
		n.Note = p.Signal
	case "overrun":
		n.Key = p.Key
	}
	if text := kindTexts[kind]; text != nil {
		n.Text = text(p)
	}
	return n
}

// saidKinds are the kinds that are not said as they are written.
var saidKinds = map[string]string{
	"cancel": "cancelled", "resume": "resumed", "extend": "extended", "interrupt": "interrupted",
	"wait": "asked to wait", "retry": "asked to retry", "unstuck": "asked to get unstuck", "wrap_up": "asked to wrap up",
	"hold": "hold opened", "release": "hold closed",
}

// kindTexts say more of the kinds.
var kindTexts = map[string]func(p payload) string{
	"cancel":     tripText,
	"wait":       tripText,
	"retry":      tripText,
	"unstuck":    tripText,
	"warning":    warningText,
	"complete":   func(p payload) string { return joined("the work is done", "after "+lengthOf(p.Elapsed)) },
	"resume":     func(payload) string { return "a fresh window" },
	"extend":     func(p payload) string { return "by " + lengthOf(p.Extension) + ", to " + lengthOf(p.Budget) },
	"hold":       func(p payload) string { return "for at most " + lengthOf(p.Cap) },
	"correction": func(payload) string { return "the work had finished before its cancel" },
	"wrap_up": func(p payload) string {
		if p.Spend.Spend != nil {
			return usedText(p)
		}
		return joined(words(p.Reason), lengthOf(p.Remaining)+" left")
	},
	"overrun": func(p payload) string {
		text := "a call took " + lengthOf(p.Elapsed)
		if p.Abandoned {
			text += " and was abandoned"
		}
		return text
	},
}

func lengthOf(s record.Seconds) string { return length(seconds(float64(s))) }

func tripText(p payload) string { return joined(words(p.Reason), usedText(p)) }

func warningText(p payload) string {
	if p.Fraction > 0 {
		text := fmt.Sprintf("%.3g %% used", float64(p.Fraction)*100)
		if p.Spend.Spend != nil {
			return joined(text, usedText(p))
		}
		return joined(text, lengthOf(p.Remaining)+" left of "+lengthOf(p.Budget))
	}
	text := tripText(p)
	if p.Observe {
		text += "; it is only observed"
	}
	return text
}

func joined(first, second string) string {
	if first == "" || second == "" {
		return first + second
	}
	return first + ": " + second
}

// reasonTexts say why a run ended, by the reasons without their prefix.
var reasonTexts = map[string]string{
	"complete":             "it has done its work",
	"wall_clock_exceeded":  "its window lasted longer than its wall-clock budget",
	"safety_exceeded":      "it lasted longer than its hard cap",
	"idle_exceeded":        "it gave no sign of life for too long",
	"no_progress_exceeded": "it got nowhere for too long, however active it was",
	"hold_exceeded":        "a stretch in which silence was expected lasted longer than its cap",
	"tokens_exceeded":      "it used more tokens than it may",
	"call_input_exceeded":  "one call sent more tokens than one may",
	"cost_exceeded":        "it cost more than it may",
	"requests_exceeded":    "it made more requests than it may",
	"turns_exceeded":       "it took more turns than it may",
	"tool_calls_exceeded":  "it called tools more often than it may",
	"errors_exceeded":      "too many calls in a row failed",
	"loop_detected":        "it did the same again and got the same",
	"no_output":            "its command wrote nothing for too long",
	"no_progress":          "what its command works on did not change for too long",
	"terminal":             "its command came to a state that it cannot get out of",
	"idle_timeout":         "it had nothing new in the database for too long",
}

// reasonText says why a run ended: empty for a code of the host's.
func reasonText(reason string) string { return reasonTexts[strings.TrimPrefix(reason, "watchdog_")] }
