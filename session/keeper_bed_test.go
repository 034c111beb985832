package session_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

var errDown = errors.New("database is down")

// A database is a Memory that counts what it is asked, and that a test can spoil: what on returns for a call is its error.
type database struct {
	session.Memory

	mu      sync.Mutex
	on      func(ctx context.Context, call string) error
	calls   map[string]int
	written int  // rows, by Freshen
	mute    bool // nobody is told of cancels
}

func (d *database) called(ctx context.Context, call string) error {
	d.mu.Lock()
	if d.calls == nil {
		d.calls = map[string]int{}
	}
	d.calls[call]++
	on := d.on
	d.mu.Unlock()
	if on != nil {
		return on(ctx, call)
	}
	return nil
}

// spoil has on asked at every call; nil repairs.
func (d *database) spoil(on func(ctx context.Context, call string) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.on = on
}

// counted returns what was counted since it was last asked.
func (d *database) counted() (calls map[string]int, written int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	calls, written = d.calls, d.written
	d.calls, d.written = map[string]int{}, 0
	return calls, written
}

func (d *database) Read(ctx context.Context, aggregateType, aggregateID string) ([]watchdog.Event, error) {
	if err := d.called(ctx, "Read"); err != nil {
		return nil, err
	}
	return d.Memory.Read(ctx, aggregateType, aggregateID)
}

func (d *database) Attach(ctx context.Context, s session.Session) (before, after session.Session, err error) {
	if err := d.called(ctx, "Attach"); err != nil {
		return before, after, err
	}
	return d.Memory.Attach(ctx, s)
}

func (d *database) Freshen(ctx context.Context, fresh []session.Freshness) ([]string, error) {
	if err := d.called(ctx, "Freshen"); err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.written += len(fresh)
	d.mu.Unlock()
	return d.Memory.Freshen(ctx, fresh)
}

func (d *database) End(ctx context.Context, ends []session.Ending) error {
	if err := d.called(ctx, "End"); err != nil {
		return err
	}
	return d.Memory.End(ctx, ends)
}

func (d *database) Session(ctx context.Context, runID string) (session.Session, error) {
	if err := d.called(ctx, "Session"); err != nil {
		return session.Session{}, err
	}
	return d.Memory.Session(ctx, runID)
}

func (d *database) Ended(ctx context.Context, mark string) ([]string, string, error) {
	if err := d.called(ctx, "Ended"); err != nil {
		return nil, "", err
	}
	return d.Memory.Ended(ctx, mark)
}

func (d *database) Listen(ctx context.Context, ready func(), told func(string)) error {
	if err := d.called(ctx, "Listen"); err != nil {
		return err
	}
	return d.Memory.Listen(ctx, ready, func(runID string) {
		d.mu.Lock()
		mute := d.mute
		d.mu.Unlock()
		if !mute {
			told(runID)
		}
	})
}

// unheard is a store that nobody can listen to.
type unheard struct{ session.Store }

// A bed is a database and a keeper of it, made at its first use. Its time is a bubble's.
type bed struct {
	*testing.T
	db     *database
	cfg    session.KeeperConfig
	log    *lines
	keeper *session.Keeper
}

func inBed(t *testing.T, test func(b *bed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bed{T: t, db: &database{}, log: &lines{}}
		b.cfg = session.KeeperConfig{Store: b.db, Host: "here", Logger: slog.New(slog.NewTextHandler(b.log, nil))}
		test(b)
	})
}

func (b *bed) the() *session.Keeper {
	if b.keeper == nil {
		b.keeper = b.another("here")
	}
	return b.keeper
}

// another is the keeper of another process.
func (b *bed) another(host string) *session.Keeper {
	cfg := b.cfg
	cfg.Host = host
	k, err := session.NewKeeper(cfg)
	require.NoError(b, err)
	return k
}

// running has the keeper run until the test ends.
func (b *bed) running() {
	b.Cleanup(b.run(b.the()))
}

// run has a keeper run until the returned func is called, which waits for it.
func (b *bed) run(k *session.Keeper) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	synctest.Wait()
	return func() {
		cancel()
		require.NoError(b, <-done)
	}
}

// attach makes a watchdog that is kept, and that the test's end closes.
func (b *bed) attach(runID string) *watchdog.Watchdog {
	b.Helper()
	return b.attachTo(b.the(), runID)
}

func (b *bed) attachTo(k *session.Keeper, runID string) *watchdog.Watchdog {
	b.Helper()
	wd, err := watchdog.New(context.Background(), watchdog.Run{ID: runID, StartedAt: time.Now()}, b.watched(k))
	require.NoError(b, err)
	b.Cleanup(func() { wd.Close() })
	return wd
}

func (b *bed) watched(k *session.Keeper) watchdog.Config {
	return watchdog.Config{Store: b.db, Keeper: k, Logger: slog.New(slog.DiscardHandler)}
}

// after lets time go by, and everything happen that it sets off.
func (b *bed) after(d time.Duration) {
	time.Sleep(d) // the bubble's
	synctest.Wait()
}

// row returns a run's row, past what spoils the database.
func (b *bed) row(runID string) session.Session {
	b.Helper()
	s, err := b.db.Memory.Session(context.Background(), runID)
	require.NoError(b, err)
	return s
}

// sweep cancels a session as it was judged, as a sweeper would, and reports whether it was still so.
func (b *bed) sweep(judged session.Session) bool {
	b.Helper()
	run := sweep.StalledRun{
		RunID: judged.RunID, StartedAt: judged.StartedAt, LastEventAt: judged.LastEventAt,
		DecidedAt: time.Now(), Silence: 11 * time.Minute, Threshold: 10 * time.Minute,
	}
	cancelled, err := b.db.Cancel(context.Background(), judged, session.CancelRequest{
		Reason: watchdog.SessionIdleTimeout, Events: run.CancelEvents(),
	})
	require.NoError(b, err)
	return cancelled
}

// swept cancels a session as it is.
func (b *bed) swept(runID string) {
	b.Helper()
	require.True(b, b.sweep(b.row(runID)))
}

func (b *bed) requireRunning(wd *watchdog.Watchdog) {
	b.Helper()
	require.NoError(b, wd.Context().Err(), "%v", context.Cause(wd.Context()))
}

// requireSwept says that the run has ended with the cancel of a sweeper.
func (b *bed) requireSwept(wd *watchdog.Watchdog) {
	b.Helper()
	require.Error(b, wd.Context().Err(), "run %s goes on", wd.ID())
	require.ErrorIs(b, context.Cause(wd.Context()), watchdog.SessionIdleTimeout)
	require.Equal(b, 10*time.Minute, wd.Stop().Budget)
	require.Equal(b, session.Cancelled, b.row(wd.ID()).Status)
}

// lines is a log that is read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(text)
}

// count is how many lines have the text in them.
func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

func name(i int) string { return fmt.Sprintf("s-%d", i) }
