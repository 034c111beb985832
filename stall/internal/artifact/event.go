package artifact

// EventSchema names the contract of [EventFile].
const EventSchema = "watchdog.stall.event/v1"

// The kinds of a [Trigger].
const (
	NoOutput   = "no_output"
	NoProgress = "no_progress"
	Terminal   = "terminal"
)

// An Event is what event.json says, in the order of its fields: what tripped, and apart from each other what was asked, what was done and what it came to.
type Event struct {
	// Schema is EventSchema; WriteEvent sets it.
	Schema   string `json:"schema"`
	CheckID  string `json:"check_id"`
	Workflow string `json:"workflow"`
	// Step is that of the Dir; WriteEvent sets it.
	Step      string `json:"step"`
	Iteration int    `json:"iteration"`
	RunID     string `json:"run_id"`
	// EventID is that of the cancel event in the store, and empty where there is none.
	EventID string  `json:"event_id"`
	Trigger Trigger `json:"trigger"`
	Action  Action  `json:"action"`
	// Reasons are those of the probe, where the host has them published.
	Reasons []string `json:"reasons"`
	// Fingerprints are written as [Set] has them.
	Fingerprints []string `json:"fingerprints"`
	// Pointers are the other files that the same Dir wrote before; WriteEvent sets them.
	Pointers Pointers `json:"pointers"`
	// Complete is false before the first signal and true after the last.
	Complete bool `json:"complete"`
}

// A Trigger is what the sentinel saw.
type Trigger struct {
	Kind string `json:"kind"` // NoOutput, NoProgress or Terminal
	// Reason is a short text of the sentinel's own, without anything of the command's.
	Reason string `json:"reason"`
	// ObservedAtUnix is in seconds.
	ObservedAtUnix int64 `json:"observed_at_unix"`
}

// An Action is what was asked for, what was done and what it came to.
type Action struct {
	Kind string `json:"kind"` // interrupt, fail or ignore
	// Requested are the signals that the action has, in order, sent or not.
	Requested []string `json:"requested"`
	// Sent are those that were sent.
	Sent []Sent `json:"sent"`
	// Terminated says that nothing of the command is alive.
	Terminated bool `json:"terminated"`
	// EndedBy is the signal that it took, and empty where the command ended by itself or is alive.
	EndedBy string `json:"ended_by"`
	// ExitCode is nil while it is unknown.
	ExitCode *int `json:"exit_code"`
}

// Sent is one signal, sent to everything of the command that was alive then.
type Sent struct {
	Signal       string `json:"signal"`
	SentAtUnixMS int64  `json:"sent_at_unix_ms"`
	Processes    int    `json:"processes"`
}

// Pointers name the other files, in the same folder. A file that was not written has none.
type Pointers struct {
	Probe      string `json:"probe,omitempty"`
	StderrTail string `json:"stderr_tail,omitempty"`
	Decision   string `json:"decision,omitempty"`
}

// WriteEvent writes event.json, and syncs it, in the place of the one that is there. On an error that one stays as it is. It takes two or three syncs of the
// disk, and as long as these take.
func (d *Dir) WriteEvent(e Event) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	e.Schema, e.Step = EventSchema, d.step
	e.Action.Requested, e.Action.Sent = list(e.Action.Requested), list(e.Action.Sent)
	e.Reasons, e.Fingerprints = list(e.Reasons), Set(e.Fingerprints)
	e.Pointers = Pointers{Probe: d.pointer(ProbeFile), StderrTail: d.pointer(TailFile), Decision: d.pointer(DecisionFile)}
	text, err := document(e)
	if err != nil {
		return err
	}
	return d.replace(EventFile, text)
}
