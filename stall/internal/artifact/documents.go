package artifact

import (
	"os"
	"slices"
)

// EventSchema names the contract of [EventFile].
const EventSchema = "watchdog.stall.event/v1"

// An Event is the content of event.json, in the order of its fields: what tripped, what was requested, what was done
// and how the command ended.
type Event struct {
	// Schema is EventSchema; WriteEvent sets it.
	Schema   string `json:"schema"`
	CheckID  string `json:"check_id"`
	Workflow string `json:"workflow"`
	// Step is the step of the Dir; WriteEvent sets it.
	Step string `json:"step"`
	// StepID is Step under the name that readers of workflow events look for; WriteEvent sets it.
	StepID    string `json:"step_id"`
	Iteration int    `json:"iteration"`
	RunID     string `json:"run_id"`
	// EventID is the ID of the cancel event in the store, or empty if there is none.
	EventID string  `json:"event_id"`
	Trigger Trigger `json:"trigger"`
	Action  Action  `json:"action"`
	// Reasons are the probe's, if the host publishes them.
	Reasons []string `json:"reasons"`
	// Fingerprints are written as [Set] returns them.
	Fingerprints []string `json:"fingerprints"`
	// Pointers name the other files that the same Dir wrote before; WriteEvent sets them, and keeps a StepLog.
	Pointers Pointers `json:"pointers"`
	// Complete is false before the first signal and true after the last.
	Complete bool `json:"complete"`
	// Finished says that the command exited by itself before the first signal. A correction of its cancel is in the store.
	Finished bool `json:"finished,omitempty"`
	// AlsoEnd is what came of ending what the command had running elsewhere, or nil if that was not tried.
	AlsoEnd *AlsoEnd `json:"also_end,omitempty"`
}

// A Trigger says what the sentinel saw.
type Trigger struct {
	Kind string `json:"kind"` // no_output, no_progress, terminal or wall_clock
	// Reason is a short text for people. It holds no output of the command.
	Reason string `json:"reason"`
	// ObservedAtUnix is in seconds.
	ObservedAtUnix int64 `json:"observed_at_unix"`
}

// An Action says what was requested, what was done and how the command ended.
type Action struct {
	Kind string `json:"kind"` // interrupt, fail or ignore
	// Requested are the signals of the action, in order, whether or not they were sent.
	Requested []string `json:"requested"`
	// Sent are the signals that were sent.
	Sent []Sent `json:"sent"`
	// Signals are the names in Sent, each once; WriteEvent sets them.
	Signals []string `json:"signals"`
	// Terminated says that the signals ended all processes of the command.
	Terminated bool `json:"terminated"`
	// EndedBy is the signal that ended the last process, or empty if the command exited by itself or is alive.
	EndedBy string `json:"ended_by"`
	// ExitCode is nil if it is unknown, or if a signal ended the command.
	ExitCode *int `json:"exit_code"`
}

// Sent is a signal that was sent to every living process of the command.
type Sent struct {
	Signal       string `json:"signal"`
	SentAtUnixMS int64  `json:"sent_at_unix_ms"`
	Processes    int    `json:"processes"`
	// Missed is how many were alive that the signal could not reach.
	Missed int `json:"missed,omitempty"`
}

// An AlsoEnd says what came of the command that ends what runs elsewhere. It holds nothing of that command itself.
type AlsoEnd struct {
	// ExitCode is nil if it was not started, or if a signal ended it.
	ExitCode *int `json:"exit_code"`
	// Failed is start, timeout or exit, or empty if it exited with status 0.
	Failed     string `json:"failed,omitempty"`
	DurationMS int64  `json:"duration_ms"`
}

// Pointers are the names of the other files in the same folder. The name of a file that was not written is empty.
type Pointers struct {
	Probe      string `json:"probe,omitempty"`
	StderrTail string `json:"stderr_tail,omitempty"`
	Decision   string `json:"decision,omitempty"`
	// StepLog is the log that the host keeps of the step, as the host names it.
	StepLog string `json:"step_log,omitempty"`
	// ProbeLog is the path of Probe, from where the root folder given to [Open] is found.
	ProbeLog string `json:"probe_log,omitempty"`
}

// WriteEvent replaces event.json. On an error the old file stays as it is. It syncs the disk two or three times and
// waits for that.
func (d *Dir) WriteEvent(e Event) error {
	e.Schema, e.Step, e.StepID = EventSchema, d.step, d.step
	e.Action.Signals = signals(e.Action.Sent)
	e.Action.Requested, e.Action.Sent = list(e.Action.Requested), list(e.Action.Sent)
	e.Reasons, e.Fingerprints = list(e.Reasons), Set(e.Fingerprints)
	e.Pointers = Pointers{
		Probe: d.pointer(ProbeFile), StderrTail: d.pointer(TailFile), Decision: d.pointer(DecisionFile),
		StepLog: e.Pointers.StepLog, ProbeLog: d.fromRoot(ProbeFile),
	}
	return d.replaceDocument(EventFile, e)
}

func signals(all []Sent) []string {
	names := []string{}
	for _, sent := range all {
		if !slices.Contains(names, sent.Signal) {
			names = append(names, sent.Signal)
		}
	}
	return names
}

// DecisionSchema names the contract of [DecisionFile].
const DecisionSchema = "watchdog.stall.decision/v1"

// Incomplete is the only decision: the check gave no answer.
const Incomplete = "incomplete"

// A Decision is the content of decision.json, in the order of its fields. It describes a completion check that stalled.
type Decision struct {
	// Schema is DecisionSchema, Decision is Incomplete; WriteDecision sets them.
	Schema   string `json:"schema"`
	Decision string `json:"decision"`
	CheckID  string `json:"check_id"`
	Workflow string `json:"workflow"`
	// Step is the step of the Dir; WriteDecision sets it.
	Step      string `json:"step"`
	Iteration int    `json:"iteration"`
	// Reasons are the probe's, if the host publishes them.
	Reasons []string `json:"reasons"`
	// Fingerprints are written as [Set] returns them.
	Fingerprints []string `json:"fingerprints"`
	// Event is the name of event.json, in the same folder, if the same Dir wrote it before; WriteDecision sets it.
	Event string `json:"event,omitempty"`
	// DecidedAtUnix is in seconds.
	DecidedAtUnix int64 `json:"decided_at_unix"`
}

// WriteDecision writes decision.json as [Dir.WriteEvent] writes event.json. Call it after the first event, so that the
// decision points to it, and before the last event, which then points to the decision.
func (d *Dir) WriteDecision(dec Decision) error {
	dec.Schema, dec.Decision, dec.Step = DecisionSchema, Incomplete, d.step
	dec.Reasons, dec.Fingerprints = list(dec.Reasons), Set(dec.Fingerprints)
	dec.Event = d.pointer(EventFile)
	return d.replaceDocument(DecisionFile, dec)
}

// A Probe is a line of probe.jsonl, in the order of its fields.
type Probe struct {
	AtUnixMS   int64 `json:"at_unix_ms"`
	DurationMS int64 `json:"duration_ms"`
	// ExitCode is nil if the probe did not exit.
	ExitCode *int `json:"exit_code"`
	// Class is progressing, stalled, terminal, or empty if the probe did not say.
	Class string `json:"class"`
	// Digest is a hash in lower-case hexadecimal, even if the probe gave a digest of its own. It is empty if the probe
	// was blind.
	Digest string `json:"digest"`
	// Same is how many probes in a row saw this digest, including this one.
	Same int `json:"same"`
	// Blind is why the probe could not observe: timeout, exit, output or start, or empty if it did.
	Blind string `json:"blind"`
	// Fingerprints are written as [Set] returns them.
	Fingerprints []string `json:"fingerprints"`
	// Reasons and Summary are empty unless the host publishes them.
	Reasons []string `json:"reasons,omitempty"`
	Summary string   `json:"summary,omitempty"`
}

// AppendProbe appends a line to probe.jsonl in one write, and does not sync it. First it removes an incomplete line
// that a crash left there. After an error, too, the file has only whole lines, unless the disk does not allow that.
func (d *Dir) AppendProbe(p Probe) error {
	p.Fingerprints = Set(p.Fingerprints)
	text, err := encode(p, "")
	if err != nil {
		return err
	}
	return d.write(ProbeFile, func(folder *os.Root) error { return appendLine(folder, ProbeFile, text) })
}
