package watchdoghttp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"path"
	"time"

	"github.com/seed62658d38/watchdog/watchdoghttp/internal/usage"
)

// An asked is what a request asks of a model.
type asked struct {
	req     *http.Request
	call    *usage.Call
	body    []byte           // of the request
	output  *usage.Allowance // where it says its maximum of output, nil if that stays
	changes []usage.Change   // of the body, as it is sent
}

// read returns what the request asks for, nil if it is none of a model.
func (m *meter) read(req *http.Request, route usage.Route) (*asked, error) {
	if route.Unread != "" {
		return &asked{req: req, call: route.Unknown(usage.Unknown, path.Base(route.Unread))}, nil
	}
	body, why := usage.Peek(req, longestRequest)
	if why != usage.Readable {
		return &asked{req: req, call: route.Unknown(why, req.Header.Get("Content-Encoding"))}, nil
	}
	call, err := usage.ReadCall(route, req, body)
	var other *usage.NotModel
	switch {
	case errors.As(err, &other):
		return nil, nil
	case err != nil:
		return nil, err
	}
	a := &asked{req: req, call: call, body: body}
	if m.includeUsage {
		if change, ok := call.WithUsage(); ok {
			a.change(change)
		}
	}
	if !m.keep {
		a.output = call.Allowance(req, body)
	}
	return a, nil
}

// change has the body sent with changes, which come before those that it has.
func (a *asked) change(changes ...usage.Change) {
	a.changes = append(changes, a.changes...)
	a.req = withBody(a.req, usage.Pieces(a.body, a.changes))
}

// withBody is the request with another body, in pieces.
func withBody(req *http.Request, pieces [][]byte) *http.Request {
	again := func() io.Reader {
		readers := make([]io.Reader, len(pieces))
		for i, p := range pieces {
			readers[i] = bytes.NewReader(p)
		}
		return io.MultiReader(readers...)
	}
	changed := req.Clone(req.Context())
	changed.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(again()), nil }
	changed.Body, changed.ContentLength = sentInstead{again(), req.Body}, 0
	for _, p := range pieces {
		changed.ContentLength += int64(len(p))
	}
	changed.Header.Del("Content-Length")
	changed.Header.Del("Content-Encoding") // it was decompressed to be read
	return changed
}

// sentInstead is a body that is sent in the place of another, and closes it.
type sentInstead struct {
	io.Reader
	io.Closer
}

// longestQuiet is how long a call waits before that is told.
const longestQuiet = time.Second

// admit admits what is asked for with the most that it can use, and makes that smaller where it does not fit.
func (m *meter) admit(ctx context.Context, to spender, a *asked) (*metered, error) {
	call, declared := a.call, m.maxima(a.call.Model)
	changes, wants := a.output != nil, int64(0)
	if changes {
		wants = a.output.Wants(call, declared)
		call.Allow(wants)
	}
	var past *usage.History
	if m.history != nil {
		past = m.history(ctx)
	}
	most := spend{requests: 1}
	bound, err := call.Bound(declared, past)
	if err == nil {
		most.input, most.output = bound.Input, bound.Output
		most.cost, err = m.most(call, bound)
	}
	if err != nil && !m.count {
		return nil, err
	}
	if err != nil {
		m.tell(slog.LevelWarn, "unbounded "+call.Model, "call of a model is not bounded", slog.Any("error", err))
	}
	for _, name := range call.Unknown() {
		m.tell(slog.LevelWarn, "unknown "+name, "part of a request is not known, and is counted by its bytes",
			slog.String("part", name))
	}
	least := most
	if changes && err == nil {
		least.output = call.OutputOf(min(a.output.Floor, wants))
		bound.Output = least.output
		least.cost, _ = m.most(call, bound) // it has prices, as the most has
	}
	told := time.AfterFunc(longestQuiet, func() {
		m.tell(slog.LevelInfo, "waits", "a call of a model waits for others that are under way, or for the store")
	})
	charged, granted, err := to.admit(ctx, least, most, m.wait)
	told.Stop()
	if err != nil {
		return nil, err
	}
	c := &metered{meter: m, call: call, past: past, most: granted, wanted: most, charge: charged, to: to, ctx: ctx}
	if changes {
		c.set = a.allow(call, wants, granted, most)
	}
	return c, nil
}

// allow changes the request's maximum of output to what was granted, unless that is what it says. It returns the
// maximum of a request that had none, else 0.
func (a *asked) allow(call *usage.Call, wants int64, granted, most spend) (set int64) {
	if granted.output < most.output {
		wants = call.AnswerOf(granted.output)
	} else if a.output.Own >= 0 {
		return 0
	}
	a.change(a.output.Set(wants)...)
	if a.output.Own >= 0 {
		return 0
	}
	return wants
}

// most returns the most that the call can cost.
func (m *meter) most(call *usage.Call, bound usage.Bound) (int64, error) {
	if cost, ok := m.prices.Most(call.Model, bound); ok {
		return cost, nil
	}
	return 0, &usage.Unbounded{Reason: usage.ServerTool, Part: "tools", Model: call.Model}
}
