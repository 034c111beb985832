package record

// AggregateType is the aggregate type of every event that a guard writes.
const AggregateType = "runtime_control"

// EventPrefix begins every kind of event.
const EventPrefix = "runtime.watchdog."

// The kinds of event.
const (
	EventCancel     = EventPrefix + "cancel"
	EventComplete   = EventPrefix + "complete"
	EventCorrection = EventPrefix + "correction"
	EventResume     = EventPrefix + "resume"
	EventExtend     = EventPrefix + "extend"
	EventWarning    = EventPrefix + "warning"
	EventWait       = EventPrefix + "wait"
	EventRetry      = EventPrefix + "retry"
	EventUnstuck    = EventPrefix + "unstuck"
	EventWrapUp     = EventPrefix + "wrap_up"
	EventProgress   = EventPrefix + "progress"
	EventHold       = EventPrefix + "hold"
	EventRelease    = EventPrefix + "release"
	EventCheckpoint = EventPrefix + "checkpoint"
	EventInterrupt  = EventPrefix + "interrupt"
	EventOverrun    = EventPrefix + "overrun"
)
