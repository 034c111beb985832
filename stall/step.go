package stall

import (
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/proctree"
	"github.com/seed62658d38/watchdog/internal/signame"
)

// The times after the first two signals, where [Config].Grace is empty.
const (
	DefaultInterruptGrace = 10 * time.Second
	DefaultTerminateGrace = 20 * time.Second
)

// maxSteps is how many steps a [Config].Grace may have.
const maxSteps = 10

// A Step is a signal on the way to the end of a command, and how long the command has after it.
type Step struct {
	Signal syscall.Signal
	// Grace is how long to wait for the end of all processes before the next step. Zero means not at all.
	Grace time.Duration
}

// checkSteps returns an error for steps that cannot be taken.
func checkSteps(steps []Step) error {
	if len(steps) > maxSteps {
		return invalid("Grace has %d steps; use at most %d", len(steps), maxSteps)
	}
	for i, step := range steps {
		name, problem := signame.Name(step.Signal), signame.Unfit(step.Signal)
		switch last := i == len(steps)-1; {
		case step.Signal == 0:
			return invalid("step %d of Grace has no signal; set Signal, such as to syscall.SIGTERM", i+1)
		case problem != "":
			return invalid("step %d of Grace is %s, which %s; use another signal, such as syscall.SIGTERM", i+1, name, problem)
		case step.Grace < 0:
			return invalid("step %d of Grace waits %v after %s; use a positive duration, or 0 for none", i+1, step.Grace, name)
		case step.Signal == syscall.SIGKILL && !last:
			return invalid("step %d of Grace is SIGKILL, after which nothing comes; make it the last one", i+1)
		}
	}
	return nil
}

// steps returns what an action does to a process tree. SIGKILL comes last.
func (c *Config) steps(a TripAction) []Step {
	kill := Step{Signal: syscall.SIGKILL}
	switch n := len(c.Grace); {
	case a == ActionIgnore:
		return nil
	case a == ActionFail:
		return []Step{kill}
	case c.Grace[n-1].Signal == syscall.SIGKILL:
		return append(slices.Clone(c.Grace[:n-1]), kill)
	default:
		return append(slices.Clone(c.Grace), kill)
	}
}

// An Escalation is how far the end of a command is: the signal that was sent last, and the one that follows at NextAt
// if a process is alive then. After SIGKILL there is none: Next is 0.
type Escalation struct {
	Sent
	Next   syscall.Signal
	NextAt time.Time
}

// awaitGone waits until the signal has ended the tree, and reports whether it has.
func (e Escalation) awaitGone(t *proctree.Tree) bool {
	if e.Next == 0 {
		return awaitKilled(t)
	}
	return awaitGone(t, time.Until(e.NextAt))
}

// tellEscalation returns a channel with room for all that the host is to be told: it is called on another goroutine,
// and one that hangs is told nothing more.
func (c *Config) tellEscalation(most int) chan<- Escalation {
	told := make(chan Escalation, most)
	if c.OnSignal == nil {
		return told
	}
	go func() {
		for e := range told {
			call := func() (struct{}, error) { c.OnSignal(e); return struct{}{}, nil }
			if _, err := inTime(c.RecordTimeout, call); errors.Is(err, bounded.ErrLeftBehind) {
				return
			}
		}
	}()
	return told
}
