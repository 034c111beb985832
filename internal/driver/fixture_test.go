package driver_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/driver"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/journal"
	"github.com/seed62658d38/watchdog/internal/journal/journaltest"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

const timeout = 5 * time.Second

var (
	errFull   = journaltest.ErrFull
	errClosed = errors.New("closed")
)

// A host notes what it is told, and before that does what the test has it do there.
type host struct {
	slog.Handler
	name string
	busy func() bool
	at   map[string]func() // by what it is told

	mu      sync.Mutex
	told    []string
	signals int // that wait to be told
	asked   int
}

func (h *host) tell(what string) {
	h.mu.Lock()
	h.told = append(h.told, what)
	do := h.at[what]
	h.mu.Unlock()
	if do != nil {
		do()
	}
}

// on has the host do something whenever it is told of that.
func (h *host) on(what string, do func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at[what] = do
}

// heard is what the host was told since it was called last.
func (h *host) heard() (told []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	told, h.told = h.told, nil
	return told
}

// A stopError is the cause of a run that a stop ended.
type stopError struct{ stop *record.Cancel }

func (e *stopError) Error() string { return "stopped: " + e.stop.Reason }

// An againError ends work that is to be begun again.
type againError struct{ *machine.Entry }

func (e *againError) Error() string { return "again" }

func (h *host) Handle(_ context.Context, r slog.Record) error {
	h.tell("log: " + r.Message)
	return nil
}

func (h *host) Log() *slog.Logger { return slog.New(h) }

func (h *host) Busy() bool { return h.busy() }

func (h *host) Stopped(stop *record.Cancel) error { return &stopError{stop} }

func (h *host) Asks(*machine.Entry) {}

func (h *host) Asked(*machine.Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked++
}

func (h *host) Again(e *machine.Entry) error { return &againError{e} }

func (h *host) Traced(*machine.Signal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.signals++
}

func (h *host) Warns() bool { return true }

func (h *host) Warn(*machine.Notice) { h.tell("warning") }

func (h *host) Deliver(here bool) {
	h.mu.Lock()
	asked := h.asked
	h.asked = 0
	h.mu.Unlock()
	switch {
	case asked == 0:
	case here:
		h.tell("directive")
	default: // as readers of directives are called
		go h.tell("directive")
	}
}

func (h *host) ReportStop(err error) { h.tell(fmt.Sprint("stop: ", err)) }

// Waiting implements [driver.Trace].
func (h *host) Waiting() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.signals > 0
}

// A trace is what the host is told of signals.
type trace struct{ *host }

// Deliver implements [driver.Trace].
func (t trace) Deliver() {
	t.mu.Lock()
	waits := t.signals > 0
	t.signals = 0
	t.mu.Unlock()
	if waits {
		t.tell("trace")
	}
}

// A bench is a session, its layers and its store.
type bench struct {
	t     *testing.T
	store *journaltest.Store
	place journal.Place
	tree  driver.Tree
	host  *host // of the session
	*driver.Run
	layers []*driver.Run
}

// after are limits that end a run after so long.
func after(d time.Duration) verdict.Limits {
	l := verdict.Off()
	l.WallClock = d
	return l
}

// inBubble runs the test with a session of these limits, that has begun.
func inBubble(t *testing.T, name string, limits verdict.Limits, test func(t *testing.T, b *bench)) {
	inNewBubble(t, name, func(t *testing.T, b *bench) {
		b.begin(t.Context(), limits)
		test(t, b)
	})
}

// inNewBubble runs the test with a session that has not begun.
func inNewBubble(t *testing.T, name string, test func(t *testing.T, b *bench)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, newBench(t)) })
	})
}

func newBench(t *testing.T) *bench {
	s := &journaltest.Store{}
	b := &bench{t: t, store: s, Run: &driver.Run{}, host: newHost("s-1")}
	b.place = journal.Place{Store: s, Timeout: timeout}
	b.place.KeepCheckpoints()
	t.Cleanup(func() {
		for _, r := range append(slices.Clone(b.layers), b.Run) {
			r.End(errClosed)
			r.Record.Close()
		}
	})
	return b
}

func newHost(name string) *host {
	return &host{Handler: slog.DiscardHandler, name: name, at: map[string]func(){}}
}

func (h *host) Enabled(context.Context, slog.Level) bool { return true }

// begin begins the session.
func (b *bench) begin(ctx context.Context, limits verdict.Limits) {
	now := b.now()
	startedAt := record.Truncate(now)
	b.Node.Rules = machine.Rules{Limits: &limits, AsksBusy: b.host.busy != nil, Records: true}
	b.tree.Trace = trace{b.host}
	b.tree.Init(ctx, b.place, b.Run, b.host, machine.Name{Run: "s-1", StartedAt: startedAt})
	b.Node.Heed()
	b.tree.TakeUp(&fold.Window{StartedAt: startedAt}, now)
	b.tree.Start()
	b.tree.DeliverTrace()
	synctest.Wait()
	b.host.heard()
}

func (b *bench) now() time.Time {
	if c := b.place.Clock; c != nil {
		return c.Now()
	}
	return time.Now()
}

// layer begins a layer of a run.
func (b *bench) layer(around *driver.Run, limits verdict.Limits) (*driver.Run, *host) {
	r, now := &driver.Run{}, b.now()
	name := fmt.Sprint(around.Node.Run, "/l-", len(b.layers))
	h := newHost(name)
	r.Node.Rules = machine.Rules{Limits: &limits}
	r.InitLayer(context.Background(), around, h, machine.Name{
		Run: name, Parent: around.Node.Run, StartedAt: record.Truncate(now), Begins: true,
	})
	r.Node.Heed()
	r.BeginLayer(now.Sub(r.Node.StartedAt), &fold.Window{StartedAt: r.Node.StartedAt}, now)
	b.layers = append(b.layers, r)
	return r, h
}

// requireStop requires that the run has ended for the reason.
func requireStop(t *testing.T, r *driver.Run, reason string) {
	t.Helper()
	stop := (*stopError)(nil)
	require.ErrorAs(t, r.Cause(), &stop)
	require.Equal(t, reason, stop.stop.Reason)
	require.Error(t, r.Inner().Err())
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
