package watchdog

import (
	"time"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// The kinds of [Signal].
const (
	// SignalAttach is where the trace of an attach begins, SignalExtend more time for the window, SignalEnd where it
	// ends: when the run's end was decided, by whatever limit, guard or call.
	SignalAttach = string(verdict.SignalAttach)
	SignalExtend = string(verdict.SignalExtend)
	SignalEnd    = string(verdict.SignalEnd)
	// SignalAttached is when an attach that took time was done. Silence counts from there.
	SignalAttached = string(verdict.SignalAttached)
	// SignalActivity and SignalProgress are signs of life; a known digest is an activity.
	SignalActivity = string(verdict.SignalActivity)
	SignalProgress = string(verdict.SignalProgress)
	// SignalHold opens a hold, SignalRelease closes it.
	SignalHold    = string(verdict.SignalHold)
	SignalRelease = string(verdict.SignalRelease)
	// SignalHeld is a hold that was open when the run was attached, opened by a process that is gone.
	SignalHeld = string(verdict.SignalHeld)
	// SignalTakeOver is when such a hold was opened again by its key.
	SignalTakeOver = string(verdict.SignalTakeOver)
	// SignalPause and SignalUnpause are when it began to count that a hold stops the wall clock, and that it does not any
	// more. A layer has those of its run.
	SignalPause   = string(verdict.SignalPause)
	SignalUnpause = string(verdict.SignalUnpause)
	// SignalRung is where a ladder stood when the run was attached.
	SignalRung = string(verdict.SignalRung)
	// SignalAdmit, SignalSettle and SignalVoid are a call that was admitted, settled and voided, see [Watchdog.Admit].
	// Calls that are made at once may be traced in another order than they were counted.
	SignalAdmit  = string(verdict.SignalAdmit)
	SignalSettle = string(verdict.SignalSettle)
	SignalVoid   = string(verdict.SignalVoid)
	// SignalSpent is how far a counted limit was used when the run was attached, or by others since.
	SignalSpent = string(verdict.SignalSpent)
)

// A Signal is one thing that the decision heeds, as [Config].OnSignal gets it and package replay takes it. Its JSON
// form is the line of a recorded trace; durations are nanoseconds.
type Signal struct {
	Kind string `json:"kind"`
	// Run is the ID of the run whose signal it is.
	Run string `json:"run,omitempty"`
	// At is when it came: what had elapsed of the window.
	At time.Duration `json:"at"`
	// Key is that of a hold, Length its cap, or that of an extension; a cap of [NoLimit] is none. Serial tells the holds
	// of layers, which may be open under one key, apart; it is 0 for a hold of the run itself. Of an attach, Length is
	// how much the window was extended before, and Warned how many warnings it had.
	Key    string        `json:"key,omitempty"`
	Serial int           `json:"serial,omitempty"`
	Length time.Duration `json:"length,omitempty"`
	Warned int           `json:"warned,omitempty"`
	// Wrapped tells of an attach that the host was asked to wrap up before.
	Wrapped bool `json:"wrapped,omitempty"`
	// From is since when, or until when, a pause counts, or when a hold was opened that is found open. Key names the
	// pause.
	From time.Duration `json:"from,omitempty"`
	// Rung is where the ladder of the limit Key, or of the hold, stood.
	Rung int `json:"rung,omitempty"`
	// Idle is that of a hold's [HoldLimit], left out where that has no limit.
	Idle time.Duration `json:"idle,omitempty"`
	// Busy tells of an activity that it is what [Config].Busy said, before the trip on the rung Rung of a silence since
	// From.
	Busy bool `json:"busy,omitempty"`
	// Amount is what a call was admitted or settled with; its signals have one Serial. NotMade tells that it was refused.
	Amount  *Amount `json:"amount,omitempty"`
	NotMade bool    `json:"not_made,omitempty"`
	// Usage names a counted limit and says how far it is used. More is what it was given, in an extension or, of
	// SignalSpent, before.
	Usage *Usage `json:"usage,omitempty"`
	More  int64  `json:"more,omitempty"`
}
