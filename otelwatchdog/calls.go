package otelwatchdog

import (
	"context"
	"slices"
	"sync"

	"go.opentelemetry.io/otel/metric"

	"github.com/seed62658d38/watchdog/bound"
)

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

func (c *calls) register(meter metric.Meter) (err error) {
	if c.abandoned, err = meter.Int64ObservableCounter("watchdog.calls.abandoned",
		metric.WithUnit("{call}"), metric.WithDescription("Bounded calls that were abandoned.")); err != nil {
		return err
	}
	if c.outstanding, err = meter.Int64ObservableUpDownCounter("watchdog.calls.outstanding",
		metric.WithUnit("{call}"), metric.WithDescription("Abandoned calls that have not ended.")); err != nil {
		return err
	}
	_, err = meter.RegisterCallback(c.observe, c.abandoned, c.outstanding)
	return err
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
