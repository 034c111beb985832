package driver_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/event"
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
	at   map[string]func() // by what it is told

	mu    sync.Mutex
	told  []string
	asked int
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

func (h *host) Stopped(stop *record.Cancel) error { return &stopError{stop} }

func (h *host) Asks(*machine.Entry) {}

func (h *host) Asked(*machine.Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked++
}

func (h *host) Again(e *machine.Entry) error { return &againError{e} }

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
	b.place = journal.Place{Store: s.Journal(), Timeout: timeout}
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
	startedAt := event.Truncate(now)
	b.Node.Rules = machine.Rules{Limits: &limits, Records: true}
	b.tree.Init(ctx, b.place, b.Run, b.host, machine.Name{Run: "s-1", StartedAt: startedAt})
	b.Node.Heed()
	b.tree.TakeUp(&fold.Window{StartedAt: startedAt}, now)
	b.tree.Start()
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
		Run: name, Parent: around.Node.Run, StartedAt: event.Truncate(now), Begins: true,
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

// A dependent counts how often it was ended, and has the last cause.
type dependent struct {
	driver.Dependent
	ended atomic.Int32
	cause atomic.Value
}

func (d *dependent) cancel(cause error) {
	d.ended.Add(1)
	d.cause.Store(cause)
}

func (d *dependent) stop() bool {
	d.ended.Add(1)
	return true
}

func never() bool { return false }

// TestDependent protects that what a run ends with is ended once, unless it has ended before.
func TestDependent(t *testing.T) {
	inBubble(t, "work and registrations, once, when the run ends", after(time.Hour), func(t *testing.T, b *bench) {
		var work, registered, ended, forgotten dependent
		require.True(t, work.Begin(b.Run, work.cancel))
		require.True(t, registered.Register(b.Run, registered.stop, never))
		require.True(t, ended.Begin(b.Run, ended.cancel))
		require.True(t, forgotten.Register(b.Run, forgotten.stop, never))
		require.Nil(t, ended.End(b.Run))
		require.NotNil(t, forgotten.End(b.Run))
		require.True(t, b.End(errClosed))
		require.False(t, b.End(errFull))
		synctest.Wait()
		require.EqualValues(t, 1, work.ended.Load())
		require.Equal(t, errClosed, work.cause.Load())
		require.EqualValues(t, 1, registered.ended.Load())
		require.Zero(t, ended.ended.Load()+forgotten.ended.Load())
		require.Nil(t, registered.End(b.Run), "it was stopped already")
		require.False(t, work.Begin(b.Run, work.cancel), "a run that has ended begins nothing")
		require.False(t, work.Register(b.Run, work.stop, func() bool { return true }))
	})
	inBubble(t, "one that blocks holds up neither the end nor who asked for it", after(time.Hour), func(t *testing.T, b *bench) {
		open := make(chan struct{})
		var work dependent
		work.Begin(b.Run, func(error) { <-open })
		began := time.Now()
		require.True(t, b.End(errClosed))
		require.Zero(t, time.Since(began))
		require.Equal(t, errClosed, b.Cause())
		close(open)
	})
	inBubble(t, "one that panics keeps none of the others", after(time.Hour), func(t *testing.T, b *bench) {
		var first, bad, last dependent
		first.Begin(b.Run, first.cancel)
		bad.Begin(b.Run, func(error) { panic("secret") })
		last.Begin(b.Run, last.cancel)
		b.End(errClosed)
		synctest.Wait()
		require.EqualValues(t, 2, first.ended.Load()+last.ended.Load())
	})
	l := verdict.Off()
	l.Idle = 10 * time.Minute
	l.Ladders = verdict.Ladders{verdict.Idle: []verdict.Directive{verdict.DirectRetry, verdict.DirectWait}}
	inBubble(t, "work that is to be begun again ends at the directive, and registrations stay", l, func(t *testing.T, b *bench) {
		var work, registered dependent
		work.Begin(b.Run, work.cancel)
		registered.Register(b.Run, registered.stop, never)
		time.Sleep(10*time.Minute + 1)
		synctest.Wait()
		require.EqualValues(t, 1, work.ended.Load())
		require.IsType(t, &againError{}, work.cause.Load())
		require.Zero(t, registered.ended.Load())
		require.True(t, work.Begin(b.Run, work.cancel), "it is begun again")
		time.Sleep(10*time.Minute + 1)
		synctest.Wait()
		require.EqualValues(t, 1, work.ended.Load(), "a wait ends nothing")
		b.End(errClosed)
		synctest.Wait()
		require.EqualValues(t, 2, work.ended.Load())
		require.EqualValues(t, 1, registered.ended.Load())
	})
	t.Run("whichever of many have ended before", func(t *testing.T) {
		for seed := range uint64(40) {
			synctest.Test(t, func(t *testing.T) {
				r, b := rand.New(rand.NewPCG(seed, 3)), newBench(t)
				b.begin(t.Context(), after(time.Hour))
				all, gone := make([]dependent, 1+r.IntN(12)), map[int]bool{}
				for i := range all {
					if r.IntN(2) == 0 {
						all[i].Begin(b.Run, all[i].cancel)
					} else {
						all[i].Register(b.Run, all[i].stop, never)
					}
					if at := r.IntN(i + 1); r.IntN(2) == 0 {
						gone[at] = true
						all[at].End(b.Run)
					}
				}
				b.End(errClosed)
				synctest.Wait()
				for i := range all {
					require.Equal(t, !gone[i], all[i].ended.Load() == 1, "seed %d, %d of %d", seed, i, len(all))
				}
			})
		}
	})
}

// TestLeave protects what an end leaves to be recorded: whoever closes the run appends it with the rest.
func TestLeave(t *testing.T) {
	l := verdict.Off()
	l.Idle, l.Ladders = 10*time.Minute, verdict.Ladders{verdict.Idle: []verdict.Directive{verdict.DirectWait}}
	progress := func(b *bench) (n int) {
		events, err := b.store.Read(b.t.Context(), event.AggregateType, "s-1")
		require.NoError(b.t, err)
		for _, e := range events {
			if e.Type == event.Progress {
				n++
			}
		}
		return n
	}
	inBubble(t, "progress that nobody looked at", l, func(t *testing.T, b *bench) {
		time.Sleep(10*time.Minute + 1)
		synctest.Wait()
		time.Sleep(time.Minute)
		b.Node.Pulse.Load().At(true, false, b.tree.Since())
		b.End(errClosed)
		synctest.Wait()
		require.Zero(t, progress(b))
		require.True(t, b.Record.Waiting())
		require.NoError(t, b.Record.Flush())
		require.Equal(t, 1, progress(b))
	})
	inBubble(t, "by a caller that forgets it the lane tries it a second later", l, func(t *testing.T, b *bench) {
		time.Sleep(10*time.Minute + 1)
		synctest.Wait()
		time.Sleep(time.Minute)
		b.Node.Pulse.Load().At(true, false, b.tree.Since())
		b.End(errClosed)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, 1, progress(b))
	})
}

// A waiter counts how often it was told.
type waiter struct{ told atomic.Int32 }

func (w *waiter) Released() { w.told.Add(1) }

// TestWaiter protects that who waits for the end of a pause is told once.
func TestWaiter(t *testing.T) {
	open := func(b *bench, key string) func() {
		in := machine.Input{
			Kind: machine.OpenHold, ID: verdict.HoldID{Key: key}, Limits: verdict.HoldLimits{Cap: time.Hour}, Pauses: true,
		}
		b.Take(&in)
		require.NotNil(b.t, in.Hold)
		return func() { b.Take(&machine.Input{Kind: machine.CloseHold, Hold: in.Hold}) }
	}
	inBubble(t, "at the release, unless it was forgotten", after(time.Hour), func(t *testing.T, b *bench) {
		var one, other, forgotten waiter
		release := open(b, "ask")
		b.Locked(func() {
			b.Forget(&forgotten)
			for _, w := range []*waiter{&one, &other, &forgotten} {
				b.Await(w)
			}
			b.Forget(&forgotten)
		})
		time.Sleep(time.Minute)
		require.Zero(t, one.told.Load())
		release()
		synctest.Wait()
		open(b, "again")()
		synctest.Wait()
		require.EqualValues(t, 1, one.told.Load())
		require.EqualValues(t, 1, other.told.Load())
		require.Zero(t, forgotten.told.Load())
	})
	inBubble(t, "not after the end of the run", after(time.Hour), func(t *testing.T, b *bench) {
		var w waiter
		b.End(errClosed)
		b.Locked(func() { b.Await(&w) })
		b.End(errClosed)
		synctest.Wait()
		require.Zero(t, w.told.Load())
		_, nothing := b.Close(errClosed)
		require.True(t, nothing, "nothing is left to do")
	})
}

// TestComplete protects that a run is complete once that is recorded, and goes on where it cannot be.
func TestComplete(t *testing.T) {
	inBubble(t, "it is recorded before the run ends", after(time.Hour), func(t *testing.T, b *bench) {
		b.store.FailWith(func(context.Context, journaltest.Call) error {
			require.NoError(t, b.Inner().Err())
			return nil
		})
		ended, err := b.RecordComplete(0)
		require.NoError(t, err)
		require.True(t, ended)
		b.Locked(func() { require.True(t, b.Complete()) })
		require.Equal(t, machine.ErrComplete, b.Cause())
		ended, err = b.RecordComplete(0)
		require.NoError(t, err)
		require.False(t, ended)
	})
	inBubble(t, "a try that fails is that of all who waited for it", after(time.Hour), func(t *testing.T, b *bench) {
		b.store.FailWith(func(context.Context, journaltest.Call) error { time.Sleep(time.Second); return errFull })
		came, before := make(chan error, 3), b.FailedCompletes()
		began := time.Now()
		for range 3 {
			go func() {
				_, err := b.RecordComplete(before)
				came <- err
			}()
		}
		for range 3 {
			require.ErrorIs(t, <-came, errFull)
		}
		require.Less(t, time.Since(began), timeout, "they did not try one after the other")
		require.Equal(t, 1, b.FailedCompletes())
		require.False(t, b.Over())
		b.Locked(func() { require.True(t, b.CompleteInDoubt()) })
		b.store.FailWith(nil)
		ended, err := b.RecordComplete(b.FailedCompletes())
		require.NoError(t, err)
		require.True(t, ended)
		b.Locked(func() { require.False(t, b.CompleteInDoubt()) })
	})
	inBubble(t, "of a run that has ended meanwhile there is no failure to share", after(time.Hour), func(t *testing.T, b *bench) {
		b.store.FailWith(func(context.Context, journaltest.Call) error { return errFull })
		_, err := b.RecordComplete(0)
		require.ErrorIs(t, err, errFull)
		b.End(errClosed)
		ended, err := b.RecordComplete(0)
		require.NoError(t, err)
		require.False(t, ended)
	})
	inBubble(t, "one that waits for a stop finds that", after(time.Hour), func(t *testing.T, b *bench) {
		b.tree.StopTimer()
		time.Sleep(time.Hour + 1)
		b.store.FailWith(func(context.Context, journaltest.Call) error { time.Sleep(time.Second); return nil })
		go b.Poll()
		synctest.Wait()
		require.NotNil(t, b.Recorded())
		ended, err := b.RecordComplete(0)
		require.NoError(t, err)
		require.False(t, ended)
		requireStop(t, b.Run, "wall_clock_exceeded")
		synctest.Wait()
	})
	inBubble(t, "an end waits for a stop that is being recorded, which is the first", after(time.Hour), func(t *testing.T, b *bench) {
		b.store.FailWith(func(context.Context, journaltest.Call) error { time.Sleep(time.Second); return nil })
		time.Sleep(time.Hour + 1)
		synctest.Wait()
		began := time.Now()
		require.False(t, b.End(errClosed))
		require.Equal(t, time.Second, time.Since(began))
		requireStop(t, b.Run, "wall_clock_exceeded")
	})
	inBubble(t, "a stop that another process took back goes on", after(time.Hour), func(t *testing.T, b *bench) {
		extend := b.Node.Event(event.Extend, time.Now(), "", record.Extend{
			SessionStartedAt: event.Stamp(b.Node.StartedAt), ExtensionSeconds: 3600,
		})
		require.NoError(t, b.store.Append(t.Context(), extend))
		time.Sleep(time.Hour + 1)
		synctest.Wait()
		require.False(t, b.Over(), fmt.Sprint(b.Cause()))
		time.Sleep(time.Hour)
		synctest.Wait()
		requireStop(t, b.Run, "wall_clock_exceeded")
	})
}
