package artifact

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
	d.mu.Lock()
	defer d.mu.Unlock()
	dec.Schema, dec.Decision, dec.Step = DecisionSchema, Incomplete, d.step
	dec.Reasons, dec.Fingerprints = list(dec.Reasons), Set(dec.Fingerprints)
	dec.Event = d.pointer(EventFile)
	text, err := document(dec)
	if err != nil {
		return err
	}
	return d.replace(DecisionFile, text)
}
