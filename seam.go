package watchdog

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/seed62658d38/watchdog/internal/seam"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// The packages beside the root reach what they need of a run through here, so that it need not be exported.
func init() {
	seam.Register(seam.Root{Run: seamRunOf, Limits: seamLimits, Begin: seamBegin})
}

// A seamRun is a run as the packages beside the root see it.
type seamRun struct{ w *Watchdog }

func seamRunOf(ctx context.Context) seam.Run {
	if w := FromContext(ctx); w != nil {
		return seamRun{w}
	}
	return nil
}

func (r seamRun) ID() string           { return r.w.id }
func (r seamRun) LastNote() string     { return r.w.LastNote() }
func (r seamRun) Clock() clock.Clock   { return r.w.clock.other }
func (r seamRun) Logger() *slog.Logger { return r.w.log() }
func (r seamRun) Disabled() bool       { return r.w.disabled }

// Left is how long the work inside the run may last.
func (r seamRun) Left() time.Duration {
	if r.w.observeOnly || r.w.inner.Err() != nil {
		return NoLimit
	}
	return r.w.Remaining()
}

// Silence is the shortest time that the run, or one around it, may give no sign of life.
func (r seamRun) Silence() time.Duration {
	shortest := time.Duration(NoLimit)
	for w := r.w; w != nil; w = w.outer {
		if w.disabled {
			continue
		}
		shortest = min(shortest, w.limits.Idle)
		if w.limits.FromFirstSign {
			shortest = min(shortest, w.limits.FirstSign)
		}
	}
	return shortest
}

// Ended looks at the parent, too.
func (r seamRun) Ended() bool { return r.w.Context().Err() != nil }

func (r seamRun) RecordOverrun(call seam.Overrun) { r.w.recordOverrun(call) }

func (r seamRun) RecordFinished() (corrected bool) { return r.w.recordFinished() }

func seamBegin(ctx context.Context, run, cfg any) (any, error) {
	c := cfg.(Config)
	return begin(ctx, run.(Run), &c, nil)
}

func seamLimits(budget any) (verdict.Limits, error) {
	b, ok := budget.(Budget)
	if !ok {
		return verdict.Limits{}, fmt.Errorf("%w budget: it is a %T", ErrInvalid, budget)
	}
	if err := b.Validate(); err != nil {
		return verdict.Limits{}, err
	}
	return b.limits(), nil
}
