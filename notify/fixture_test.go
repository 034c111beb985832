package notify_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/notify"
	"github.com/seed62658d38/watchdog/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	secret      = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	otherSecret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	hook        = "https://hooks.example.com/path-canary"
)

// quiet is the logger of tests that stop runs on purpose.
var quiet = slog.New(slog.DiscardHandler)

var errDown = errors.New("database is down")

// A box is a database with an outbox, whose calls can fail.
type box struct {
	session.Memory

	ahead  atomic.Int64 // by how much its clock is wrong
	mu     sync.Mutex
	around func(ctx context.Context, call string, do func() error) error // each call
	calls  int                                                           // of ClaimNotices
}

func newBox() *box {
	b := &box{Memory: session.Memory{Outbox: true}}
	b.Clock = func() time.Time { return time.Now().Add(time.Duration(b.ahead.Load())) }
	return b
}

// call makes a call of the database.
func (b *box) call(ctx context.Context, name string, do func() error) error {
	b.mu.Lock()
	around := b.around
	b.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case around == nil:
		return do()
	}
	return around(ctx, name, do)
}

// onCall has a func called before every call, which fails if it does; nil removes it.
func (b *box) onCall(on func(ctx context.Context, call string) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.around = nil; on == nil {
		return
	}
	b.around = func(ctx context.Context, call string, do func() error) error {
		if err := errors.Join(on(ctx, call), ctx.Err()); err != nil {
			return err
		}
		return do()
	}
}

func (b *box) Select(ctx context.Context, by watchdog.Selection) (events []watchdog.Event, err error) {
	err = b.call(ctx, "read", func() (err error) { events, err = b.Memory.Select(ctx, by); return err })
	return events, err
}

func (b *box) PutNotices(ctx context.Context, notices ...session.Notice) error {
	return b.call(ctx, "put", func() error { return b.Memory.PutNotices(ctx, notices...) })
}

func (b *box) ClaimNotices(ctx context.Context, most int, lasts time.Duration) (all []session.Notice, err error) {
	err = b.call(ctx, "claim", func() (err error) {
		b.mu.Lock()
		b.calls++
		b.mu.Unlock()
		all, err = b.Memory.ClaimNotices(ctx, most, lasts)
		return err
	})
	return all, err
}

func (b *box) FinishNotices(ctx context.Context, notices ...session.Notice) error {
	return b.call(ctx, "finish", func() error { return b.Memory.FinishNotices(ctx, notices...) })
}

func (b *box) DelayNotice(ctx context.Context, n session.Notice, pause time.Duration) error {
	return b.call(ctx, "delay", func() error { return b.Memory.DelayNotice(ctx, n, pause) })
}

// left is how many notices are in the outbox.
func (b *box) left() int {
	later := b.Memory.Clone()
	later.Clock = func() time.Time { return time.Now().AddDate(50, 0, 0) }
	notices, _ := later.ClaimNotices(context.Background(), 100, time.Hour) // a memory does not fail
	return len(notices)
}

// put stores an event, with its notice if it is an end.
func (b *box) put(t *testing.T, e watchdog.Event) string {
	t.Helper()
	require.NoError(t, b.Append(t.Context(), e))
	return e.ID
}

// stop puts the stop of a run, and returns its ID.
func (b *box) stop(t *testing.T, run string) string {
	t.Helper()
	wd, err := watchdog.New(t.Context(), watchdog.Run{ID: run, StartedAt: time.Now()}, watchdog.Config{
		Store: &b.Memory, Logger: quiet,
	})
	require.NoError(t, err)
	wd.Note("note-canary")
	_, err = wd.Cancel(watchdog.Cancellation{Reason: "quota_used", Elapsed: 90 * time.Second, Budget: time.Minute})
	require.NoError(t, err)
	require.NoError(t, wd.Close())
	events, err := b.Memory.Read(t.Context(), watchdog.AggregateType, run)
	require.NoError(t, err)
	require.Len(t, events, 1)
	return events[0].ID
}

// stops puts so many.
func (b *box) stops(t *testing.T, n int) (ids []string) {
	t.Helper()
	for i := range n {
		ids = append(ids, b.stop(t, "run-"+strconv.Itoa(i)))
	}
	return ids
}

// A receiver is a transport to a receiver that verifies what it gets. Without an answer it takes it.
type receiver struct {
	mu     sync.Mutex
	answer func(r *http.Request, id string) (*http.Response, error)
	got    []got
	taken  map[string]int // by ID, those that were answered 204
	now    int            // requests under way
	peak   int
}

type got struct {
	id     string
	at     time.Time
	header http.Header
	body   string
	err    error // of Verify
}

func (r *receiver) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	id, err := notify.Verify(request.Header, body, secret)
	r.mu.Lock()
	r.got = append(r.got, got{id, time.Now(), request.Header, string(body), err})
	r.now++
	r.peak = max(r.peak, r.now)
	answer := r.answer
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.now--
		r.mu.Unlock()
	}()
	if answer != nil {
		if response, err := answer(request, id); response != nil || err != nil {
			return response, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taken == nil {
		r.taken = map[string]int{}
	}
	r.taken[id]++
	return respond(http.StatusNoContent), nil
}

func (r *receiver) answers(answer func(request *http.Request, id string) (*http.Response, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

// answersAfter has each request taken after a while.
func (r *receiver) answersAfter(d time.Duration) {
	r.answers(func(*http.Request, string) (*http.Response, error) {
		time.Sleep(d)
		return nil, nil
	})
}

// answersWith has each request answered so; 0 is a delivery.
func (r *receiver) answersWith(status int, header ...string) {
	r.answers(func(*http.Request, string) (*http.Response, error) {
		if status == 0 {
			return nil, nil
		}
		return respond(status, header...), nil
	})
}

func (r *receiver) all() []got {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// last is the last of what came with the ID.
func (r *receiver) last(id string) (last got) {
	for _, g := range r.all() {
		if g.id == id {
			last = g
		}
	}
	return last
}

func (r *receiver) ids() (ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.taken {
		ids = append(ids, id)
	}
	return ids
}

func (r *receiver) times(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.taken[id]
}

func respond(status int, header ...string) *http.Response {
	response := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader([]byte("body-canary")))}
	for i := 0; i+1 < len(header); i += 2 {
		response.Header.Set(header[i], header[i+1])
	}
	return response
}

// hang waits until the request is given up.
func hang(request *http.Request, _ string) (*http.Response, error) {
	<-request.Context().Done()
	return nil, request.Context().Err()
}

func logTo(log io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(log, nil)) }

// A database has events, and an outbox.
type database interface {
	session.Outbox
	watchdog.EventStore
}

// newSender makes a sender; set changes its config.
func newSender(t *testing.T, db database, r http.RoundTripper, set ...func(*notify.Config)) *notify.Sender {
	t.Helper()
	cfg := notify.Config{URL: hook, Secrets: []string{secret}, Transport: r, Logger: quiet}
	for _, s := range set {
		s(&cfg)
	}
	sender, err := notify.New(db, db, cfg)
	require.NoError(t, err)
	return sender
}

// deliver has a sender deliver what there is, without an error.
func deliver(t *testing.T, s *notify.Sender) notify.Delivery {
	t.Helper()
	delivered, err := s.Deliver(t.Context())
	require.NoError(t, err)
	return delivered
}

// run runs senders until end is called, which waits for them.
func run(t *testing.T, senders ...*notify.Sender) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, s := range senders {
		running.Go(func() {
			if err := s.Run(ctx); err != nil {
				t.Error(fmt.Errorf("run: %w", err))
			}
		})
	}
	return func() {
		cancel()
		running.Wait()
	}
}
