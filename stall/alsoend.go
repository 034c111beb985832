package stall

import (
	"context"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/internal/proctree"
)

// Why an AlsoEnd failed.
const (
	failedToStart = "start"
	failedInTime  = "timeout"
	failedAtExit  = "exit"
)

// alsoEnd ends what the command has running elsewhere, unless the command exited by itself.
func (s *sentinel) alsoEnd(ctx context.Context) {
	if s.cfg.AlsoEnd == nil || s.result.Finished {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.AlsoEnd.Timeout)
	defer cancel()
	began := time.Now()
	ended := &AlsoEnded{ExitCode: -1}
	tree, err := s.companion.start(ctx, s.cfg.AlsoEnd.Command, nil)
	switch {
	case err == nil:
		timedOut := endWhole(ctx, tree)
		ended.exited(tree, timedOut)
		survivors, _ := tree.Survivors()
		s.result.Survivors = append(s.result.Survivors, survivors...)
	case ctx.Err() != nil:
		ended.fail(failedInTime, "it took too long to start")
	default:
		ended.fail(failedToStart, fmt.Sprintf("it cannot be started: %v", err))
	}
	ended.Elapsed = time.Since(began)
	s.result.AlsoEnded = ended
}

func (a *AlsoEnded) exited(tree *proctree.Tree, timedOut bool) {
	status := tree.Status()
	switch {
	case timedOut:
		a.fail(failedInTime, "it took too long")
		return
	case tree.Err() != nil:
		a.fail(failedAtExit, tree.Err().Error())
	case status.Signal != 0:
		a.fail(failedAtExit, "a signal ended it: "+status.Signal.String())
	case status.ExitCode != 0:
		a.fail(failedAtExit, fmt.Sprintf("its exit status is %d", status.ExitCode))
	}
	a.ExitCode = status.ExitCode
}

func (a *AlsoEnded) fail(why, text string) {
	a.Failed, a.Err = why, fmt.Errorf("%w: AlsoEnd failed: %s; end it by hand", ErrAlsoEnd, text)
}
