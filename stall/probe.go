package stall

import (
	"context"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/relay"
	"github.com/seed62658d38/watchdog/internal/verdict"
	"github.com/seed62658d38/watchdog/stall/internal/probe"
)

// A prober runs the probes of one command, one at a time.
type prober struct {
	companion
	cfg     *Probe
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
	for started, wait := time.Now(), time.Duration(0); ; wait = p.cfg.Interval {
		due, cancel := patiently(ctx, started, wait)
		<-due.Done()
		cancel()
		if ctx.Err() != nil {
			return
		}
		started = time.Now()
		result := p.probe(ctx)
		if ctx.Err() != nil {
			return
		}
		select {
		case p.results <- result:
		case <-ctx.Done():
			return
		}
	}
}

// patiently returns a context that ends so long after a time. If this process did not run by then, it ends a grace
// later: a probe has that to answer, and the command to get on before the next one.
func patiently(ctx context.Context, began time.Time, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	var (
		grace  verdict.Grace
		timer  *time.Timer
		setFor = limit
	)
	timer = time.AfterFunc(watchdog.NoLimit, func() {
		at := time.Since(began)
		grace.Rang(setFor, at, limit, 0)
		if setFor = grace.Expires(0, setFor); at >= setFor {
			cancel()
			return
		}
		timer.Reset(setFor - at)
	})
	timer.Reset(limit - time.Since(began))
	return ctx, func() { timer.Stop(); cancel() }
}

func (p *prober) probe(ctx context.Context) probeResult {
	started := time.Now()
	outcome := p.outcome(ctx)
	r := probeResult{began: started.Sub(p.began), took: time.Since(started), output: outcome.Output}
	r.Observation, r.blind = probe.Read(outcome, p.cfg.AnyExit)
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
	ctx, cancel := patiently(ctx, time.Now(), p.cfg.Timeout)
	defer cancel()
	tree, err := p.start(ctx, p.cfg.Command, output.Child())
	output.Start()
	if err != nil {
		_ = output.Finish(0)
		return probe.Outcome{StartErr: err}
	}
	timedOut := endWhole(ctx, tree)
	_ = output.Finish(fillBound) // only a machine without time for it takes long
	return probe.Outcome{TimedOut: timedOut, ExitStatus: tree.Status().ExitCode, Output: captured.Bytes()}
}

// volatileAfter is how many results in a row have to differ in exactly the same fields.
const volatileAfter = 5

// A volatility finds fields of a probe's results that differ every time, such as the time of the result. Because of
// them no two results are equal, and a stall is never seen. It only notices: a counter that grows is progress.
type volatility struct {
	last   []byte
	fields []string
	times  int
	said   bool
}

// observe adds the output of a probe that saw something. It returns the fields once, when they have differed often
// enough.
func (v *volatility) observe(output []byte) []string {
	if v.said {
		return nil
	}
	var fields []string
	if v.last != nil {
		fields = probe.Differ(v.last, output)
	}
	v.last = output
	switch {
	case len(fields) == 0:
		v.times = 0
	case slices.Equal(fields, v.fields):
		v.times++
	default:
		v.times = 1
	}
	v.fields = fields
	if v.times < volatileAfter {
		return nil
	}
	v.said = true
	return fields
}
