package model

// A Fault is what goes wrong in a model's second turn.
type Fault int

// The faults.
const (
	// None is a healthy model.
	None Fault = iota
	// Mute never answers the request.
	Mute
	// Stall goes silent in the middle of the reply.
	Stall
	// Trickle is slow but never silent for long.
	Trickle
	// Heartbeat sends comments that keep the connection alive, and no text.
	Heartbeat
	// Repeat sends one of two statuses and then asks for another request.
	Repeat
	// Cycle asks for three tools in turn, from the second turn on.
	Cycle
	// Batch asks for many calls of one tool.
	Batch
	// Delegate asks for sub-agents.
	Delegate
)

// A Recovery is what ends a fault.
type Recovery int

// The cures.
const (
	// Never keeps the fault.
	Never Recovery = iota
	// OnRetry limits the fault to the first request of the turn.
	OnRetry
	// OnNewApproach limits the fault to requests with approach 0.
	OnNewApproach
)

// A Character is a model's behaviour. The zero value is healthy.
type Character struct {
	Fault    Fault
	Recovery Recovery
}

// fault returns the fault of the n-th request of its turn, from 1.
func (c Character) fault(req Request, n int) Fault {
	recovered := c.Recovery == OnRetry && n > 1 || c.Recovery == OnNewApproach && req.Approach > 0
	faulty := req.Turn == faultyTurn || req.Turn > faultyTurn && c.Fault == Cycle
	if !faulty || recovered {
		return None
	}
	return c.Fault
}
