package machine

import (
	"time"

	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/ledger"
	"github.com/seed62658d38/watchdog/internal/pending"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A Node is one run of a tree: the session, or a layer. All but its Port is guarded by whoever drives the tree.
type Node struct {
	Port
	Name
	Rules
	// Number is for the driver, which tells its runs by it.
	Number int
	// Account is what the run has used, nil while nothing is counted.
	Account *ledger.Account
	// Pending is what the store does not have yet.
	Pending pending.Queue[*Entry]

	tree  *Tree
	outer *Node // the run around a layer
	kin   kin
	began time.Duration // when its window did, in the tree's time
	due   due
	seen  verdict.Snapshot
	phase Phase
	trip  *Trip // while recording
	more  *more // nil if there is nothing in it
}

// Rules are how a run is judged. They do not change.
type Rules struct {
	Limits      *verdict.Limits
	ObserveOnly bool
	Disabled    bool
	AsksBusy    bool // the host is asked before a trip of Idle
	Records     bool // the end of the parent
}

// kin are the layers of a run, and its place among those of the run around it.
type kin struct{ layers, next, before *Node }

// more is what few runs have.
type more struct {
	given   []given      // the directives that still stand on a ladder
	left    []fold.Pause // those of layers of a process that is gone
	busy    busyness
	command record.CommandEnd // that its host said
	around  []int64           // what others have used of counted limits, as it was traced
}

// more is made at the first need.
func (n *Node) extras() *more {
	if n.more == nil {
		n.more = &more{}
	}
	return n.more
}

// Phase is where the run stands.
func (n *Node) Phase() Phase { return n.phase }

// Trip is the run's end that is being recorded, nil if there is none.
func (n *Node) Trip() *Trip { return n.trip }

// Seen is what is known of the run. It is read only.
func (n *Node) Seen() *verdict.Snapshot { return &n.seen }

// now is what has elapsed of the window at the instant of the step.
func (n *Node) now() time.Duration { return n.At(n.tree.now.At) }

// At is what has elapsed of the window at an instant of the tree.
func (n *Node) At(at time.Duration) time.Duration { return at - n.began }

// Worked is what the wall clock shows at an instant of the window: the real time without the pauses.
func (n *Node) Worked(at time.Duration) time.Duration { return at - verdict.Paused(n.seen, at) }

// Remaining is how long the run may still work at an instant of the window.
func (n *Node) Remaining(at time.Duration) time.Duration {
	switch {
	case n.phase != Running:
		return 0
	case n.Disabled:
		return verdict.Never
	}
	return verdict.Remaining(*n.Limits, n.seen, at)
}

// Left is what is left of the wall clock, with the reserve.
func (n *Node) Left(at time.Duration) time.Duration { return verdict.Left(*n.Limits, n.seen, at) }

// Budget is the length of the wall clock, with its extensions.
func (n *Node) Budget() time.Duration { return verdict.Sum(n.Limits.WallClock, n.seen.Extended) }

// Count has the decision heed what is counted in the account.
func (n *Node) Count(a *ledger.Account) { n.Account, n.seen.Spend = a, a.Spend }

// Command has the run say how its command ended when it is complete.
func (n *Node) Command(end record.CommandEnd) { n.extras().command = end }

// CommandEnd is what Command said.
func (n *Node) CommandEnd() record.CommandEnd {
	if n.more == nil {
		return record.CommandEnd{}
	}
	return n.more.command
}

// signs are the run's signs, made at the first need.
func (n *Node) signs() *verdict.Signs {
	if n.seen.Signs == nil {
		n.seen.Signs = &verdict.Signs{}
	}
	return n.seen.Signs
}

// Heed makes signals count from now on, if they did not: at the attach, or at the first hold that limits the silence.
func (n *Node) Heed() {
	if n.Pulse.Load() == nil {
		n.signs()
		n.Pulse.Store(&Pulse{})
		n.awaitProgress()
	}
}

// Silence is how long the run has given no sign of life, and whether it has given one since its attach.
func (n *Node) Silence(now Now) (silence time.Duration, signalled bool) {
	if n.Pulse.Load() == nil {
		return 0, false
	}
	n.tree.now = now
	n.takePulse()
	return verdict.Silence(n.seen, n.now()), verdict.Signalled(n.seen)
}

// takePulse brings the signs of life into the decision. What the machine slept does not count as silence: it is taken
// to lie before them.
func (n *Node) takePulse() {
	pulse, now := n.Pulse.Load(), &n.tree.now
	if pulse == nil || !now.Machine {
		return
	}
	since, offset := now.At-now.Offset, now.Offset-n.began
	if at, ever := pulse.first.Last(since); ever && !n.seen.Signs.Signalled {
		n.seen.Signs.Signal(false, at+offset)
	}
	if at, ever := pulse.activity.Last(since); ever {
		n.seen.Signs.Signal(false, at+offset)
	}
	if at, ever := pulse.progress.Last(since); ever {
		n.seen.Signs.Signal(true, at+offset)
	}
}

// take applies a signal to the decision, and traces it; what comes while a stop is recorded is traced if that is taken
// back.
func (n *Node) take(s Signal) {
	s.At = n.now()
	n.signs()
	n.seen.Take(n.Limits, s.Signal)
	if s.Kind == verdict.SignalUnpause {
		n.tree.emit(Effect{Kind: Unpaused, Node: n})
	}
	n.trace(s)
}

// trace has the host told of a signal, if it keeps a trace.
func (n *Node) trace(s Signal) {
	switch {
	case !n.tree.Traced:
	case n.trip != nil:
		n.trip.meanwhile = append(n.trip.meanwhile, s)
	default:
		kept := s // the others stay off the heap
		n.tree.emit(Effect{Kind: Traced, Node: n, Signal: &kept})
	}
}

// A Signal is one thing that the decision heeds.
type Signal struct {
	verdict.Signal
	Busy  bool          // it is what the host's Busy said
	Spend *record.Spend // the counted limit that it is about
	// Currency is that of a call's cost, as the host named it.
	Currency string
}

func signal(s verdict.Signal) Signal { return Signal{Signal: s} }
