package watchdoghttp

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdoghttp/internal/usage"
)

// A metered is a call that was admitted, and the body of its response.
type metered struct {
	meter  *Meter
	run    *watchdog.Watchdog
	charge watchdog.Charge
	call   *usage.Call
	past   *usage.History
	most   watchdog.Amount
	wanted watchdog.Amount // what it may have used if it had not been made smaller
	set    int64           // the maximum that the request got, because it had none
	ctx    context.Context // of the request
	body   io.ReadCloser
	status int

	mu     sync.Mutex // of the reader: a body may be closed while it is read
	reader *usage.Reader
	ended  bool
}

func (c *metered) roundTrip(req *http.Request) (*http.Response, error) {
	var way sending
	base := baseOf(c.meter.Base)
	sent := way.watch(req, base)
	resp, err := base.RoundTrip(sent)
	if err != nil {
		if way.unsent(err) {
			c.report(c.charge.Void())
		} else {
			c.settle(c.most, 0)
		}
		return nil, err
	}
	if resp.Request == sent {
		resp.Request = req
	}
	free := usage.ErrorsFree(req.URL.Hostname(), c.meter.ErrorsFree)
	switch bill := usage.Billing(c.call.API, resp.StatusCode, free); {
	case bill == usage.Void:
		c.settle(watchdog.Amount{Requests: 1}, resp.StatusCode)
	case bill == usage.Admitted || c.call.API == usage.None || resp.Body == nil || resp.Body == http.NoBody:
		c.settle(c.most, resp.StatusCode)
	default:
		c.status = resp.StatusCode
		c.reader = usage.NewReader(c.call.API, resp.Header.Get("Content-Encoding"))
		c.body, resp.Body = resp.Body, c
	}
	return resp, nil
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
	switch smaller := c.most.OutputTokens < c.wanted.OutputTokens; {
	case smaller && (result.Cut || result.Usage.Output >= c.most.OutputTokens):
		c.ask()
	case !smaller && result.Cut && c.set > 0:
		c.meter.tell(slog.LevelWarn, "set "+c.call.Model, "an answer ended at the maximum that was set for want of one; "+
			"declare what its model can answer", slog.String("name", c.call.Model), slog.Int64("maximum", c.set))
	}
}

// ask has a limit trip at whose end an answer ended: it is asked for what the call had wanted, which nobody gets. If
// there is room for that once the calls under way are settled, the limit is not reached, and the client can go on.
func (c *metered) ask() {
	again, _, err := c.run.AdmitWithin(context.WithoutCancel(c.ctx), "", c.wanted, c.wanted, time.Nanosecond)
	if err == nil {
		c.report(again.Void())
	}
}

// used returns what the call used by its response, or its admission where the response does not say. Of one that is cut
// off, or cannot be read to its end, nobody knows what more was billed.
func (c *metered) used(result usage.Result, whole bool) watchdog.Amount {
	m, model, prices := c.meter, c.call.Model, c.meter.Prices.table()
	if result.Unread != usage.Readable {
		why := result.Unread.String()
		m.tell(slog.LevelWarn, "unread "+why, "usage of a model is not read", slog.String("reason", why))
	}
	if result.State == usage.Nothing {
		return c.most
	}
	if prices.Has(result.Model) {
		model = result.Model // what answered is what is billed
	}
	cost := prices.Cost(model, result.Usage)
	if cost.Unpriced != "" {
		m.tell(slog.LevelWarn, "price "+cost.Unpriced+" "+model, "model has no price", slog.String("model", model),
			slog.String("of", cost.Unpriced))
	}
	used := watchdog.Amount{InputTokens: result.Usage.TokensIn(), OutputTokens: result.Usage.Output, Requests: 1}
	if result.Unread != usage.Readable || result.State == usage.Partial && !whole {
		if !c.call.TookIn(result) {
			used.InputTokens = max(used.InputTokens, c.most.InputTokens)
		}
		used.OutputTokens = max(used.OutputTokens, c.most.OutputTokens)
		cost.Amount = max(cost.Amount, c.most.Cost.Micros)
	}
	used.Cost = m.money(cost.Amount)
	return used
}

// settle settles a call that had the status, 0 for none: 429 and 5xx are to be tried again.
func (c *metered) settle(used watchdog.Amount, status int) {
	switch {
	case status == http.StatusTooManyRequests || status >= http.StatusInternalServerError:
		used.Result = watchdog.ResultRetry
	case status == 0 || status >= http.StatusBadRequest:
		used.Result = watchdog.ResultError
	default:
		used.Result = watchdog.ResultOK
	}
	c.report(c.charge.Settle(used))
}

// report logs an error that has nobody else to go to: the reader of a response gets the response.
func (c *metered) report(err error) {
	if err != nil {
		c.meter.logger().Error("settle call of a model", slog.Any("error", err))
	}
}

// A sending is what is known of how far a request came, by what its base tells the trace of the request. It is for one
// RoundTrip, which may take several attempts.
//
// Only two things say for certain that nothing was sent that can be billed: no connection was obtained, or HTTP/2 says
// that the stream was not processed. All else is doubt.
type sending struct {
	asked     atomic.Bool // for a connection: a base that never does may tell nothing of those that it has
	connected atomic.Bool
	answered  atomic.Bool
}

// watch returns a copy of a request that tells the sending how far it comes with a base.
func (s *sending) watch(req *http.Request, base http.RoundTripper) *http.Request {
	sent := req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GetConn:              func(string) { s.asked.Store(true) },
		GotConn:              func(httptrace.GotConnInfo) { s.connected.Store(true) },
		GotFirstResponseByte: func() { s.answered.Store(true) },
	}))
	if rewind := req.GetBody; rewind != nil && triesOnce(base, req) {
		sent.GetBody = func() (io.ReadCloser, error) {
			s.connected.Store(false) // another attempt begins
			return rewind()
		}
	}
	return sent
}

// unsent reports whether a request that ended with an error was certainly not sent.
func (s *sending) unsent(err error) bool {
	var dial *net.OpError
	switch {
	case s.connected.Load():
		says := func(text string) bool { return strings.Contains(err.Error(), text) }
		return !s.answered.Load() && slices.ContainsFunc(unprocessed, says)
	case s.asked.Load():
		return true
	}
	return errors.As(err, &dial) && dial.Op == "dial"
}

// triesOnce reports whether a base sends a request once: net/http's own transport tries again only what was not
// processed, and what it takes for safe to send twice. Of any other base it is not known.
func triesOnce(base http.RoundTripper, req *http.Request) bool {
	for {
		switch b := base.(type) {
		case *http.Transport:
			return req.Header["Idempotency-Key"] == nil && req.Header["X-Idempotency-Key"] == nil
		case *Transport:
			base = baseOf(b.Base)
		default:
			return false
		}
	}
}

// unprocessed are what net/http and x/net/http2 say of a stream that the server did not process: a reset that says
// so, a GOAWAY with a lower stream, and a connection that had ended before the stream began. They have no other form.
var unprocessed = []string{
	"; REFUSED_STREAM; received from peer",
	"http2: Transport received Server's graceful shutdown GOAWAY",
	"http2: Transport received GOAWAY from server ErrCode:",
	"http2: client conn not usable",
	"http2: client conn could not be established",
}
