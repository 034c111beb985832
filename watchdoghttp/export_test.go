package watchdoghttp

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog/watchdoghttp/internal/usage"
)

// A Metered is a meter under test, and what it charged.
type Metered struct {
	Base         http.RoundTripper
	Prices       *usage.Prices
	Maximum      usage.Maximum
	Count        bool
	IncludeUsage bool
	Logger       *slog.Logger
	Refuse       bool

	mu      sync.Mutex
	charged []Charged
}

// A Charged is an admission and how it ended.
type Charged struct {
	Most, Used Spend
	Void       bool
	Ends       int
}

// A Spend is a spend.
type Spend struct{ Input, Output, Cost, Requests int64 }

// ErrRefused is why the ledger refuses.
var ErrRefused = errors.New("refused")

// Transport returns the meter.
func (m *Metered) Transport() http.RoundTripper {
	return &meter{
		base: m.Base, prices: m.Prices, count: m.Count, includeUsage: m.IncludeUsage, logger: m.Logger, keep: true,
		maxima:   func(string) usage.Maximum { return m.Maximum },
		spending: func(context.Context) spender { return m },
	}
}

// Charged returns what was charged.
func (m *Metered) Charged() []Charged {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Charged(nil), m.charged...)
}

func (m *Metered) admit(_ context.Context, _, most spend, _ time.Duration) (charge, spend, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Refuse {
		return nil, spend{}, ErrRefused
	}
	m.charged = append(m.charged, Charged{Most: exported(most)})
	return &ended{m, len(m.charged) - 1}, most, nil
}

type ended struct {
	of *Metered
	at int
}

func (e *ended) settle(used spend) error {
	e.end(func(c *Charged) { c.Used = exported(used) })
	return nil
}

func (e *ended) void() error {
	e.end(func(c *Charged) { c.Void = true })
	return nil
}

func (e *ended) end(how func(*Charged)) {
	e.of.mu.Lock()
	defer e.of.mu.Unlock()
	c := &e.of.charged[e.at]
	c.Ends++
	how(c)
}

func exported(s spend) Spend { return Spend{s.input, s.output, s.cost, s.requests} } // the result is in TestMeterRun

// SetBase changes the base of a meter.
func SetBase(transport, base http.RoundTripper) { transport.(*meter).base = base }

// Histories returns of how many runs there is a history.
func Histories() (n int) {
	histories.Range(func(any, any) bool { n++; return true })
	return n
}
