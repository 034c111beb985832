package machine

import (
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/ledger"
	"github.com/seed62658d38/watchdog/internal/ordered"
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
	Pending Pending

	tree  *Tree
	outer *Node // the run around a layer
	kin   kin
	began time.Duration // when its window did, in the tree's time
	due   ordered.Due[*Node]
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
	Records     bool // the end of the parent
}

// kin are the layers of a run, and its place among those of the run around it.
type kin struct{ layers, next, before *Node }

// more is what few runs have.
type more struct {
	given   standing
	left    []*left
	command *record.CommandEnd
}

func (m *more) rungOf(on fold.Key) int {
	if m == nil {
		return 0
	}
	return m.given.rungOf(on)
}

// extras are made at the first need.
func (n *Node) extras() *more {
	if n.more == nil {
		n.more = &more{}
	}
	return n.more
}

// EndCommand notes how the run's command ended, for when the run is complete.
func (n *Node) EndCommand(end *record.CommandEnd) { n.extras().command = end }

// Command is how its command ended, nil if its host did not say that.
func (n *Node) Command() *record.CommandEnd {
	if n.more == nil {
		return nil
	}
	return n.more.command
}

// Phase is where the run stands.
func (n *Node) Phase() Phase { return n.phase }

// Seen is what is known of the run. It is read only.
func (n *Node) Seen() *verdict.Snapshot { return &n.seen }

// now is what has elapsed of the window at the instant of the step.
func (n *Node) now() time.Duration { return n.At(n.tree.Room.now.At) }

// At is what has elapsed of the window at an instant of the tree.
func (n *Node) At(at time.Duration) time.Duration { return at - n.began }

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

// Moment is the run now, for an event.
func (n *Node) Moment(now Now) Moment {
	n.Draw()
	at := n.At(now.At)
	return Moment{
		Name: &n.Name, At: now.Wall, Worked: at - verdict.Paused(n.seen, at),
		Budget: verdict.Sum(n.Limits.WallClock, n.seen.Extended),
	}
}

// Count has the decision heed what is counted in the account.
func (n *Node) Count(a *ledger.Account) { n.Account, n.seen.Spend = a, a.Spend }

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
		pulse := &Pulse{}
		pulse.awaitReset(n.more != nil && len(n.more.given) > 0)
		n.Pulse.Store(pulse)
	}
}

// Silence is how long the run has given no sign of life, and whether it has given one since its attach.
func (n *Node) Silence(now Now) (silence time.Duration, signalled bool) {
	if n.Pulse.Load() == nil {
		return 0, false
	}
	n.takePulse(&now)
	return verdict.Silence(n.seen, n.At(now.At)), verdict.Signalled(n.seen)
}

// IdleNow is how long a command in flight may be silent now, and whether open holds say so.
func (n *Node) IdleNow(now Now) (allowed time.Duration, held bool) {
	n.takePulse(&now)
	return verdict.IdleNow(n.Limits, &n.seen)
}

func (n *Node) takePulse(now *Now) {
	pulse := n.Pulse.Load()
	if pulse != nil && now.Machine {
		pulse.into(n.seen.Signs, now.At-now.Offset, now.Offset-n.began)
	}
}

// take applies a signal to the decision.
func (n *Node) take(s verdict.Signal) {
	s.At = n.now()
	if s.Kind != verdict.SignalExtend && s.Kind != verdict.SignalAttached {
		n.signs()
	}
	n.seen.Take(n.Limits, s)
	if s.Kind == verdict.SignalUnpause {
		n.tree.emit(Effect{Kind: Unpaused, Node: n})
	}
}

// sign is a sign of life of this run alone. It sets the timer if that waits for it.
func (n *Node) sign(progress bool) {
	pulse := n.Pulse.Load()
	if pulse == nil || n.phase == Over { // one that is being recorded may be taken back
		return
	}
	first, kind := !n.signs().Signalled, verdict.SignalActivity
	if progress {
		kind = verdict.SignalProgress
	}
	n.take(verdict.Signal{Kind: kind})
	if pulse.awaited.came(progress) || first && n.Limits.FromFirstSign {
		n.rest(n.now())
	}
}

// A Name tells a run and its window from all others. StartedAt is the window's start.
type Name struct {
	Run, Parent string
	StartedAt   time.Time
	// Begins says that the window begins with its watchdog and is told apart by a name, which is drawn when it is needed
	// first: most layers end without an event.
	Begins bool
	fresh  string
}

// Draw draws the name of a fresh window. The name does not change then, and can be read without the tree.
func (n *Name) Draw() {
	if n.Begins && n.fresh == "" {
		n.fresh = record.NewWindow()
	}
}

// Window is what tells the windows of the run's events apart.
func (n *Name) Window() fold.WindowID { return fold.WindowID{Parent: n.Parent, Fresh: n.fresh} }

// windowName is the name of a window, from which the IDs of its events are derived: one that was drawn, or its start.
func windowName(fresh string, startedAt time.Time) string {
	if fresh != "" {
		return fresh
	}
	return event.Stamp(startedAt).String()
}

// Once are the IDs of the end of the window that began then, and of the resume that opens the next.
func (n *Name) Once(startedAt time.Time) []string {
	window := windowName(n.fresh, startedAt)
	return []string{
		record.EventID(n.Run, window, event.Cancel, record.Once),
		record.EventID(n.Run, window, event.Resume, record.Once),
	}
}

// Event returns the event of one kind about the run. Events of the same name, window and run have the same ID,
// whichever process makes them; an empty name makes an event of its own.
func (n *Name) Event(kind string, at time.Time, name string, payload any) event.Event {
	return event.Event{
		ID: record.EventID(n.Run, windowName(n.fresh, n.StartedAt), kind, name), AggregateType: event.AggregateType,
		AggregateID: n.Run, Type: kind, Payload: record.JSON(payload), Timestamp: event.Truncate(at),
	}
}
