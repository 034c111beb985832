package model

// A Fault is what a model does wrong in its second turn.
type Fault int

// The faults.
const (
	// None is a healthy model.
	None Fault = iota
	// Mute takes the request and never answers.
	Mute
	// Stall goes silent in the middle of the reply.
	Stall
	// Trickle is slow and never silent for long.
	Trickle
	// Heartbeat sends comments that keep the connection alive, and no word.
	Heartbeat
	// Repeat says one of two things, and then wants to be asked again.
	Repeat
)

// A Cure is what makes a fault go away.
type Cure int

// The cures.
const (
	// Never is a fault that stays.
	Never Cure = iota
	// Retried is a fault of the first request of the turn only.
	Retried
	// Approached is a fault that goes when the request has another approach.
	Approached
)

// A Character is how a model behaves. The zero value is a healthy one.
type Character struct {
	Fault Fault
	Cure  Cure
}

// ill reports what is wrong with the n-th request of its turn, from 1.
func (c Character) ill(req Request, n int) Fault {
	cured := c.Cure == Retried && n > 1 || c.Cure == Approached && req.Approach > 0
	if req.Turn != illTurn || cured {
		return None
	}
	return c.Fault
}
