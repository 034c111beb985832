package otelwatchdog

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/metric"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/sweep"
)

// durations are the bounds of the pass histogram in milliseconds.
var durations = []float64{1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000}

// passes measures the sweepers.
type passes struct {
	checks   metric.Int64Counter
	duration metric.Float64Histogram
	behind   metric.Int64Gauge
	hostLost metric.Int64Counter
	// tallies are the counters of the outcome of passes.
	tallies [len(tallies)]metric.Int64Counter
}

// tallies lists the counts of a pass.
var tallies = [...]struct {
	name, unit, description string
	of                      func(sweep.Tally) int
}{
	{"watchdog.sessions.checked", "{session}", "Sessions that were judged.", func(t sweep.Tally) int { return t.Checked }},
	{"watchdog.sessions.found", "{session}", "Judged sessions that are stalled.",
		func(t sweep.Tally) int { return t.Found }},
	{"watchdog.sessions.canceled", "{session}", "Stalled sessions that were cancelled.",
		func(t sweep.Tally) int { return t.Cancelled }},
	{"watchdog.sessions.spared", "{session}", "Stalled sessions that woke up or ended before their cancel.",
		func(t sweep.Tally) int { return t.Spared }},
	{"watchdog.sessions.failed", "{session}", "Stalled sessions that could not be warned or cancelled.",
		func(t sweep.Tally) int { return t.Failed }},
	{"watchdog.sessions.warned", "{session}", "Stalled sessions that were warned first.",
		func(t sweep.Tally) int { return t.Warned }},
	{"watchdog.sessions.resumed", "{session}", "Starts of cancelled sessions that succeeded.",
		func(t sweep.Tally) int { return t.Resumed }},
	{"watchdog.sessions.end_stored", "{session}", "Sessions that had ended before, which only their rows did not say.",
		func(t sweep.Tally) int { return t.EndStored }},
	{"watchdog.leases.expired", "{lease}", "Processes that were found dead or cut off.",
		func(t sweep.Tally) int { return t.LeasesExpired }},
	{"watchdog.errors.total", "{error}", "Errors in passes.", func(t sweep.Tally) int { return t.Errors }},
}

// Pass measures a pass of a sweeper: use it as [sweep.Config].OnPass. The counts of several sweepers are added.
func (i *Instrument) Pass(p sweep.Pass) {
	ctx := context.Background()
	i.passes.checks.Add(ctx, 1)
	for n, tally := range tallies {
		i.passes.tallies[n].Add(ctx, int64(tally.of(p.Tally)))
	}
	i.passes.hostLost.Add(ctx, hostsLost(p.Cases))
	i.passes.duration.Record(ctx, milliseconds(p.Duration))
	if p.Err == nil { // else it may not have seen the leases
		i.passes.behind.Record(ctx, int64(p.Behind))
	}
}

// hostsLost counts the cases that were cancelled because their process died.
func hostsLost(cases []sweep.Case) (n int64) {
	for _, c := range cases {
		if c.Handling == sweep.CaseCancelled && c.Reason() == watchdog.SessionHostLost {
			n++
		}
	}
	return n
}

func newPasses(meter metric.Meter) (p passes, err error) {
	var errs [len(tallies) + 4]error
	for n, tally := range tallies {
		p.tallies[n], errs[n] = meter.Int64Counter(tally.name,
			metric.WithUnit(tally.unit), metric.WithDescription(tally.description))
	}
	p.checks, errs[len(tallies)] = meter.Int64Counter("watchdog.checks.total",
		metric.WithUnit("{pass}"), metric.WithDescription("Passes of the sweepers."))
	p.duration, errs[len(tallies)+1] = meter.Float64Histogram("watchdog.duration.ms",
		metric.WithUnit("ms"), metric.WithDescription("How long a pass took."),
		metric.WithExplicitBucketBoundaries(durations...))
	p.behind, errs[len(tallies)+2] = meter.Int64Gauge("watchdog.sessions.behind", metric.WithUnit("{session}"),
		metric.WithDescription("Sessions whose run woke up, and whose row its process cannot write."))
	p.hostLost, errs[len(tallies)+3] = meter.Int64Counter("watchdog.sessions.host_lost", metric.WithUnit("{session}"),
		metric.WithDescription("Cancelled sessions whose process was found dead or cut off."))
	return p, errors.Join(errs[:]...)
}
