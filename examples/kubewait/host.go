package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync/atomic"
	"syscall"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/converge"
	"github.com/seed62658d38/watchdog/examples/kubewait/internal/fakeapi"
	"github.com/seed62658d38/watchdog/stall"
)

// runID is the run whose layers are the attempts.
const runID = "kubewait"

// errGivenUp says that the resource did not become ready. The report has said so already.
var errGivenUp = errors.New("given up")

// stages are the instructions for the attempts, in order.
var stages = []converge.Stage{
	{Name: "wait", After: 2, Instructions: "It may be slow. Wait once more."},
	{Name: "look", After: 1, Instructions: "Waiting did not help. Find out who creates it, and whether that runs."},
	{Name: "create", After: 1, Instructions: "Nobody creates it. Create it, and do not wait before you have."},
}

// host starts the API and waits for its resource, until an interrupt.
func host(ctx context.Context, opts options, out io.Writer) (err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	server, err := fakeapi.Start(ctx, fakeapi.Config{
		Kind: opts.resource.kind, Name: opts.resource.name, AppearsAfter: opts.appearsAfter, Pace: opts.interval,
	})
	if err != nil {
		return fmt.Errorf("start the API: %w", err)
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	opts.server = server.URL()
	return attempts(ctx, opts, out)
}

// attempts makes attempts until the resource is ready or the last stage has failed.
func attempts(ctx context.Context, opts options, out io.Writer) error {
	tracker, err := converge.New(converge.Config{Stages: stages})
	if err != nil {
		return err
	}
	r := report{out: out, opts: opts, store: &watchdog.Memory{}}
	r.begin()
	for n := 1; ; n++ {
		a, err := r.attempt(ctx, n)
		switch {
		case err != nil && ctx.Err() != nil:
			return fmt.Errorf("interrupted in attempt %d, and nothing of it is left; to go on, run it again: %w", n, err)
		case err != nil:
			return err
		}
		if a.trip == nil {
			r.ready(a)
			return nil
		}
		decision, err := tracker.Observe(a.trip.Fingerprints)
		if err != nil {
			return fmt.Errorf("attempt %d: %w", n, err)
		}
		if err := r.stalled(ctx, a, decision); err != nil {
			return err
		}
		if decision.Advice == converge.GiveUp || n == opts.attempts {
			r.givenUp(a)
			return errGivenUp
		}
	}
}

// An attempt is the outcome of one attempt. The trip is nil if the wait finished.
type attempt struct {
	n      int
	result *stall.Result
	trip   *stall.Trip
	lines  int64
}

// attempt runs the wait under its probe.
func (r *report) attempt(ctx context.Context, n int) (attempt, error) {
	wait, err := self(waitRole, r.opts, "-interval", r.opts.interval.String())
	if err != nil {
		return attempt{}, err
	}
	probe, err := self(probeRole, r.opts)
	if err != nil {
		return attempt{}, err
	}
	var printed counter
	cmd := exec.Command(wait[0], wait[1:]...) //nolint:noctx // stall.Run takes the context
	cmd.Stdout, cmd.Stderr = &printed, r.out
	result, err := stall.Run(ctx, cmd, stall.Config{
		Step: fmt.Sprintf("attempt-%d", n), Workflow: runID, Iteration: n,
		RunID: runID, Store: r.store,
		Probe: &stall.Probe{
			Command: probe, Interval: r.opts.interval, StallThreshold: r.opts.threshold, Publish: true,
		},
		Artifacts: r.opts.artifacts,
	})
	a := attempt{n: n, result: result, lines: printed.lines.Load()}
	var stalled *stall.Stalled
	switch {
	case errors.As(err, &stalled) && !errors.Is(err, stall.ErrSurvivors):
		a.trip = &stalled.Trip
	case err != nil:
		return attempt{}, err
	}
	return a, nil
}

// A counter counts the lines that are written to it.
type counter struct{ lines atomic.Int64 }

// Write implements [io.Writer]. It never fails.
func (c *counter) Write(p []byte) (int, error) {
	for _, b := range p {
		if b == '\n' {
			c.lines.Add(1)
		}
	}
	return len(p), nil
}
