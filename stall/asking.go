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

// A prober runs the probes of one command, one at a time, each as a process tree of its own that is ended whole.
type prober struct {
	cfg   *Probe
	env   []string
	dir   string
	began time.Time
	seen  chan observed
}

// run asks at every interval until the context ends. The next probe is not begun before the one before it was taken.
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
		o := p.ask(ctx)
		if ctx.Err() != nil {
			return
		}
		select {
		case p.seen <- o:
		case <-ctx.Done():
			return
		}
		timer.Reset(max(p.cfg.Interval-time.Since(started), 0))
	}
}

// ask runs one probe.
func (p *prober) ask(ctx context.Context) observed {
	started := time.Now()
	outcome := p.outcome(ctx)
	o := observed{began: started.Sub(p.began), took: time.Since(started)}
	o.Observation, o.blind, _ = probe.Read(outcome, p.cfg.AnyExit)
	if outcome.StartErr == nil && !outcome.TimedOut {
		o.exit = &outcome.ExitStatus
	}
	return o
}

func (p *prober) outcome(ctx context.Context) probe.Outcome {
	var captured probe.Capture
	output, err := relay.Open(relay.Config{To: &captured})
	if err != nil {
		return probe.Outcome{StartErr: err}
	}
	tree, err := p.start(output.Child())
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

func (p *prober) start(output *os.File) (*proctree.Tree, error) {
	cmd := exec.Command(p.cfg.Command[0], p.cfg.Command[1:]...) //nolint:noctx // it is not started by package exec
	cmd.Env, cmd.Dir = p.env, p.dir
	if cmd.Err != nil {
		return nil, cmd.Err
	}
	nothing, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer nothing.Close() //nolint:errcheck // nothing was written
	return proctree.Start(proctree.Command{Path: cmd.Path, Args: cmd.Args, Env: cmd.Environ(), Dir: cmd.Dir, Files: []*os.File{nothing, output, nothing}})
}

// await waits for the probe's end, and reports that it had to be ended at its timeout.
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
