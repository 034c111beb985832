package stall

import (
	"context"
	"os"
	"os/exec"
	"time"

	"github.com/seed62658d38/watchdog/internal/proctree"
	"github.com/seed62658d38/watchdog/internal/relay"
	"github.com/seed62658d38/watchdog/stall/internal/probe"
)

// A prober runs the probes of one command, one at a time. Each probe is a process tree of its own, and no process of it
// outlives it.
type prober struct {
	cfg     *Probe
	env     []string
	dir     string
	began   time.Time
	results chan probeResult
}

// A probeResult is what one probe reported.
type probeResult struct {
	probe.Observation
	blind  probe.Blind
	output []byte
	began  time.Duration
	took   time.Duration
	exit   *int
}

// run runs a probe at every interval until ctx ends. It starts the next probe only after the result of the previous one
// was received.
func (p *prober) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		started := time.Now()
		result := p.probe(ctx)
		if ctx.Err() != nil {
			return
		}
		select {
		case p.results <- result:
		case <-ctx.Done():
			return
		}
		timer.Reset(max(p.cfg.Interval-time.Since(started), 0))
	}
}

// probe runs one probe.
func (p *prober) probe(ctx context.Context) probeResult {
	started := time.Now()
	outcome := p.outcome(ctx)
	r := probeResult{began: started.Sub(p.began), took: time.Since(started), output: outcome.Output}
	r.Observation, r.blind, _ = probe.Read(outcome, p.cfg.AnyExit)
	if outcome.StartErr == nil && !outcome.TimedOut {
		r.exit = &outcome.ExitStatus
	}
	return r
}

func (p *prober) outcome(ctx context.Context) probe.Outcome {
	var captured probe.Capture
	output, err := relay.Open(relay.Config{To: &captured})
	if err != nil {
		return probe.Outcome{StartErr: err}
	}
	tree, err := p.start(ctx, output.Child())
	output.Start()
	if err != nil {
		_ = output.Finish(0)
		return probe.Outcome{StartErr: err}
	}
	timedOut := p.await(ctx, tree)
	_ = tree.Kill()
	awaitGone(tree, killBound)
	_ = output.Finish(drainBound)
	return probe.Outcome{TimedOut: timedOut, ExitStatus: tree.Status().ExitCode, Output: captured.Bytes()}
}

func (p *prober) start(ctx context.Context, output *os.File) (*proctree.Tree, error) {
	cmd := exec.Command(p.cfg.Command[0], p.cfg.Command[1:]...) //nolint:noctx // package exec does not start it
	cmd.Env, cmd.Dir = p.env, p.dir
	if cmd.Err != nil {
		return nil, cmd.Err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close() //nolint:errcheck // nothing was written
	starting, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	return proctree.StartContext(starting, proctree.Command{
		Path: cmd.Path, Args: cmd.Args, Env: cmd.Environ(), Dir: cmd.Dir, Files: []*os.File{null, output, null},
	})
}

// await waits until the probe exits. It reports true if the timeout or ctx ended first.
func (p *prober) await(ctx context.Context, tree *proctree.Tree) (timedOut bool) {
	timer := time.NewTimer(p.cfg.Timeout)
	defer timer.Stop()
	select {
	case <-tree.Exited():
		return false
	case <-timer.C:
		return true
	case <-ctx.Done():
		return true
	}
}
