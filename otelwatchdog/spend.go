package otelwatchdog

import (
	"context"
	"errors"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/handle"
)

// The attribute keys of counted limits.
const (
	limitKey    = attribute.Key("watchdog.limit")
	toolKey     = attribute.Key("watchdog.tool")
	scopeKey    = attribute.Key("watchdog.scope")
	currencyKey = attribute.Key("watchdog.currency")
)

// spend measures the counted limits of the live runs.
type spend struct {
	used, admitted, allowed metric.Int64ObservableGauge
	refused                 metric.Int64ObservableCounter

	mu    sync.Mutex
	live  map[*watchdog.Watchdog]bool // whether it is a layer
	ended map[series]int64            // the calls that were refused in runs that have ended
}

// A series is what the limits of several runs have in common.
type series struct {
	limit, tool, scope, currency string
	layer                        bool
}

// A total is how far the limits of a series are used in live runs.
type total struct {
	handle.Spend
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

// begin measures a run until its end.
func (s *spend) begin(wd *watchdog.Watchdog, layer bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live == nil {
		s.live, s.ended = map[*watchdog.Watchdog]bool{}, map[series]int64{}
	}
	s.live[wd] = layer
}

// end keeps what a counter must not lose.
func (s *spend) end(wd *watchdog.Watchdog) {
	s.mu.Lock()
	defer s.mu.Unlock()
	layer := s.live[wd]
	delete(s.live, wd)
	for _, one := range handle.Of(wd.Context()).Spend() {
		s.ended[seriesOf(one, layer)] += one.Refused
	}
}

func seriesOf(one handle.Spend, layer bool) series {
	return series{one.Limit, one.Tool, one.Scope, one.Currency, layer}
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
		totals[of] = total{Spend: handle.Spend{Scope: of.scope, Refused: refused}}
	}
	for wd, layer := range s.live {
		for _, one := range handle.Of(wd.Context()).Spend() {
			of := seriesOf(one, layer)
			totals[of] = total{one.Add(totals[of].Spend), true}
		}
	}
	return totals
}

// attributes returns those that are not empty, and whether it is of layers.
func (s series) attributes() []attribute.KeyValue {
	return append(limitAttributes(s.limit, s.tool, s.scope, s.currency), layerKey.Bool(s.layer))
}

func limitAttributes(limit, tool, scope, currency string) []attribute.KeyValue {
	attributes := make([]attribute.KeyValue, 1, 5)
	attributes[0] = limitKey.String(limit)
	for _, one := range [...]attribute.KeyValue{
		toolKey.String(tool), scopeKey.String(scope), currencyKey.String(currency),
	} {
		if one.Value.AsString() != "" {
			attributes = append(attributes, one)
		}
	}
	return attributes
}
