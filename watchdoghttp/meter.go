package watchdoghttp

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdoghttp/internal/usage"
)

// A meter is an [http.RoundTripper] that charges the calls of model APIs to the run in the request's context. It knows
// them by method, path and body, on any host, and passes on all else as it is. It can stand before a [Transport] or
// behind it.
//
// A call is admitted with the most that it can use before it is sent, and settled with the usage in its response: at
// the body's end, when it is closed, or at once where the status says that nothing was billed. Where no usage was read
// it is settled at its admission, unless it was certainly not sent (see sending): then it is void. What a call can use,
// and what it used, is in package usage.
//
// The response is read as it passes: every chunk is handed out at once and unchanged, and nothing is read ahead. The
// request is read from the copy that its GetBody makes, so that what is sent stays as it is, but for includeUsage and
// for the maximum of output.
//
// It is safe for concurrent use, and must not be changed once it is in use.
type meter struct {
	// base does the exchange; nil means [http.DefaultTransport].
	base http.RoundTripper
	// spending returns what the calls of a context are charged to, or nil if there is nothing: they are not metered.
	spending func(context.Context) spender
	// maxima are the declared maxima of models, by their names.
	maxima func(model string) usage.Maximum
	// prices are the host's; nil prices nothing.
	prices *usage.Prices
	// count has a call whose most is not known sent, charged with one request, and said once for each reason; its tokens
	// count when it is settled. Otherwise it is refused, with an [*usage.Unbounded].
	count bool
	// includeUsage adds stream_options.include_usage to requests for streams of Chat Completions that do not set it, so
	// that they end with their usage. It changes the request, and the stream has one chunk more, without a choice.
	includeUsage bool
	// keep leaves the maximum of output as the request says it.
	keep bool
	// wait is how long a call waits for others that are under way.
	wait time.Duration
	// history has what the calls of a context have taught; nil teaches nothing.
	history func(context.Context) *usage.History
	// errorsFree are hosts that bill no call that they answered with an error, besides the vendors' own.
	errorsFree []string
	// logger is told, once for each, what is not read or has no price; nil tells nobody.
	logger *slog.Logger

	told told
}

// longestRequest is up to which length the body of a request is read ahead. No API takes a longer one with text.
const longestRequest = 32 << 20

// A spend is what a call uses: an admission, or what came of it. The cost is in millionths of the prices' currency.
type spend struct {
	input, output, cost, requests int64
	result                        string
}

// A spender is what calls are charged to: a run, with all that counts them.
type spender interface {
	// admit charges the most that a call can use, between the two, and returns that. A call can wait for others that are
	// under way. An error is why it must not be made.
	admit(ctx context.Context, least, most spend, wait time.Duration) (charge, spend, error)
}

// A charge is an admission. One of its methods is called, once, from any goroutine.
type charge interface {
	// settle charges what was used instead.
	settle(used spend) error
	// void takes the charge back: nothing was sent.
	void() error
}

// RoundTrip implements [http.RoundTripper]. Besides the errors of the base it returns that of the admission, and an
// [*usage.Unbounded]; nothing is sent then.
func (m *meter) RoundTrip(req *http.Request) (*http.Response, error) {
	var to spender
	route := usage.RouteOf(req.Method, req.URL.Path)
	if isModel(route) {
		to = m.spending(req.Context())
	}
	if to == nil {
		return m.transport().RoundTrip(req)
	}
	asked, err := m.read(req, route)
	if err == nil && asked == nil {
		return m.transport().RoundTrip(req)
	}
	var admitted *metered
	if err == nil {
		admitted, err = m.admit(req.Context(), to, asked)
	}
	if err != nil {
		closeBody(req.Body)
		return nil, err
	}
	return admitted.roundTrip(asked.req)
}

// CloseIdleConnections does so in the base if that can, for [http.Client.CloseIdleConnections].
func (m *meter) CloseIdleConnections() {
	if base, ok := m.transport().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

func (m *meter) transport() http.RoundTripper {
	if m.base == nil {
		return http.DefaultTransport
	}
	return m.base
}

// tell logs something once. A context would say nothing about it.
func (m *meter) tell(level slog.Level, once, message string, attrs ...any) {
	first, full := m.told.add(once)
	if !first || m.logger == nil {
		return
	}
	m.logger.Log(context.Background(), level, message, attrs...) //nolint:sloglint // the callers' messages are static
	if full {
		m.logger.Warn("no other model is warned of; models come from requests, and there are too many to remember",
			slog.Int("remembered", maxTold))
	}
}

// A metered is a call that was admitted, and the body of its response.
type metered struct {
	meter  *meter
	call   *usage.Call
	past   *usage.History
	most   spend
	wanted spend // what it may have used if it had not been made smaller
	set    int64 // the maximum that the request got, because it had none
	charge charge
	to     spender
	ctx    context.Context // of the request
	body   io.ReadCloser
	status int

	mu     sync.Mutex // of the reader: a body may be closed while it is read
	reader *usage.Reader
	ended  bool
}

// roundTrip sends the request, and settles what needs no body.
func (c *metered) roundTrip(req *http.Request) (*http.Response, error) {
	var way sending
	sent := way.watch(req, c.meter.transport())
	resp, err := c.meter.transport().RoundTrip(sent)
	if err != nil {
		c.failed(way.unsent(err))
		return nil, err
	}
	if resp.Request == sent {
		resp.Request = req
	}
	free := usage.ErrorsFree(req.URL.Hostname(), c.meter.errorsFree)
	switch bill := usage.Billing(c.call.API, resp.StatusCode, free); {
	case bill == usage.Void:
		c.settle(spend{requests: 1}, resp.StatusCode)
	case bill == usage.Admitted || c.call.API == usage.None || resp.Body == nil || resp.Body == http.NoBody:
		c.settle(c.most, resp.StatusCode)
	default:
		c.status = resp.StatusCode
		c.reader = usage.NewReader(c.call.API, resp.Header.Get("Content-Encoding"))
		c.body, resp.Body = resp.Body, c
	}
	return resp, nil
}

// failed ends a call without a response.
func (c *metered) failed(unsent bool) {
	if unsent {
		c.report(c.charge.void())
		return
	}
	c.settle(c.most, 0)
}

// Read implements [io.Reader]. A client that has the last of an answer can call again at once, and that call is to find
// this one settled: the end of the body can come much later.
func (c *metered) Read(p []byte) (int, error) {
	n, err := c.body.Read(p)
	if done := c.read(p[:n]); done || err != nil {
		c.end(done || errors.Is(err, io.EOF))
	}
	return n, err
}

// read takes a part of the answer, and reports whether that was the last.
func (c *metered) read(chunk []byte) (done bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	c.reader.Feed(chunk)
	return c.reader.Done()
}

// Close implements [io.Closer]. It may be called while a Read waits.
func (c *metered) Close() error {
	err := c.body.Close()
	c.end(false)
	return err
}

// end settles the call, once.
func (c *metered) end(whole bool) {
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return
	}
	c.ended = true
	result := c.reader.End(whole)
	c.mu.Unlock()
	c.past.Learn(c.call, result)
	c.settle(c.used(result, whole), c.status)
	switch smaller := c.most.output < c.wanted.output; {
	case smaller && (result.Cut || result.Usage.Output >= c.most.output):
		c.ask()
	case !smaller && result.Cut && c.set > 0:
		c.meter.tell(slog.LevelWarn, "set "+c.call.Model, "an answer ended at the maximum that was set for want of one; "+
			"declare what its model can answer", slog.String("name", c.call.Model), slog.Int64("maximum", c.set))
	}
}

// ask has a limit trip at whose end an answer ended: it is asked for what the call had wanted, which nobody gets. If
// there is room for that once the calls under way are settled, the limit is not reached, and the client can go on.
func (c *metered) ask() {
	again, _, err := c.to.admit(context.WithoutCancel(c.ctx), c.wanted, c.wanted, time.Nanosecond)
	if err == nil {
		c.report(again.void())
	}
}

// used returns what the call used by its response, or its admission where the response does not say. Of one that is cut
// off, or cannot be read to its end, nobody knows what more was billed.
func (c *metered) used(result usage.Result, whole bool) spend {
	m, model := c.meter, c.call.Model
	if result.Unread != usage.Readable {
		why := result.Unread.String()
		m.tell(slog.LevelWarn, "unread "+why, "usage of a model is not read", slog.String("reason", why))
	}
	if result.State == usage.Nothing {
		return c.most
	}
	if m.prices.Has(result.Model) {
		model = result.Model // what answered is what is billed
	}
	cost := m.prices.Cost(model, result.Usage)
	if cost.Unpriced != "" {
		m.tell(slog.LevelWarn, "price "+cost.Unpriced+" "+model, "model has no price", slog.String("model", model),
			slog.String("of", cost.Unpriced))
	}
	used := spend{
		input: result.Usage.TokensIn(), output: result.Usage.TokensOut(), cost: cost.Amount, requests: 1,
	}
	if result.Unread != usage.Readable || result.State == usage.Partial && !whole {
		if !c.call.TookIn(result) {
			used.input = max(used.input, c.most.input)
		}
		used.output, used.cost = max(used.output, c.most.output), max(used.cost, c.most.cost)
	}
	return used
}

// settle settles a call that had the status, 0 for none.
func (c *metered) settle(used spend, status int) {
	used.result = resultOf(status)
	c.report(c.charge.settle(used))
}

// resultOf says how a call ended: 429 and 5xx are to be tried again.
func resultOf(status int) string {
	switch {
	case status == http.StatusTooManyRequests || status >= http.StatusInternalServerError:
		return watchdog.ResultRetry
	case status == 0 || status >= http.StatusBadRequest:
		return watchdog.ResultError
	}
	return watchdog.ResultOK
}

// report logs an error that has nobody else to go to: the reader of a response gets the response.
func (c *metered) report(err error) {
	if err != nil && c.meter.logger != nil {
		c.meter.logger.Error("settle call of a model", slog.Any("error", err))
	}
}
