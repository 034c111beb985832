package watchdoghttp

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path"
	"runtime"
	"sync"
	"time"
	"weak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/watchdoghttp/internal/usage"
)

// longestRequest is up to which length the body of a request is read ahead. No API takes a longer one with text.
const longestRequest = 32 << 20

// An asked is what a request asks of a model.
type asked struct {
	req     *http.Request
	call    *usage.Call
	body    []byte           // of the request
	output  *usage.Allowance // where it says its maximum of output, nil if that stays
	changes []usage.Change   // of the body, as it is sent
}

// read returns what the request asks for, nil if it is none of a model.
func (m *Meter) read(req *http.Request, route usage.Route) *asked {
	if route.Unread != "" {
		return &asked{req: req, call: route.Unknown(usage.Unknown, path.Base(route.Unread))}
	}
	body, why := usage.Peek(req, longestRequest)
	if why != usage.Readable {
		return &asked{req: req, call: route.Unknown(why, req.Header.Get("Content-Encoding"))}
	}
	call := usage.ReadCall(route, req, body)
	if call == nil {
		return nil
	}
	a := &asked{req: req, call: call, body: body}
	if change, ok := call.WithUsage(); ok && m.IncludeUsage {
		a.change(change)
	}
	if !m.KeepMaximum {
		a.output = call.Allowance(req, body)
	}
	return a
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
	changed.Body = struct {
		io.Reader
		io.Closer // of the body that it is sent instead of
	}{again(), req.Body}
	changed.ContentLength = 0
	for _, p := range pieces {
		changed.ContentLength += int64(len(p))
	}
	changed.Header.Del("Content-Length")
	changed.Header.Del("Content-Encoding") // it was decompressed to be read
	return changed
}

// longestQuiet is how long a call waits before that is told.
const longestQuiet = time.Second

// admit admits what is asked for with the most that it can use, and makes that smaller where it does not fit.
func (m *Meter) admit(run *watchdog.Watchdog, a *asked) (*metered, error) {
	call, ctx := a.call, a.req.Context()
	of, _ := usage.Best(m.Models, call.Model)
	declared := usage.Maximum(of)
	c := &metered{meter: m, run: run, call: call, past: historyOf(ctx), ctx: ctx}
	changes, wants := a.output != nil, int64(0)
	if changes {
		wants = a.output.Wants(call, declared)
		call.Allow(wants)
	}
	bound, err := call.Bound(declared, c.past)
	c.wanted = watchdog.Amount{InputTokens: bound.Input, OutputTokens: bound.Output, Requests: 1}
	if err == nil {
		c.wanted.Cost, err = m.most(call, bound)
	}
	if err != nil && !m.CountUnbounded {
		return nil, err
	}
	if err != nil {
		m.tell(slog.LevelWarn, "unbounded "+call.Model, "call of a model is not bounded", slog.Any("error", err))
	}
	for _, name := range call.Unknown() {
		m.tell(slog.LevelWarn, "unknown "+name, "part of a request is not known, and is counted by its bytes",
			slog.String("part", name))
	}
	least := c.wanted
	if changes && err == nil {
		least.OutputTokens = call.OutputOf(min(a.output.Floor, wants))
		bound.Output = least.OutputTokens
		least.Cost, _ = m.most(call, bound) // it has prices, as the most has
	}
	told := time.AfterFunc(longestQuiet, func() {
		m.tell(slog.LevelInfo, "waits", "a call of a model waits for others that are under way, or for the store")
	})
	c.charge, c.most, err = run.AdmitWithin(ctx, "", least, c.wanted, max(cmp.Or(m.Wait, DefaultWait), 0))
	told.Stop()
	switch {
	case errors.Is(err, handle.ErrHeld):
		return nil, fmt.Errorf("%w: %w", ErrBusy, err)
	case err != nil:
		return nil, err
	}
	if changes {
		c.set = a.allow(wants, c.most.OutputTokens < c.wanted.OutputTokens, c.most.OutputTokens)
	}
	return c, nil
}

// allow changes the request's maximum of output to what was granted, unless that is what it says. It returns the
// maximum of a request that had none, else 0.
func (a *asked) allow(wants int64, smaller bool, granted int64) (set int64) {
	if smaller {
		wants = a.call.AnswerOf(granted)
	} else if a.output.Own >= 0 {
		return 0
	}
	a.change(a.output.Set(wants)...)
	if a.output.Own >= 0 {
		return 0
	}
	return wants
}

func (m *Meter) most(call *usage.Call, bound usage.Bound) (watchdog.Money, error) {
	if cost, ok := m.Prices.table().Most(call.Model, bound); ok {
		return m.money(cost), nil
	}
	return watchdog.Money{}, &usage.Unbounded{Reason: usage.ServerTool, Part: "tools", Model: call.Model}
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
