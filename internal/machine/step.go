package machine

import (
	"time"

	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// An InputKind says what happened.
type InputKind uint8

// The kinds of input. Each names the fields that it has besides the Node.
const (
	Begin      InputKind = iota + 1 // a run begins: Around, Elapsed, Window
	Parent                          // that of the session has ended
	Attached                        // an attach that took time is done: a look follows
	Tick                            // an instant came that runs are due at
	Look                            // somebody looks at the run
	LookAround                      // at the run and those around it
	Sign                            // a sign of life: Progress
	Awaited                         // a sign that waits to be looked at was noted in the pulse
	OpenHold                        // ID, Limits, Pauses; sets Hold, Held, Wait
	CloseHold                       // Hold, of this run; sets Done
	Cancel                          // another guard's: Guard; sets Done, Trip, Wait
	Complete                        // the work is done; sets Trip, Wait
	Recorded                        // the record of the run's trip was tried: Window
	Adopt                           // what the store has of the Window; sets Done, Wait
	End                             // the host ends the run: Cause; sets Done, Wait
	Asked                           // the host is about to be asked: Inquiry; sets Done if nobody waits for an answer
	Answer                          // what Busy said: Inquiry, Progress; sets Done
	Returned                        // a call of Busy has returned
	Counted                         // a call was charged or refused, up to the run Around: Told
	Told                            // a trace says that the run took a signal: Told
)

// An Input is one thing that happened to a run. Wait is set where nothing was done, because the run's end is being
// recorded or the host is being asked whether it is busy: then it is made again afterwards.
type Input struct {
	Kind InputKind
	Node *Node

	Around  *Node
	Elapsed time.Duration // of the window, when it is taken up
	Window  *fold.Window  // of a beginning: nil for one in which nothing was

	ID       verdict.HoldID
	Limits   verdict.HoldLimits
	Pauses   bool
	Progress bool // of a sign; of an answer, that the host is busy

	Hold    *Hold
	Inquiry *Inquiry
	Guard   *Guard
	Cause   error
	Told    *Signal

	Result
}

// A Guard is what another guard decided. If it is only observed the run goes on.
type Guard struct {
	Verdict verdict.Verdict
	Reason  string
	Observe bool
}

// A Result is what became of an input.
type Result struct {
	Done bool  // it had an effect
	Held bool  // a hold with the ID is open
	Trip *Trip // whose record is to be tried
	Wait bool
}

// An EffectKind says what is to be done.
type EffectKind uint8

// The kinds of effect. Ended and what is Asked for are done under the lock of the tree.
const (
	Ended    EffectKind = iota + 1 // end the run's context: Cause, Stop, or ByParent that of the run around
	Exchange                       // the Trip is to be recorded
	Record                         // the Entry waits to be recorded
	Leave                          // the Entry does, which an end left: with PollOnly until the next poll
	Retry                          // what waits is to be tried later
	Again                          // work is to be begun again: Entry
	Ask                            // the host whether it is busy: Inquiry
	Answered                       // the Inquiry is over
	Unpaused                       // a pause of the run has ended
	Traced                         // the host may be told of the Signal
)

// An Effect is one thing that a step asks for.
type Effect struct {
	Kind    EffectKind
	Node    *Node
	Entry   *Entry
	Trip    *Trip
	Inquiry *Inquiry
	Signal  *Signal
	Stop    *record.Cancel
	Cause   error
	// ByParent says that the parent of a session ended it, or the run around a layer, whose cause that is.
	ByParent bool
}
