// Package inside is what the packages beside the root see of a run, and do with it, by the handle that its context
// carries. It is all that the oracle knows of internal packages: where those change, only this file has to.
package inside

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/record"
)

// SetSpread has random lengths be what a function of their most says.
func SetSpread(spread func(most time.Duration) time.Duration) { clocks.Spread = spread }

// Text is what there is to see of the innermost run of the context.
func Text(ctx context.Context) string {
	run := handle.Of(ctx)
	if run == nil {
		return "no run"
	}
	s := run.State()
	command := s.Command
	s.Loop, s.Command = nil, record.CommandEnd{}
	status := -1
	if command.ExitStatus != nil {
		status = int(*command.ExitStatus)
	}
	silence, signalled := run.Silence()
	paused, longer := run.Paused(nil)
	complete, resumed := run.InDoubt()
	return fmt.Sprintf("state %+v command %q %d %q spend %+v", s, command.Outcome, status, command.Signal, run.Spend()) +
		fmt.Sprintf(" silent %v %v of %v paused %v for %v", silence, signalled, run.MaxSilence(), paused, longer) +
		fmt.Sprintf(" asked %v recorded %v in doubt %v %v", run.Asked(), run.Recorded(false), complete, resumed)
}

// ErrLeft is a cause that Act ends a run with.
var ErrLeft = errors.New("the run is left")

// Acts is how many things Act does.
const Acts = 8

// Act does one thing with the innermost run of the context. Released is told of the end of a pause.
func Act(ctx context.Context, n int, released func()) string {
	run := handle.Of(ctx)
	switch n {
	case 0:
		run.RecordOverrun(record.Overrun{Key: "call", Layer: "soft", LimitSeconds: 60, ElapsedSeconds: 61})
	case 1:
		return fmt.Sprint("finished ", run.RecordFinished())
	case 2:
		status := record.Count(3)
		return errText(run.CompleteCommand(record.CommandEnd{Outcome: record.Failed, ExitStatus: &status}))
	case 3:
		run.End(ErrLeft)
	case 4:
		run.Alive()
	case 5:
		run.AliveAt(time.Now())
	case 6:
		paused, longer := run.Paused(&waiter{released})
		return fmt.Sprintf("paused %v for %v", paused, longer)
	case 7:
		return fmt.Sprint("recorded ", run.Recorded(true))
	}
	return ""
}

// A waiter makes a call when a pause has ended.
type waiter struct{ released func() }

// Released implements [handle.Waiter].
func (w *waiter) Released() { w.released() }

func errText(err error) string {
	if err == nil {
		return "ok"
	}
	return fmt.Sprintf("%q", err.Error())
}
