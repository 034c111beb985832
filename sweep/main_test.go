package sweep_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A bed is a database with sessions, whose calls can be spoilt, and a sweeper that is made at its first use. Its time is a bubble's.
type bed struct {
	*testing.T
	*session.Memory
	cfg sweep.Config
	log *buffer

	onStalled func(ctx context.Context, q session.Query) error // before a page is read
	onPage    func(page *session.Page)                         // before it is returned
	onCancel  func(ctx context.Context, s session.Session) error

	sweeper *sweep.Sweeper

	mu        sync.Mutex
	pages     []time.Time
	cancelled []string
}

func inBed(t *testing.T, test func(b *bed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bed{T: t, Memory: &session.Memory{Clock: time.Now}, log: &buffer{}}
		b.cfg.Logger = slog.New(slog.NewJSONHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		test(b)
	})
}

func (b *bed) Stalled(ctx context.Context, q session.Query) (session.Page, error) {
	b.mu.Lock()
	b.pages = append(b.pages, time.Now())
	b.mu.Unlock()
	if b.onStalled != nil {
		if err := b.onStalled(ctx, q); err != nil {
			return session.Page{}, err
		}
	}
	page, err := b.Memory.Stalled(ctx, q)
	if b.onPage != nil {
		b.onPage(&page)
	}
	return page, err
}

func (b *bed) Cancel(ctx context.Context, s session.Session, c session.CancelRequest) (bool, error) {
	if b.onCancel != nil {
		if err := b.onCancel(ctx, s); err != nil {
			return false, err
		}
	}
	cancelled, err := b.Memory.Cancel(ctx, s, c)
	if cancelled {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.cancelled = append(b.cancelled, s.RunID)
	}
	return cancelled, err
}

// put adds a session that was made a day ago and had its last event some time ago.
func (b *bed) put(runID string, silence time.Duration) {
	b.row(session.Session{
		RunID: runID, Status: session.Active, CreatedAt: time.Now().Add(-24 * time.Hour), LastEventAt: time.Now().Add(-silence),
		StartedAt: time.Now().Add(-24 * time.Hour), Host: "there", Attempt: 1,
	})
}

// row adds a session as it is.
func (b *bed) row(s session.Session) { require.NoError(b, b.Put(context.Background(), s)) }

// putStalled adds sessions s-00, s-01 and so on, the first silent for longest, for all longer than the default threshold.
func (b *bed) putStalled(count int) (names []string) {
	for i := range count {
		names = append(names, fmt.Sprintf("s-%02d", i))
		b.put(names[i], time.Hour-time.Duration(i)*time.Second)
	}
	return names
}

// wake gives a session an event.
func (b *bed) wake(runID string) {
	_, err := b.Freshen(context.Background(), []session.Freshness{{RunID: runID, Attempt: 1}})
	require.NoError(b, err)
}

func (b *bed) the() *sweep.Sweeper {
	if b.sweeper == nil {
		s, err := sweep.New(b, b, b.cfg)
		require.NoError(b, err)
		b.sweeper = s
	}
	return b.sweeper
}

// pass asks for a pass in which nothing goes wrong.
func (b *bed) pass() sweep.Pass {
	b.Helper()
	p, err := b.the().Sweep(b.Context())
	require.NoError(b, err)
	return p
}

// run has the sweeper run until the returned func is called, which waits for it.
func (b *bed) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	s, done := b.the(), make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	synctest.Wait()
	return func() {
		b.Helper()
		cancel()
		require.NoError(b, <-done)
	}
}

// after lets time go by.
func (b *bed) after(d time.Duration) {
	time.Sleep(d) // the bubble's
	synctest.Wait()
}

func (b *bed) ended() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.cancelled...)
}

func (b *bed) events(runID string) (kinds []string) {
	all, err := b.Read(context.Background(), watchdog.AggregateType, runID)
	require.NoError(b, err)
	for _, e := range all {
		kinds = append(kinds, e.Type)
	}
	return kinds
}

func (b *bed) status(runID string) session.Status {
	s, err := b.Session(context.Background(), runID)
	require.NoError(b, err)
	return s.Status
}

// outcomes are what became of the sessions of a pass.
func outcomes(p sweep.Pass) (all []string) {
	for _, c := range p.Cases {
		all = append(all, c.Session.RunID+" "+string(c.Handling))
	}
	return all
}

// A buffer is a log that is read while it is written.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(text)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// golden compares a text with a file that a person reads in the diff.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "run the test with -update to write %s", path)
}
