package sim_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// The settings of the fleet. The lengths of a process are not multiples of one another, so that few of its timers fire
// at one instant.
const (
	promise       = time.Second
	pace          = 317 * time.Millisecond
	poll          = 731 * time.Millisecond
	recordTimeout = 811 * time.Millisecond
	threshold     = 12 * time.Second // of the keepers; sweepers have their own
	stopTimeout   = 900 * time.Millisecond
	pumpEvery     = 487 * time.Millisecond
	// horizon is how long what happened to a process, or to the database, matters for its runs: it compares its rows with
	// its runs every six promises.
	horizon = 10 * promise
	// recovery is how long a process that was dead and goes on has to claim its runs back.
	recovery = 3 * promise
	// maxAhead is how far the clock of a process can be from that of the bubble when it starts, and how far it is set.
	maxAhead = 90 * time.Second
)

// A world is a fleet and its database. Everything random in it comes from its seed.
type world struct {
	tb     testing.TB
	seed   uint64
	rng    *rand.Rand // of the schedule: only the goroutine of the test uses it
	began  time.Time
	rows   *locks
	leases *locks
	offset atomic.Int64 // of the database's clock

	mu       sync.Mutex
	db       *session.Memory
	weather  // of the database
	hosts    []*host
	sweepers []*sweeper
	names    int // of processes
	attached []*attachment
	runs     []*run
	ops      []*op
	snapshot *session.Memory
	pending  []*time.Timer // of calls that take effect late

	truth
	steps     []string
	lastState string
	logged    []string
	failures  []string
	over      bool
}

// A run is what the hosts have persisted of a run.
type run struct {
	id        string
	threshold time.Duration
	idle      time.Duration // the run's own limit of silence
	wallClock time.Duration
	startedAt time.Time
	attaches  int // that were tried
	row       rowTruth
}

func newWorld(tb testing.TB, seed uint64) *world {
	tb.Helper()
	w := &world{
		tb: tb, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), began: time.Now(), rows: newLocks(), leases: newLocks(),
	}
	w.truth = newTruth()
	w.db = &session.Memory{
		Clock:  func() time.Time { return time.Now().Add(time.Duration(w.offset.Load())) },
		Locked: w.rows.stuck,
	}
	return w
}

func (w *world) database() *session.Memory {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.db
}

// simulate has the fleet live through a schedule, and returns what happened.
func simulate(t *testing.T, seed uint64) *world {
	t.Helper()
	var w *world
	synctest.Test(t, func(t *testing.T) {
		w = newWorld(t, seed)
		plan := w.newPlan()
		pumping, stop := context.WithCancel(context.Background())
		go w.pump(pumping)
		for range plan.steps {
			plan.step()
			w.settle(w.pause())
			if w.failed() {
				break
			}
		}
		w.calm()
		w.end()
		stop()
		synctest.Wait()
	})
	return w
}

// settle waits until all is quiet, checks, lets time go by, and checks again.
func (w *world) settle(d time.Duration) {
	synctest.Wait()
	w.check()
	for ; d > 0; d -= promise {
		time.Sleep(min(d, promise)) // fake time
		synctest.Wait()
		w.check()
	}
	if state := w.state(); state != w.lastState {
		w.lastState = state
		w.steps = append(w.steps, "\t"+state)
	}
}

// pause is the time to the next step.
func (w *world) pause() time.Duration {
	most := []time.Duration{200 * time.Millisecond, 3 * time.Second, 3 * time.Second, 15 * time.Second}[w.rng.IntN(4)]
	return time.Duration(w.rng.Int64N(int64(most)))
}

// aside is a length, forward or back, of at most so much.
func (w *world) aside(most time.Duration) time.Duration {
	return time.Duration(w.rng.Int64N(int64(2*most))) - most
}

// pump has the busy runs signal.
func (w *world) pump(ctx context.Context) {
	tick := time.NewTicker(pumpEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		for _, a := range w.attachments() {
			if a.busy.Load() {
				w.signal(a, false)
			}
		}
	}
}

func (w *world) attachments() []*attachment {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.attached)
}

// An op is a call of the library that has to return within its bound.
type op struct {
	name  string
	host  *host
	began time.Time
	most  time.Duration
	done  bool
	spoke bool
}

// do makes a call on a goroutine of its own.
func (w *world) do(h *host, name string, most time.Duration, call func() error) {
	began := time.Now()
	o := &op{name: name, host: h, began: began, most: most}
	w.mu.Lock()
	w.ops = append(w.ops, o)
	w.mu.Unlock()
	go func() {
		err := call()
		w.logf("%s of %s returned after %v: %v", name, h.name, time.Since(began), err)
		w.mu.Lock()
		defer w.mu.Unlock()
		o.done = true
		w.checkOp(o)
		w.ops = slices.DeleteFunc(w.ops, func(other *op) bool { return other == o })
	}()
}

// later carries a call out some time after its context has ended.
func (w *world) later(ctx context.Context, d time.Duration, do func()) {
	context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.over {
			w.pending = append(w.pending, time.AfterFunc(d, do))
		}
	})
}

// step notes a step.
func (w *world) stepf(format string, args ...any) {
	text := fmt.Sprintf("%9.3fs ", time.Since(w.began).Seconds()) + fmt.Sprintf(format, args...)
	w.steps = append(w.steps, text)
	w.logf("%s", text)
}

func (w *world) logf(format string, args ...any) {
	if !keepLog {
		return
	}
	text := fmt.Sprintf("%9.3fs     ", time.Since(w.began).Seconds()) + fmt.Sprintf(format, args...)
	w.logMu.Lock()
	defer w.logMu.Unlock()
	w.logged = append(w.logged, text)
}

func (w *world) logCall(l *link, kind string, err error) {
	if err != nil && keepLog {
		w.logf("%s: %s: %v", l.name, kind, err)
	}
}

// failf notes that an invariant does not hold. The caller may hold the mutex.
func (w *world) failf(format string, args ...any) {
	text := fmt.Sprintf("%9.3fs ", time.Since(w.began).Seconds()) + fmt.Sprintf(format, args...)
	w.logf("FAILED: %s", text)
	w.logMu.Lock()
	defer w.logMu.Unlock()
	w.failures = append(w.failures, text)
}

func (w *world) failed() bool {
	w.logMu.Lock()
	defer w.logMu.Unlock()
	return len(w.failures) > 0
}

// report fails the test if an invariant did not hold.
func (w *world) report(t *testing.T) {
	t.Helper()
	if len(w.failures) == 0 {
		return
	}
	if brief {
		t.Errorf("seed %d: %s", w.seed, w.failures[0])
		return
	}
	trace := w.steps
	if keepLog {
		trace = w.logged
	}
	require.Fail(t, fmt.Sprintf("seed %d: %s\n\nmake sim SIM_FIRST=%d SIM_SEEDS=1 SIM_LOG=1 shows more\n\n%s", w.seed,
		strings.Join(w.failures, "\n"), w.seed, strings.Join(trace, "\n")))
}

// logger keeps the log of a process.
func (w *world) logger(process string) *slog.Logger {
	if !keepLog {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(logWriter{w, process}, nil))
}

type logWriter struct {
	w       *world
	process string
}

func (l logWriter) Write(text []byte) (int, error) {
	_, line, _ := strings.Cut(strings.TrimSpace(string(text)), "level=")
	l.w.logf("%s: %s", l.process, line)
	return len(text), nil
}

// takenOver is the cause of a run that another process has attached to.
const takenOver = "was taken over"

// causeOf is why a run has ended, as the trace has it.
func causeOf(cause error) string {
	var taken *session.TakeoverError
	if errors.As(cause, &taken) {
		return takenOver
	}
	for _, known := range []error{
		watchdog.ErrComplete, watchdog.ErrClosed, watchdog.SessionIdleTimeout, watchdog.SessionHostLost,
		watchdog.WallClockExceeded,
	} {
		if errors.Is(cause, known) {
			return "ended: " + known.Error()
		}
	}
	return "ended"
}

// checkSwept checks that a session which a sweeper has just cancelled was stalled.
func (w *world) checkSwept(l *link, s session.Session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.swept++
	for _, s := range w.sweepers {
		if s.link == l {
			s.committed++
		}
	}
	now := time.Now()
	for _, a := range w.attached {
		if a.run.id == s.RunID && a.attempt == s.Attempt && a.live(now) && !w.maySweep(a, now) {
			w.failf("sweeper %s ended run %s of the live host %s: silent for %v of %v, signalled %v, holds %d, lease %v",
				l.name, s.RunID, a.host.name, now.Sub(a.lastSignal), a.shortestThreshold(), a.signalled, len(a.holds),
				s.Lease != "")
		}
	}
}

// live reports whether the process of a run could write within every stretch of three promises.
func (a *attachment) live(now time.Time) bool {
	h := a.host
	if a.closed || h.gone || a.wd.Context().Err() != nil {
		return false
	}
	renews := now.Sub(h.renewedAt) < 3*promise && (h.gapUntil.Before(a.at) || now.Sub(h.gapUntil) > recovery)
	return renews || h.link.own.wellSince(a.at, now)
}

// maySweep reports whether a live run was silent for too long, or whether its row could not say that it lives.
func (w *world) maySweep(a *attachment, now time.Time) bool {
	if now.Sub(latest(w.restoredAt, a.host.leaseLostAt, a.run.row.deletedAt)) < horizon {
		return true
	}
	if a.signalled && len(a.holds) == 0 && now.Sub(a.lastSignal) > a.shortestThreshold() {
		return true
	}
	if !a.wokeAt.IsZero() && w.justWoke(a, now) {
		return true
	}
	if w.leases.locked(a.host.lease) && !a.host.link.own.longBad.Before(a.at) {
		return true // it was dead, and cannot read that its lease has expired
	}
	return w.outOfLease(a, a.host.gapUntil, now) || w.outOfLease(a, a.host.leaseLostAt, now)
}

// outOfLease reports whether the row has left the lease of its process, which expired then, and could not be written
// since.
func (w *world) outOfLease(a *attachment, expired, now time.Time) bool {
	return expired.After(a.at) && a.run.row.unwritten(expired, now)
}

// justWoke reports whether a run that was silent for too long woke up a moment ago, as far as its process could say so.
func (w *world) justWoke(a *attachment, now time.Time) bool {
	able := a.host.link.okSince
	return able.IsZero() || now.Sub(latest(a.wokeAt, able)) < 5*promise
}

// unwritten reports whether the row could not be written since then, all the time or nearly.
func (r *rowTruth) unwritten(since, now time.Time) bool {
	return r.stuckSince.After(r.stuckUntil) || r.stuckUntil.After(since) && now.Sub(r.stuckUntil) < threshold
}

// TestFound runs the seeds that have found a bug. A change of the steps gives them another schedule: then look for a
// seed that finds the bug in the code of before, and put it here.
func TestFound(t *testing.T) {
	for what, seeds := range map[string][]uint64{
		"two processes with the same number of attempt run one run":               {1327, 835},
		"a row that nobody runs is interrupted, and its window has another end":   {1872, 677, 566},
		"a sweeper takes the end of a run that it had claimed for its own cancel": {1169, 297, 70},
		"an expired lease is renewed":                                             {4, 5, 8},
		"a process does not claim its rows back under another lease":              {24, 1005},
	} {
		t.Run(what, func(t *testing.T) {
			for _, seed := range seeds {
				simulate(t, seed).report(t)
			}
		})
	}
}
