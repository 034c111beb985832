package otelwatchdog

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/bound"
	"github.com/seed62658d38/watchdog/sweep"
)

// latenesses are the bounds of the lateness histogram in milliseconds, from a timer to a process that was down for a
// day.
var latenesses = []float64{
	1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 60_000, 600_000, 3_600_000, 86_400_000,
}

type metrics struct {
	runs     metric.Int64UpDownCounter
	trips    metric.Int64Counter
	lateness metric.Float64Histogram
	// own and layer are the attributes of runs and of layers, made once.
	own, layer []metric.AddOption
}

func newMetrics(meter metric.Meter) (m metrics, err error) {
	var errs [3]error
	m.runs, errs[0] = meter.Int64UpDownCounter("watchdog.runs.live",
		metric.WithUnit("{run}"), metric.WithDescription("Runs that are guarded and have not ended."))
	m.trips, errs[1] = meter.Int64Counter("watchdog.trips.total",
		metric.WithUnit("{trip}"), metric.WithDescription("Trips of limits, and cancels of other guards."))
	m.lateness, errs[2] = meter.Float64Histogram("watchdog.lateness.ms",
		metric.WithUnit("ms"), metric.WithDescription("How much later than its limit a trip was found."),
		metric.WithExplicitBucketBoundaries(latenesses...))
	m.own = []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(layerKey.Bool(false)))}
	m.layer = []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(layerKey.Bool(true)))}
	return m, errors.Join(errs[:]...)
}

func (m *metrics) live(layer bool, n int64) {
	attributes := m.own
	if layer {
		attributes = m.layer
	}
	m.runs.Add(context.Background(), n, attributes...)
}

// trip counts a trip and its lateness. A cancel of a guard without a limit has no lateness. It sorts the attributes.
func (m *metrics) trip(ctx context.Context, d watchdog.Directive, attributes []attribute.KeyValue) {
	set := metric.WithAttributeSet(attribute.NewSet(attributes...))
	m.trips.Add(ctx, 1, set)
	if d.Allowed > 0 {
		m.lateness.Record(ctx, max(milliseconds(d.Used-d.Allowed), 0), set)
	}
}

// durations are the bounds of the pass histogram in milliseconds.
var durations = []float64{1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000}

type passes struct {
	duration metric.Float64Histogram
	behind   metric.Int64Gauge
	// tallies are the counters of the outcome of passes.
	tallies [len(tallies)]metric.Int64Counter
}

var tallies = [...]struct {
	name, unit, description string
	of                      func(sweep.Pass) int
}{
	{"watchdog.checks.total", "{pass}", "Passes of the sweepers.", func(sweep.Pass) int { return 1 }},
	{"watchdog.sessions.checked", "{session}", "Sessions that were judged.", func(p sweep.Pass) int { return p.Checked }},
	{"watchdog.sessions.found", "{session}", "Judged sessions that are stalled.",
		func(p sweep.Pass) int { return p.Found }},
	{"watchdog.sessions.canceled", "{session}", "Stalled sessions that were cancelled.",
		func(p sweep.Pass) int { return p.Cancelled }},
	{"watchdog.sessions.host_lost", "{session}", "Cancelled sessions whose process was found dead or cut off.", hostsLost},
	{"watchdog.sessions.spared", "{session}", "Stalled sessions that woke up or ended before their cancel.",
		func(p sweep.Pass) int { return p.Spared }},
	{"watchdog.sessions.failed", "{session}", "Stalled sessions that could not be warned or cancelled.",
		func(p sweep.Pass) int { return p.Failed }},
	{"watchdog.sessions.warned", "{session}", "Stalled sessions that were warned first.",
		func(p sweep.Pass) int { return p.Warned }},
	{"watchdog.sessions.resumed", "{session}", "Starts of cancelled sessions that succeeded.",
		func(p sweep.Pass) int { return p.Resumed }},
	{"watchdog.sessions.end_stored", "{session}", "Sessions that had ended before, which only their rows did not say.",
		func(p sweep.Pass) int { return p.EndStored }},
	{"watchdog.leases.expired", "{lease}", "Processes that were found dead or cut off.",
		func(p sweep.Pass) int { return p.LeasesExpired }},
	{"watchdog.errors.total", "{error}", "Errors in passes.", func(p sweep.Pass) int { return p.Errors }},
}

// Pass measures a pass of a sweeper: use it as [sweep.Config].OnPass. The counts of several sweepers are added.
func (i *Instrument) Pass(p sweep.Pass) {
	ctx := context.Background()
	for n, tally := range tallies {
		i.passes.tallies[n].Add(ctx, int64(tally.of(p)))
	}
	i.passes.duration.Record(ctx, milliseconds(p.Duration))
	if p.Err == nil { // else it may not have seen the leases
		i.passes.behind.Record(ctx, int64(p.Behind))
	}
}

// hostsLost counts the cases that were cancelled because their process died.
func hostsLost(p sweep.Pass) (n int) {
	for _, c := range p.Cases {
		if c.Handling == sweep.CaseCancelled && c.Reason() == watchdog.SessionHostLost {
			n++
		}
	}
	return n
}

func newPasses(meter metric.Meter) (p passes, err error) {
	var errs [len(tallies) + 2]error
	for n, tally := range tallies {
		p.tallies[n], errs[n] = meter.Int64Counter(tally.name,
			metric.WithUnit(tally.unit), metric.WithDescription(tally.description))
	}
	p.duration, errs[len(tallies)] = meter.Float64Histogram("watchdog.duration.ms",
		metric.WithUnit("ms"), metric.WithDescription("How long a pass took."),
		metric.WithExplicitBucketBoundaries(durations...))
	p.behind, errs[len(tallies)+1] = meter.Int64Gauge("watchdog.sessions.behind", metric.WithUnit("{session}"),
		metric.WithDescription("Sessions whose run woke up, and whose row its process cannot write."))
	return p, errors.Join(errs[:]...)
}

// calls measures the accounts of abandoned calls, in one sum.
type calls struct {
	abandoned   metric.Int64ObservableCounter
	outstanding metric.Int64ObservableUpDownCounter

	mu  sync.Mutex
	all []*bound.Calls
}

// Calls adds an account of calls to the metrics, for the life of the instrument. Its counts are added to those of the
// other accounts. Nil, and an account that was added before, change nothing.
func (i *Instrument) Calls(c *bound.Calls) {
	i.calls.mu.Lock()
	defer i.calls.mu.Unlock()
	if c != nil && !slices.Contains(i.calls.all, c) {
		i.calls.all = append(i.calls.all, c)
	}
}

func (c *calls) register(meter metric.Meter) error {
	var errs [3]error
	c.abandoned, errs[0] = meter.Int64ObservableCounter("watchdog.calls.abandoned",
		metric.WithUnit("{call}"), metric.WithDescription("Bounded calls that were abandoned."))
	c.outstanding, errs[1] = meter.Int64ObservableUpDownCounter("watchdog.calls.outstanding",
		metric.WithUnit("{call}"), metric.WithDescription("Abandoned calls that have not ended."))
	_, errs[2] = meter.RegisterCallback(c.observe, c.abandoned, c.outstanding)
	return errors.Join(errs[:]...)
}

// observe reports nothing without an account.
func (c *calls) observe(_ context.Context, o metric.Observer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.all) == 0 {
		return nil
	}
	var abandoned, ended uint64
	for _, account := range c.all {
		counts := account.Counts()
		abandoned += counts.Abandoned
		ended += counts.Ended
	}
	o.ObserveInt64(c.abandoned, int64(abandoned))
	o.ObserveInt64(c.outstanding, int64(abandoned-ended))
	return nil
}

// The attribute keys of counted limits.
const (
	limitKey    = attribute.Key("watchdog.limit")
	toolKey     = attribute.Key("watchdog.tool")
	currencyKey = attribute.Key("watchdog.currency")
)

type spend struct {
	used, admitted, allowed metric.Int64ObservableGauge
	refused                 metric.Int64ObservableCounter

	mu    sync.Mutex
	live  map[*watchdog.Watchdog]bool // whether it is a layer
	ended map[series]int64            // the calls that were refused in runs that have ended
}

// A series is what the limits of several runs have in common.
type series struct {
	limit, tool, currency string
	layer                 bool
}

// A total is how far the limits of a series are used in live runs.
type total struct {
	watchdog.Usage
	live bool
}

func (s *spend) register(meter metric.Meter) error {
	var errs [5]error
	gauge := func(name, description string) (g metric.Int64ObservableGauge, err error) {
		return meter.Int64ObservableGauge(name, metric.WithUnit("{unit}"), metric.WithDescription(description))
	}
	s.used, errs[0] = gauge("watchdog.spend.used", "What live runs have used of their counted limits.")
	s.admitted, errs[1] = gauge("watchdog.spend.admitted", "What open calls may use besides.")
	s.allowed, errs[2] = gauge("watchdog.spend.allowed", "The counted limits of live runs, with their extensions.")
	s.refused, errs[3] = meter.Int64ObservableCounter("watchdog.spend.refused",
		metric.WithUnit("{call}"), metric.WithDescription("Calls that did not fit in a counted limit."))
	_, errs[4] = meter.RegisterCallback(s.observe, s.used, s.admitted, s.allowed, s.refused)
	return errors.Join(errs[:]...)
}

func (s *spend) begin(wd *watchdog.Watchdog, layer bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live[wd] = layer
}

// end keeps what a counter must not lose.
func (s *spend) end(wd *watchdog.Watchdog) {
	s.mu.Lock()
	defer s.mu.Unlock()
	layer := s.live[wd]
	delete(s.live, wd)
	for _, one := range wd.Usage() {
		s.ended[seriesOf(one, layer)] += one.Refused
	}
}

func seriesOf(one watchdog.Usage, layer bool) series {
	return series{one.Limit, one.Tool, one.Currency, layer}
}

// observe reports nothing for a limit that no run had.
func (s *spend) observe(_ context.Context, o metric.Observer) error {
	for of, n := range s.totals() {
		set := metric.WithAttributeSet(attribute.NewSet(of.attributes()...))
		o.ObserveInt64(s.refused, n.Refused, set)
		if n.live {
			o.ObserveInt64(s.used, n.Used, set)
			o.ObserveInt64(s.admitted, n.Admitted, set)
			o.ObserveInt64(s.allowed, n.Allowed, set)
		}
	}
	return nil
}

// totals adds up the limits of the live runs. Under the mutex no run ends, so that none is left out or counted twice.
func (s *spend) totals() map[series]total {
	s.mu.Lock()
	defer s.mu.Unlock()
	totals := map[series]total{}
	for of, refused := range s.ended {
		totals[of] = total{Usage: watchdog.Usage{Refused: refused}}
	}
	for wd, layer := range s.live {
		for _, one := range wd.Usage() {
			of := seriesOf(one, layer)
			totals[of] = total{add(one, totals[of].Usage), true}
		}
	}
	return totals
}

// add returns how far a limit of two runs is used.
func add(one, other watchdog.Usage) watchdog.Usage {
	one.Used = addCount(one.Used, other.Used)
	one.Admitted = addCount(one.Admitted, other.Admitted)
	one.Allowed = addCount(one.Allowed, other.Allowed)
	one.Refused += other.Refused
	return one
}

// addCount adds numbers that are not negative. A sum that is too large is the largest number.
func addCount(a, b int64) int64 { return a + min(b, math.MaxInt64-a) }

// attributes returns those that are not empty, and whether it is of layers.
func (s series) attributes() []attribute.KeyValue {
	return append(limitAttributes(s.limit, s.tool, s.currency), layerKey.Bool(s.layer))
}

func limitAttributes(limit, tool, currency string) []attribute.KeyValue {
	attributes := make([]attribute.KeyValue, 1, 4)
	attributes[0] = limitKey.String(limit)
	for _, one := range [...]attribute.KeyValue{toolKey.String(tool), currencyKey.String(currency)} {
		if one.Value.AsString() != "" {
			attributes = append(attributes, one)
		}
	}
	return attributes
}
