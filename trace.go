package watchdog

import (
	"maps"
	"slices"
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
	SignalAdmit  = string(verdict.SignalAdmit)
	SignalSettle = string(verdict.SignalSettle)
	SignalVoid   = string(verdict.SignalVoid)
	// SignalSpent is how far a counted limit was used when the run was attached, or by others since.
	SignalSpent = string(verdict.SignalSpent)
	// SignalLoop is a loop that [Watchdog.Step] found and that was a trip, or may have been one.
	SignalLoop = string(verdict.SignalLoop)
	// SignalNotBusy is that [Config].Busy said false, or nothing in time.
	SignalNotBusy = string(verdict.SignalNotBusy)
	// SignalIncomplete is that [Watchdog.Complete], called at From, was not recorded and the run goes on. No limit was
	// looked at meanwhile.
	SignalIncomplete = string(verdict.SignalIncomplete)
)

// TraceVersion is that of the traces that [Config].OnSignal gets, see [Signal]. A trace of before there were versions
// has none; package replay takes both.
const TraceVersion = 2

// A Signal is one thing that the decision heeds, as [Config].OnSignal gets it and package replay takes it. Its JSON
// form is the line of a recorded trace; durations are nanoseconds.
//
// A trace has what a run took, at the instants at which that was decided on: what the host did and said, what the store
// answered, what others used. What was decided of it is not in the trace.
type Signal struct {
	Kind string `json:"kind"`
	// Version is [TraceVersion] in the attach of a run or of a layer, the first signal of its trace, and 0 in others.
	Version int `json:"version,omitempty"`
	// Run is the ID of the run whose signal it is.
	Run string `json:"run,omitempty"`
	// Budget is that of a layer, in its attach. WallClock is what it got of the run around it.
	Budget *Budget `json:"budget,omitempty"`
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
	// From is since when, or until when, a pause counts, when a hold was opened that is found open, or when Complete was
	// called. Key names the pause.
	From time.Duration `json:"from,omitempty"`
	// Rung is where the ladder of the limit Key, or of the hold, stood. Of a loop it is 1 if the loop is another one than
	// the last, and its ladder begins.
	Rung int `json:"rung,omitempty"`
	// Idle is that of a hold's [HoldLimit], left out where that has no limit.
	Idle time.Duration `json:"idle,omitempty"`
	// Busy tells of an activity that it is what [Config].Busy said, before the trip on the rung Rung of a silence since
	// From. SignalNotBusy has these, too. Of an attach it tells that there is a Busy.
	Busy bool `json:"busy,omitempty"`
	// Amount is what a call was admitted or settled with; its signals have one Serial. NotMade tells that it was refused,
	// by the run or by one inside it. Of an extension and a pause it tells that the run's end, which was being recorded,
	// was not made because of them.
	Amount  *Amount `json:"amount,omitempty"`
	NotMade bool    `json:"not_made,omitempty"`
	// Usage names a counted limit and says how far it is used. More is what it was given, in an extension or, of
	// SignalSpent, before. Of a pause or an extension with NotMade it is the limit whose end was not made, one of time in
	// nanoseconds.
	Usage *Usage `json:"usage,omitempty"`
	More  int64  `json:"more,omitempty"`
}

// copied is a copy that the host does not change.
func (b *Budget) copied() *Budget {
	c := *b
	c.WarnAt, c.Spend.WarnAt = slices.Clone(b.WarnAt), slices.Clone(b.Spend.WarnAt)
	c.Spend.Tools = maps.Clone(b.Spend.Tools)
	c.Ladders = b.Ladders.copied()
	return &c
}
