package artifact

// DecisionSchema names the contract of [DecisionFile].
const DecisionSchema = "watchdog.stall.decision/v1"

// Incomplete is the one decision there is: the check came to no answer.
const Incomplete = "incomplete"

// A Decision is what decision.json says, in the order of its fields, about a completion check that stalled.
type Decision struct {
	// Schema is DecisionSchema, Decision is Incomplete; WriteDecision sets them.
	Schema   string `json:"schema"`
	Decision string `json:"decision"`
	CheckID  string `json:"check_id"`
	Workflow string `json:"workflow"`
	// Step is that of the Dir; WriteDecision sets it.
	Step      string `json:"step"`
	Iteration int    `json:"iteration"`
	// Reasons are those of the probe, where the host has them published.
	Reasons []string `json:"reasons"`
	// Fingerprints are written as [Set] has them.
	Fingerprints []string `json:"fingerprints"`
	// Event points to event.json, from the folder of decision.json, where the same Dir wrote it before; WriteDecision sets it.
	Event string `json:"event,omitempty"`
	// DecidedAtUnix is in seconds.
	DecidedAtUnix int64 `json:"decided_at_unix"`
}

// WriteDecision writes decision.json as [Dir.WriteEvent] does event.json: after the first event, for its pointer, and before the last, which then points back.
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
