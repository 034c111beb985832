package session_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/locked"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	errDown    = errors.New("database is down")
	errTrigger = errors.New("the host's trigger refuses it")
)

// A database is a Memory that counts its calls. A test can make calls fail: a call returns the error of the hook. Some
// rows can be locked by others, or refused.
type database struct {
	session.Memory

	mu          sync.Mutex
	hook        func(ctx context.Context, call string) error
	calls       map[string]int
	written     int                     // rows, by Freshen
	dropNotices bool                    // Listen tells of no cancel
	after       func(call string) error // loses the answer of a call that was carried out

	serving atomic.Pointer[session.Memory] // that was promoted
	broken  atomic.Bool                    // the next renewal finds its connection broken

	locked   map[string]bool        // runs whose rows others have locked
	patient  bool                   // a row alone is waited for, and its lock ends meanwhile
	stuck    string                 // a run whose lock does not end
	refused  map[string]bool        // runs whose rows a trigger of the host's refuses
	attempts map[string][]time.Time // when each row was tried
	alone    []string               // the runs whose rows were tried alone

	asked []string // what Ended was asked, and told
}

func newDatabase() *database {
	return &database{locked: map[string]bool{}, refused: map[string]bool{}, attempts: map[string][]time.Time{}}
}

// change changes what others have locked or refuse.
func (d *database) change(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

// split returns the runs that are skipped, and the rows that may be written.
func split[E any](d *database, all []E, runOf func(E) string) (skipped session.Skipped, free []E) {
	d.mu.Lock()
	defer d.mu.Unlock()
	skipped.Failed = map[string]error{}
	for _, e := range all {
		runID := runOf(e)
		d.attempts[runID] = append(d.attempts[runID], time.Now())
		if len(all) == 1 {
			d.alone = append(d.alone, runID)
		}
		switch {
		case d.locked[runID] && !(d.patient && len(all) == 1 && runID != d.stuck):
			skipped.Locked = append(skipped.Locked, runID)
		case d.refused[runID]:
			skipped.Failed[runID] = errTrigger
		default:
			free = append(free, e)
		}
	}
	return skipped, free
}

// now returns the memory that has the sessions. The events stay where they are.
func (d *database) now() *session.Memory {
	if promoted := d.serving.Load(); promoted != nil {
		return promoted
	}
	return &d.Memory
}

// promote has an asynchronous standby, which got nothing after it was copied, take the place of the server.
func (d *database) promote(standby *session.Memory) {
	d.broken.Store(true)
	d.serving.Store(standby)
}

func (d *database) called(ctx context.Context, call string) error {
	d.mu.Lock()
	if d.calls == nil {
		d.calls = map[string]int{}
	}
	d.calls[call]++
	on := d.hook
	d.mu.Unlock()
	if on != nil {
		return on(ctx, call)
	}
	return nil
}

// onCall sets the hook of every call; nil removes it.
func (d *database) onCall(on func(ctx context.Context, call string) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hook = on
}

// fail has some calls fail from now on.
func (d *database) fail(names ...string) {
	d.onCall(func(_ context.Context, call string) error {
		if slices.Contains(names, call) {
			return errDown
		}
		return nil
	})
}

// delay has one call take a while from now on.
func (d *database) delay(name string, takes time.Duration) {
	d.onCall(func(_ context.Context, call string) error {
		if call == name {
			time.Sleep(takes) // fake time
		}
		return nil
	})
}

// hang has one call return only when its context ends.
func (d *database) hang(name string) {
	d.onCall(func(ctx context.Context, call string) error {
		if call == name {
			<-ctx.Done()
		}
		return ctx.Err()
	})
}

// takeCounts returns the counts since its last call.
func (d *database) takeCounts() (calls map[string]int, written int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	calls, written = d.calls, d.written
	d.calls, d.written = map[string]int{}, 0
	return calls, written
}

// taken is takeCounts for the calls of one name.
func (d *database) taken(name string) int {
	calls, _ := d.takeCounts()
	return calls[name]
}

// call makes a call of the Memory, unless the hook fails it.
func call[T any](ctx context.Context, d *database, name string, do func() (T, error)) (got T, err error) {
	if err := d.called(ctx, name); err != nil {
		return got, err
	}
	return do()
}

// lose has the answer of one call lost from now on.
func (d *database) lose(name string) {
	d.after = func(call string) error {
		if call == name {
			return errDown
		}
		return nil
	}
}

// onEnd has a func called once, after ends were written and before that is answered.
func (d *database) onEnd(do func()) {
	d.after = func(call string) error {
		if call == "End" {
			d.after = nil
			do()
		}
		return nil
	}
}

// answer returns the error of a call that was carried out.
func (d *database) answer(name string, err error) error {
	if d.after != nil && err == nil {
		return d.after(name)
	}
	return err
}

func (d *database) Read(ctx context.Context, aggregateType, aggregateID string) ([]watchdog.Event, error) {
	return call(ctx, d, "Read", func() ([]watchdog.Event, error) { return d.Memory.Read(ctx, aggregateType, aggregateID) })
}

func (d *database) Select(ctx context.Context, s event.Selection) ([]watchdog.Event, error) {
	return call(ctx, d, "Read", func() ([]watchdog.Event, error) { return d.Memory.Select(ctx, s) })
}

func (d *database) Append(ctx context.Context, events ...watchdog.Event) error {
	if err := d.called(ctx, "Append"); err != nil {
		return err
	}
	return d.answer("Append", d.Memory.Append(ctx, events...))
}

func (d *database) Transact(ctx context.Context, exchanges ...*event.Exchange) error {
	if err := d.called(ctx, "Transact"); err != nil {
		return err
	}
	return d.answer("Transact", d.Memory.Transact(ctx, exchanges...))
}

func (d *database) Attach(ctx context.Context, s session.Session) (before, after session.Session, err error) {
	if err := d.called(ctx, "Attach"); err != nil {
		return before, after, err
	}
	before, after, err = d.now().Attach(ctx, s)
	return before, after, d.answer("Attach", err)
}

func (d *database) Freshen(ctx context.Context, lease string, fresh []session.Freshness) (session.Skipped, error) {
	skipped, free := split(d, fresh, func(f session.Freshness) string { return f.RunID })
	written, err := call(ctx, d, "Freshen", func() (session.Skipped, error) {
		d.change(func() { d.written += len(free) })
		return d.now().Freshen(ctx, lease, free)
	})
	skipped.Gone, skipped.Locked = written.Gone, append(skipped.Locked, written.Locked...)
	return skipped, err
}

func (d *database) End(ctx context.Context, ends []session.Ending) (session.Skipped, error) {
	skipped, free := split(d, ends, func(e session.Ending) string { return e.RunID })
	written, err := call(ctx, d, "End", func() (session.Skipped, error) { return d.now().End(ctx, free) })
	skipped.Gone, skipped.Locked = written.Gone, append(skipped.Locked, written.Locked...)
	return skipped, d.answer("End", err)
}

func (d *database) BeginLease(ctx context.Context, l session.Lease) error {
	if err := d.called(ctx, "BeginLease"); err != nil {
		return err
	}
	return d.now().BeginLease(ctx, l)
}

func (d *database) RenewLease(ctx context.Context, l session.Lease) error {
	if err := d.called(ctx, "RenewLease"); err != nil {
		return err
	}
	if d.broken.CompareAndSwap(true, false) {
		return errors.New("unexpected EOF")
	}
	return d.now().RenewLease(ctx, l)
}

func (d *database) ExpireLease(ctx context.Context, l session.Lease) (expired bool, left int, err error) {
	if err := d.called(ctx, "ExpireLease"); err != nil {
		return false, 0, err
	}
	return d.now().ExpireLease(ctx, l)
}

func (d *database) LeaseSessions(ctx context.Context, id string) ([]session.AttemptID, error) {
	return call(ctx, d, "LeaseSessions", func() ([]session.AttemptID, error) { return d.now().LeaseSessions(ctx, id) })
}

func (d *database) Session(ctx context.Context, runID string) (session.Session, error) {
	return call(ctx, d, "Session", func() (session.Session, error) { return d.now().Session(ctx, runID) })
}

func (d *database) Ended(ctx context.Context, lease string, told []session.AttemptID) ([]session.AttemptID, error) {
	return call(ctx, d, "Ended", func() ([]session.AttemptID, error) {
		ended, err := d.now().Ended(ctx, lease, told)
		if len(told)+len(ended) > 0 {
			d.change(func() { d.asked = append(d.asked, fmt.Sprintf("told %v, ended %v", told, ended)) })
		}
		return ended, err
	})
}

func (d *database) Listen(ctx context.Context, ready func(), told func(string)) error {
	if err := d.called(ctx, "Listen"); err != nil {
		return err
	}
	return d.Memory.Listen(ctx, ready, func(runID string) {
		d.mu.Lock()
		mute := d.dropNotices
		d.mu.Unlock()
		if !mute {
			told(runID)
		}
	})
}

// pollOnly is a store that is not a Listener.
type pollOnly struct{ session.Store }

// A fixture is a database and a keeper of it, which is made at its first use. It lives in a synctest bubble.
type fixture struct {
	*testing.T
	db   *database
	cfg  session.KeeperConfig
	log  *locked.Buffer
	made *session.Keeper
}

func inBubble(t *testing.T, test func(f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{T: t, db: newDatabase(), log: &locked.Buffer{}}
		f.cfg = session.KeeperConfig{Store: f.db, Host: "here", Logger: slog.New(slog.NewTextHandler(f.log, nil))}
		test(f)
	})
}

// subtest is inBubble for a part of a test.
func subtest(t *testing.T, name string, test func(f *fixture)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inBubble(t, test) })
}

// running is subtest with a keeper that runs.
func running(t *testing.T, name string, test func(f *fixture)) {
	t.Helper()
	subtest(t, name, func(f *fixture) {
		f.start()
		test(f)
	})
}

func (f *fixture) keeper() *session.Keeper {
	if f.made == nil {
		f.made = f.newKeeper("here")
	}
	return f.made
}

// newKeeper makes the keeper of another process.
func (f *fixture) newKeeper(host string) *session.Keeper {
	cfg := f.cfg
	cfg.Host = host
	k, err := session.NewKeeper(cfg)
	require.NoError(f, err)
	k.BeginRunning()
	return k
}

// start runs the keeper until the test ends.
func (f *fixture) start() {
	f.Cleanup(f.run(f.keeper()))
	f.Cleanup(func() { // or the keeper's end waits for them
		f.db.change(func() { clear(f.db.locked); clear(f.db.refused) })
	})
}

// run starts a keeper. The returned func stops it and waits for it.
func (f *fixture) run(k *session.Keeper) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	synctest.Wait()
	return func() {
		cancel()
		require.NoError(f, <-done)
	}
}

// attach makes a watchdog that is kept until the end of the test.
func (f *fixture) attach(runID string) *watchdog.Watchdog {
	f.Helper()
	return f.attachTo(f.keeper(), runID)
}

func (f *fixture) attachTo(k *session.Keeper, runID string) *watchdog.Watchdog {
	f.Helper()
	return f.attachAs(runID, f.config(k))
}

// attachAs is attach with a config of its own.
func (f *fixture) attachAs(runID string, cfg watchdog.Config) *watchdog.Watchdog {
	f.Helper()
	wd, err := f.try(runID, cfg)
	require.NoError(f, err)
	f.Cleanup(func() { wd.Close() })
	return wd
}

// try attaches to a run, which may fail.
func (f *fixture) try(runID string, cfg watchdog.Config) (*watchdog.Watchdog, error) {
	return watchdog.New(context.Background(), watchdog.Run{ID: runID, StartedAt: time.Now()}, cfg)
}

func (f *fixture) config(k *session.Keeper) watchdog.Config {
	return watchdog.Config{Store: f.db, Keeper: k, Logger: slog.New(slog.DiscardHandler)}
}

// advance lets time go by, and waits for everything that it sets off.
func (f *fixture) advance(d time.Duration) {
	time.Sleep(d) // fake time
	synctest.Wait()
}

// row returns a run's row, past the hook.
func (f *fixture) row(runID string) session.Session {
	f.Helper()
	s, err := f.db.now().Session(context.Background(), runID)
	require.NoError(f, err)
	return s
}

// awake is how late a keeper looks at a run that had nothing new.
const awake = session.DefaultPromise/3 + session.DefaultPace

// shown returns the last activity that a run's row shows.
func (f *fixture) shown(runID string) time.Time {
	f.Helper()
	row := f.row(runID)
	if row.Lease == "" || row.Activity == session.NoActivity {
		return row.LastEventAt
	}
	lease := f.lease(row.Lease)
	return lease.RenewedAt.Add(row.Activity - lease.Clock).Round(time.Millisecond) // stores keep microseconds
}

// lease returns a lease, past the hook.
func (f *fixture) lease(id string) session.Lease {
	f.Helper()
	for _, l := range f.leases() {
		if l.ID == id {
			return l
		}
	}
	require.FailNow(f, "there is no lease", id)
	return session.Lease{}
}

// cancelAs cancels a session as a sweeper would, and reports whether it still was as judged.
func (f *fixture) cancelAs(judged session.Session) bool {
	f.Helper()
	run := sweep.StalledRun{
		RunID: judged.RunID, StartedAt: judged.StartedAt, LastEventAt: judged.LastEventAt,
		DecidedAt: time.Now(), Silence: 11 * time.Minute, Threshold: 10 * time.Minute,
	}
	outcome, err := f.db.Cancel(context.Background(), judged, session.CancelRequest{
		Reason: watchdog.SessionIdleTimeout, Events: run.CancelEvents(),
	})
	require.NoError(f, err)
	return outcome == session.Done
}

// cancel cancels a session as it is now.
func (f *fixture) cancel(runID string) {
	f.Helper()
	require.True(f, f.cancelAs(f.row(runID)))
}

// finish has another process write that the first attempt at a run has finished.
func (f *fixture) finish(runID string) {
	f.Helper()
	ends := []session.Ending{{RunID: runID, Attempt: 1, Status: session.Finished}}
	_, err := f.db.Memory.End(context.Background(), ends)
	require.NoError(f, err)
}

// requireTaken checks that another process has taken the run over.
func (f *fixture) requireTaken(wd *watchdog.Watchdog) (taken *session.TakeoverError) {
	f.Helper()
	require.ErrorAs(f, context.Cause(wd.Context()), &taken)
	return taken
}

func (f *fixture) requireRunning(wd *watchdog.Watchdog) {
	f.Helper()
	require.NoError(f, wd.Context().Err(), "%v", context.Cause(wd.Context()))
}

// requireCancelled checks that the run has ended with the cancel of a sweeper.
func (f *fixture) requireCancelled(wd *watchdog.Watchdog) {
	f.Helper()
	require.Error(f, wd.Context().Err(), "run %s goes on", wd.ID())
	require.ErrorIs(f, context.Cause(wd.Context()), watchdog.SessionIdleTimeout)
	require.Equal(f, 10*time.Minute, wd.Stop().Budget)
	require.Equal(f, session.Cancelled, f.row(wd.ID()).Status)
}

// logged returns how often a text is in the log.
func (f *fixture) logged(text string) int { return strings.Count(f.log.String(), text) }

func name(i int) string { return fmt.Sprintf("s-%d", i) }
