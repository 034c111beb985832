package watchdoghttp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"sync"
	"time"
	"weak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/watchdoghttp/internal/usage"
)

// ErrUnbounded is found by errors.Is in the error of a call whose most is not known. The text says what it is about, by
// the name of a field, and what to declare.
var ErrUnbounded = usage.ErrUnbounded

// ErrBusy is found by errors.Is in the error of a call that found no room for as long as it may wait, because calls
// under way hold it. No limit has tripped, and it can be made again when they have ended.
var ErrBusy = errors.New("a call waited in vain")

// DefaultWait is how long a call waits for others that are under way, if the [Meter] does not say. Many clients give up
// a minute after they called.
const DefaultWait = 45 * time.Second

// A Meter charges the calls of model APIs to the run in the request's context, see [watchdog.Watchdog.Admit]: with the
// most that each can use before it is sent, and with what it used by the usage in its response. It knows Anthropic
// Messages, OpenAI Chat Completions and Responses, and Gemini, by method, path and body, on any host, and passes on all
// else as it is. It can stand before a [Transport] or behind it.
//
//	client := &http.Client{Transport: &watchdoghttp.Meter{Base: &watchdoghttp.Transport{}}}
//
// A call that does not fit in a limit is not sent: its error is a [*watchdog.Refused]. Without a run nothing is
// metered.
//
// The input of a call is at most the bytes of its body and a little more, or what an earlier call of the run took in,
// and the parts that this one has besides; media and encrypted reasoning count by what vendors publish. What the body
// only names, such as a file or an earlier response, needs the maximum that Models declares for the model: a call
// without is refused with [ErrUnbounded], unless CountUnbounded is set. Cost takes the dearest class of tokens before
// the call.
//
// A call is void, and costs nothing, if no connection was obtained for it, because a host, its certificate or a proxy
// refused, or if HTTP/2 says that its stream was not processed. In doubt it is charged with the most. To know, the base
// has to tell the request's [net/http/httptrace.ClientTrace] of connections, as [http.Transport] does; of any other
// base only a dial that failed is certain.
//
// A response settles the call at its end, when its body is closed, or at once where its status says that nothing was
// billed. One without usage, such as a stream of Chat Completions that does not ask for it, settles at the admission;
// so does an answer that is cut off, but for the input if it was told. 429 and 5xx count as [watchdog.ResultRetry],
// other failures as [watchdog.ResultError].
//
// Responses are read as they pass: every chunk is handed out at once and unchanged. Nothing of a prompt or an answer is
// kept but digests of the parts of requests, for the run, at most 256 KiB of them. It is safe for concurrent use, and
// must not be changed once it is in use.
type Meter struct {
	// Base does the exchange; nil means [http.DefaultTransport].
	Base http.RoundTripper
	// Prices are what models cost; nil prices nothing.
	Prices *Prices
	// Models are the declared maxima of models by name, in which a "*" stands for any characters. Of several names that
	// match, the one with the most other characters counts.
	Models map[string]Maximum
	// CountUnbounded has a call sent whose most is not known: it is admitted as one request, counts when it is settled,
	// and is logged once for each model, see Logger.
	CountUnbounded bool
	// IncludeUsage asks for usage in streams of Chat Completions that do not: it changes the request, and the stream has
	// one chunk more, without a choice.
	IncludeUsage bool
	// KeepMaximum leaves the maximum of output of each request as it is: a call that does not fit with it is refused.
	KeepMaximum bool
	// Wait is how long a call waits for others that are under way, if it would fit should they use less than they may.
	// Zero means [DefaultWait], [watchdog.None] not at all. A call that does not fit by then is no trip of the limit: its
	// error wraps [ErrBusy].
	Wait time.Duration
	// ErrorsFree are hosts, without a port, that bill no call which they answered with an error: such a call is charged
	// with nothing, but for 408, 499 and 504. The vendors' own hosts need not be named.
	ErrorsFree []string
	// Logger is told, once for each, what is not read, not known or has no price, up to a thousand times in all. Nil means
	// [slog.Default].
	Logger *slog.Logger

	once  sync.Once
	inner meter
}

// A Maximum is what one call of a model can use at most, in tokens, with all rounds of the API's own tools. Zero is not
// declared.
type Maximum struct {
	Input, Output int64
	// ToolRequests is how many requests of the API's own tools, such as web searches, one call can make.
	ToolRequests int64
}

// Prices are what a host says that models cost, as of a date: see [ReadPrices]. They do not change.
type Prices struct{ read *usage.Prices }

// ReadPrices reads prices from JSON, in which they are whole millionths of the currency for a million tokens, or for
// one request of a tool:
//
//	{
//	  "currency": "USD",
//	  "date": "2026-08-01",
//	  "models": {
//	    "some-model-*": {
//	      "input": 3000000, "cache_write_5m": 3750000, "cache_write_1h": 6000000, "cache_read": 300000,
//	      "output": 15000000,
//	      "modalities": {"audio": {"input": 10000000, "output": 40000000}},
//	      "above": [{"input_tokens": 200000, "input": 6000000, "output": 22500000}],
//	      "tiers": {"priority": {"input": 6000000, "output": 30000000}},
//	      "tools": {"web_search": 10000}
//	    }
//	  }
//	}
//
// The currency has to be the one given, that of the limit of cost; empty takes any. The error names the place, the
// value and what would be right.
func ReadPrices(text []byte, currency string) (*Prices, error) {
	read, err := usage.ReadPrices(text, currency)
	if err != nil {
		return nil, err
	}
	return &Prices{read}, nil
}

// Currency returns that of the prices.
func (p *Prices) Currency() string { return p.read.Currency }

// Date returns the day that the prices are of.
func (p *Prices) Date() time.Time { return p.read.Date }

// RoundTrip implements [http.RoundTripper]. Besides the errors of the base it returns that of the admission, or one
// that wraps [ErrUnbounded]; nothing is sent then.
func (m *Meter) RoundTrip(req *http.Request) (*http.Response, error) { return m.meter().RoundTrip(req) }

// CloseIdleConnections does so in the base if that can, for [http.Client.CloseIdleConnections].
func (m *Meter) CloseIdleConnections() { m.meter().CloseIdleConnections() }

func (m *Meter) meter() *meter {
	m.once.Do(func() {
		m.inner.base, m.inner.count, m.inner.includeUsage = m.Base, m.CountUnbounded, m.IncludeUsage
		m.inner.errorsFree, m.inner.history = m.ErrorsFree, historyOf
		m.inner.keep, m.inner.wait = m.KeepMaximum, max(cmp.Or(m.Wait, DefaultWait), 0)
		m.inner.logger = m.Logger
		if m.inner.logger == nil {
			m.inner.logger = slog.Default()
		}
		currency := ""
		if m.Prices != nil {
			m.inner.prices, currency = m.Prices.read, m.Prices.read.Currency
		}
		m.inner.maxima = func(model string) usage.Maximum {
			most, _ := usage.Best(m.Models, model)
			return usage.Maximum(most)
		}
		m.inner.spending = func(ctx context.Context) spender {
			if w := watchdog.FromContext(ctx); w != nil {
				return runSpender{w, currency}
			}
			return nil
		}
	})
	return &m.inner
}

// histories has the history of each run, which is that of its layers, too: a step goes on with the conversation of the
// one before. It does not keep a run: what a run taught goes with it.
var histories sync.Map // of *usage.History, by weak.Pointer[watchdog.Watchdog]

// historyOf returns the history of the context's run, nil if it has none.
func historyOf(ctx context.Context) *usage.History {
	of := handle.Of(ctx)
	if of == nil {
		return nil
	}
	w := watchdog.FromContext(of.Session())
	run := weak.Make(w)
	past, known := histories.LoadOrStore(run, new(usage.History))
	if !known {
		runtime.AddCleanup(w, func(run weak.Pointer[watchdog.Watchdog]) { histories.Delete(run) }, run)
	}
	return past.(*usage.History) //nolint:forcetypeassert // it has nothing else
}

// A runSpender charges a run.
type runSpender struct {
	run      *watchdog.Watchdog
	currency string
}

func (s runSpender) admit(ctx context.Context, least, most spend, wait time.Duration) (charge, spend, error) {
	c, granted, err := s.run.AdmitWithin(ctx, "", s.amount(least), s.amount(most), wait)
	switch {
	case errors.Is(err, handle.ErrHeld):
		return nil, spend{}, fmt.Errorf("%w: %w", ErrBusy, err)
	case err != nil:
		return nil, spend{}, err
	}
	most.input, most.output, most.cost = granted.InputTokens, granted.OutputTokens, granted.Cost.Micros
	return runCharge{c, s}, most, nil
}

func (s runSpender) amount(of spend) watchdog.Amount {
	a := watchdog.Amount{InputTokens: of.input, OutputTokens: of.output, Requests: of.requests, Result: of.result}
	if of.cost > 0 {
		a.Cost = watchdog.Money{Micros: of.cost, Currency: s.currency}
	}
	return a
}

type runCharge struct {
	watchdog.Charge
	of runSpender
}

func (c runCharge) settle(used spend) error { return c.Settle(c.of.amount(used)) }

func (c runCharge) void() error { return c.Void() }
