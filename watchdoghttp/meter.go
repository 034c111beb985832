package watchdoghttp

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog"
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

	told told
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

// table returns what was read, nil for no prices.
func (p *Prices) table() *usage.Prices {
	if p == nil {
		return nil
	}
	return p.read
}

// RoundTrip implements [http.RoundTripper]. Besides the errors of the base it returns that of the admission, or one
// that wraps [ErrUnbounded]; nothing is sent then.
func (m *Meter) RoundTrip(req *http.Request) (*http.Response, error) {
	route, run := usage.RouteOf(req.Method, req.URL.Path), watchdog.FromContext(req.Context())
	if !isModel(route) || run == nil {
		return baseOf(m.Base).RoundTrip(req)
	}
	asked := m.read(req, route)
	if asked == nil {
		return baseOf(m.Base).RoundTrip(req)
	}
	admitted, err := m.admit(run, asked)
	if err != nil {
		closeBody(req.Body)
		return nil, err
	}
	return admitted.roundTrip(asked.req)
}

// IsModelCall reports whether a [Meter] charges or refuses a request of that method and path, on any host: whether it
// calls a model. The path is decoded, as that of a URL is. A request whose body turns out to be for another service is
// passed on all the same.
func IsModelCall(method, path string) bool {
	return isModel(usage.RouteOf(method, path))
}

func isModel(route usage.Route) bool { return route.API != usage.None || route.Unread != "" }

// CloseIdleConnections does so in the base if that can, for [http.Client.CloseIdleConnections].
func (m *Meter) CloseIdleConnections() { closeIdle(m.Base) }

// money is a cost in millionths of the prices' currency.
func (m *Meter) money(micros int64) watchdog.Money {
	if micros == 0 {
		return watchdog.Money{}
	}
	return watchdog.Money{Micros: micros, Currency: m.Prices.Currency()}
}

func (m *Meter) logger() *slog.Logger {
	if m.Logger == nil {
		return slog.Default()
	}
	return m.Logger
}

// tell logs something once. A context would say nothing about it.
func (m *Meter) tell(level slog.Level, once, message string, attrs ...any) {
	first, full := m.told.add(once)
	if !first {
		return
	}
	m.logger().Log(context.Background(), level, message, attrs...) //nolint:sloglint // the callers' messages are static
	if full {
		m.logger().Warn("no other model is warned of; models come from requests, and there are too many to remember",
			slog.Int("remembered", maxTold))
	}
}

// maxTold is how many warnings a meter remembers, and maxToldName how much of the name of each. The names of models
// come from requests.
const (
	maxTold     = 1000
	maxToldName = 256
)

// A told remembers what was logged.
type told struct {
	mu    sync.Mutex
	names map[string]struct{}
}

// add reports whether the name is new, and whether it is the last one that is remembered. After that none is new.
func (t *told) add(name string) (first, full bool) {
	name = name[:min(len(name), maxToldName)]
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.names[name]; known || len(t.names) == maxTold {
		return false, false
	}
	if t.names == nil {
		t.names = map[string]struct{}{}
	}
	t.names[name] = struct{}{}
	return true, len(t.names) == maxTold
}
