package notify

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/session"
)

// A Sender delivers the notices of an outbox to one webhook. Any number of senders, in any number of processes, can
// share an outbox. All methods are safe for concurrent use.
type Sender struct {
	outbox session.Outbox
	events watchdog.EventStore
	cfg    Config
	target *url.URL
	keys   [][]byte

	transport http.RoundTripper
	own       *http.Transport // nil if the host gave one

	mu        sync.Mutex
	restUntil time.Time       // nothing is sent before
	taken     map[string]bool // delivered, but the outbox does not know
	outage    outage
}

// New makes a sender. A store that has an outbox is both the outbox and the events, in which the sender reads what an
// end was. New wraps [watchdog.ErrInvalid] if one of them is nil, or if the config cannot be used, and the error of the
// operating system if it cannot read the file of secrets. No error has a secret, or more of the URL than its host.
func New(outbox session.Outbox, events watchdog.EventStore, cfg Config) (*Sender, error) {
	if outbox == nil || events == nil {
		return nil, fmt.Errorf("%w sender: there is no outbox or no event store; pass both", watchdog.ErrInvalid)
	}
	s := &Sender{outbox: outbox, events: events, cfg: cfg.withDefaults(), taken: map[string]bool{}}
	var badURL, badSecret error
	s.target, badURL = s.cfg.target()
	s.keys, badSecret = s.cfg.readKeys()
	if err := invalid(s.cfg.flaw(), badURL, badSecret); err != nil {
		return nil, err
	}
	s.transport, s.own = s.cfg.newTransport()
	return s, nil
}

// Run delivers what is due, at once and then at every poll, until ctx ends, and then returns nil. It lets the sends
// under way end first, which takes at most the timeout and what the store may take. What fails is tried again, and the
// log says so once at its beginning, once in an hour, and when it is over.
func (s *Sender) Run(ctx context.Context) error {
	defer s.closeIdle()
	for {
		d, err := s.deliver(ctx)
		s.report(ctx, d, err)
		if !pause(ctx, s.cfg.Poll) {
			return nil
		}
	}
}

// A Delivery says what became of notices.
type Delivery struct {
	// Delivered notices were taken by the receiver. Unwanted ones are not to be told, see [Config].
	Delivered, Unwanted int
	// Delayed notices were not taken, or the store did not answer: they are tried again. Dropped ones never.
	Delayed, Dropped int
}

func (d *Delivery) add(more Delivery) {
	d.Delivered += more.Delivered
	d.Unwanted += more.Unwanted
	d.Delayed += more.Delayed
	d.Dropped += more.Dropped
}

// Deliver delivers what is due now, and returns when that was tried, or after ctx has ended and the sends under way
// have. The error is the first failure: of the receiver, which the other notices may share, or of the store.
func (s *Sender) Deliver(ctx context.Context) (Delivery, error) {
	defer s.closeIdle()
	return s.deliver(ctx)
}

// Test sends one notice of [TypeTest] now, past the outbox, and returns the status that the receiver answered, 0 for
// none. The error says what was wrong if it did not take the notice.
func (s *Sender) Test(ctx context.Context) (status int, err error) {
	defer s.closeIdle()
	now := record.Stamp(time.Now())
	m := message{Type: TypeTest, Timestamp: now, Data: data{ID: "test_" + rand.Text(), CreatedAt: now}}
	a := s.post(ctx, m)
	return a.status, a.err
}

// Host is where the notices go, without the path, which may be a secret.
func (s *Sender) Host() string { return s.target.Host }

func (s *Sender) closeIdle() {
	if s.own != nil {
		s.own.CloseIdleConnections()
	}
}

// onStore makes a call of the store, which may take as long as an append of an event.
func onStore[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	return bounded.Within(ctx, watchdog.DefaultRecordTimeout, call)
}

// reportAgain is how often an outage that lasts is reported.
const reportAgain = time.Hour

// An outage is a time in which notices could not be delivered.
type outage struct {
	since, reported time.Time // zero for none
}

// seen returns the outage after deliveries at a time.
func (o outage) seen(now time.Time, delivered int, failing bool) outage {
	switch {
	case failing && o.since.IsZero():
		return outage{since: now, reported: now}
	case failing && now.Sub(o.reported) >= reportAgain:
		o.reported = now
	case !failing && delivered > 0:
		return outage{}
	}
	return o
}

// report writes the log of what Run did.
func (s *Sender) report(ctx context.Context, d Delivery, err error) {
	s.mu.Lock()
	was := s.outage
	s.outage = was.seen(time.Now(), d.Delivered, err != nil)
	is := s.outage
	s.mu.Unlock()
	attrs := []any{"delivered", d.Delivered, "unwanted", d.Unwanted, "delayed", d.Delayed, "dropped", d.Dropped}
	switch {
	case err != nil && is.reported != was.reported:
		s.cfg.Logger.WarnContext(ctx, "notices could not be delivered, and are tried again",
			append(attrs, "since", is.since, "error", err)...)
	case err == nil && is.since != was.since:
		s.cfg.Logger.InfoContext(ctx, "notices are delivered again", append(attrs, "since", was.since)...)
	default:
		s.cfg.Logger.DebugContext(ctx, "the outbox of notices was looked at", attrs...)
	}
}
