// Package seam is how the packages beside the root reach what they need of a run and a host need not see: its clock,
// its log, how long the work in it may last. The root registers itself here when it is initialized, so that it exports
// none of this, and the packages import the root so that it has.
package seam

import (
	"context"
	"log/slog"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A Run is what a package beside the root needs of the run that a context belongs to.
type Run interface {
	// ID names the run, LastNote is what it noted last.
	ID() string
	LastNote() string
	// Clock is the host's, nil for the machine's.
	Clock() clock.Clock
	// Logger is never nil.
	Logger() *slog.Logger
	// Disabled reports that nothing guards the run.
	Disabled() bool
	// Left is how long the work inside the run may last, 0 for none. It is no limit for a run that ends nothing: one that
	// is only observed, or that has ended and whose context was detached for cleaning up.
	Left() time.Duration
	// Silence is the shortest time that the run, or one around it, may give no sign of life; watchdog.NoLimit for none.
	Silence() time.Duration
	// Ended reports whether the run is over.
	Ended() bool
	// RecordOverrun puts a call in the run on record. It never waits for the store.
	RecordOverrun(call Overrun)
}

// An Overrun is what a run records of a call that took longer than it may, or was abandoned.
type Overrun struct {
	Key, Layer, Note string
	Limit, Elapsed   time.Duration
	Abandoned        bool
	LimitedBy        string // the run whose remaining time was the limit
}

// A Root is what the root registers.
type Root struct {
	// Run returns the innermost run of a context, nil where there is none.
	Run func(ctx context.Context) Run
	// Limits are a budget of the root's as the decision takes it, or why it cannot be kept.
	Limits func(budget any) (verdict.Limits, error)
	// Begin guards a run of the root's in a window that begins now and shares nothing with any other. It takes a Run and
	// a Config of the root's and returns its *Watchdog.
	Begin func(ctx context.Context, run, cfg any) (any, error)
}

// root is written once, before main.
var root Root

// Register is called by an init function of the root.
func Register(r Root) { root = r }

// Of returns the innermost run that the context belongs to, nil where there is none.
func Of(ctx context.Context) Run { return root.Run(ctx) }

// Begin guards a run in a window of its own, of which nothing was read.
func Begin[W any](ctx context.Context, run, cfg any) (w W, err error) {
	made, err := root.Begin(ctx, run, cfg)
	if err != nil {
		return w, err
	}
	return made.(W), nil
}

// Limits returns a budget's limits as the decision takes them.
func Limits(budget any) (verdict.Limits, error) { return root.Limits(budget) }
