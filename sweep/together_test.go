package sweep_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// A batching fixture cancels several sessions together.
type batching struct {
	*fixture
	locked string                                                      // a run
	onAll  func(all []session.BatchedCancel) error                     // before; its error is a transaction that was rolled back
	after  func(outcomes []session.Outcome) ([]session.Outcome, error) // what CancelAll returns after it was done
	calls  [][]string
}

// inBatches makes the sweeper one that cancels in batches.
func (f *fixture) inBatches() *batching {
	b := &batching{fixture: f}
	b.use(f)
	return b
}

// use makes the sweeper again, after a change of its config.
func (b *batching) use(finder sweep.Finder) {
	made, err := sweep.New(finder, b, b.cfg)
	require.NoError(b, err)
	b.made = made
}

func (b *batching) CancelAll(ctx context.Context, all []session.BatchedCancel) ([]session.Outcome, error) {
	var names []string
	for _, c := range all {
		names = append(names, c.Judged.RunID)
	}
	b.mu.Lock()
	b.calls = append(b.calls, names)
	b.mu.Unlock()
	if b.onAll != nil {
		if err := b.onAll(all); err != nil {
			return nil, err
		}
	}
	outcomes := make([]session.Outcome, len(all))
	for i, c := range all {
		if c.Judged.RunID == b.locked {
			continue
		}
		outcome, err := b.Memory.Cancel(ctx, c.Judged, c.Request)
		require.NoError(b, err)
		outcomes[i] = outcome
		if outcome == session.Done {
			b.mu.Lock()
			b.cancelled = append(b.cancelled, c.Judged.RunID)
			b.mu.Unlock()
		}
	}
	if b.after != nil {
		return b.after(outcomes)
	}
	return outcomes, nil
}

func has(all []session.BatchedCancel, runID string) bool {
	return slices.ContainsFunc(all, func(c session.BatchedCancel) bool { return c.Judged.RunID == runID })
}

// TestTogether: the sessions of a page are cancelled in one transaction, if the canceller can.
func TestTogether(t *testing.T) {
	subtest(t, "as many as a pass may, the longest stalled first", func(f *fixture) {
		names := f.putStalled(25)
		b := f.inBatches()
		for n := 0; n < 20; n += 10 {
			p := f.pass()
			require.Equal(f, sweep.Tally{Checked: 10, Found: 10, Cancelled: 10}, p.Tally)
			for i, c := range p.Cases {
				require.Equal(f, names[n+i], c.Session.RunID)
			}
		}
		require.Equal(f, [][]string{names[:10], names[10:20]}, b.calls)
		require.Equal(f, []string{watchdog.EventWarning, watchdog.EventCancel}, f.events("s-00"))
		f.pass()
		f.put("s-99", time.Hour)
		f.pass()
		require.Len(f, b.calls, 3, "a single session is cancelled alone")
		require.Len(f, f.ended(), 26)
	})
	subtest(t, "and one that cannot be cancelled does not hold up the others", func(f *fixture) {
		f.putStalled(6)
		b := f.inBatches()
		b.locked = "s-01"
		f.storedEnd("s-02", watchdog.EventComplete, `{"reason":"complete"}`)
		f.onPage = func(*session.Page) { f.wake("s-03"); f.onPage = nil }
		f.onCancel = func(context.Context, session.Session) error { return session.ErrLocked }
		p := f.pass()
		require.Equal(f, []string{
			"s-00 cancelled", "s-02 end_stored", "s-03 spared", "s-04 cancelled", "s-05 cancelled",
		}, outcomes(p))
		require.Equal(f, sweep.Tally{
			Checked: 6, Found: 6, Cancelled: 3, EndStored: 1, Spared: 1, Deferred: 1,
		}, p.Tally)
		require.Equal(f, session.Active, f.status("s-01"))
	})
	subtest(t, "and one that the database refuses has the others cancelled one by one, and only once", func(f *fixture) {
		names := f.putStalled(20)
		b := f.inBatches()
		poisoned := errors.New("poisoned")
		b.onAll = func(all []session.BatchedCancel) error {
			if has(all, "s-03") {
				return poisoned
			}
			return nil
		}
		f.onCancel = func(_ context.Context, s session.Session) error {
			if s.RunID == "s-03" {
				return poisoned
			}
			return nil
		}
		p := f.failsFor(poisoned)
		require.Equal(f, sweep.Tally{Checked: 11, Found: 11, Cancelled: 10, Failed: 1, Errors: 1}, p.Tally)
		require.Equal(f, "s-03 failed", outcomes(p)[3])
		p = f.pass()
		require.Equal(f, sweep.Tally{Checked: 10, Found: 10, Cancelled: 9, Deferred: 1}, p.Tally)
		require.Equal(f, [][]string{names[:10], names[11:]}, b.calls)
		require.Equal(f, 1, f.sweeper().Remembered())
	})
	subtest(t, "and where the answer was lost each is looked up, and counts once", func(f *fixture) {
		names := f.putStalled(10)
		alerts := 0
		f.cfg.Alert = sweep.Alert{Count: 9, Within: time.Hour, Func: func(context.Context, int) { alerts++ }}
		b := f.inBatches()
		b.after = func([]session.Outcome) ([]session.Outcome, error) { return nil, errors.New("connection lost") }
		p := f.pass()
		require.Equal(f, sweep.Tally{Checked: 10, Found: 10, Cancelled: 10}, p.Tally)
		require.Equal(f, names, f.ended())
		require.Zero(f, f.sweeper().Remembered())
		f.advance(time.Hour)
		require.Equal(f, sweep.Tally{}, f.pass().Tally)
		require.Equal(f, 1, alerts)
	})
	subtest(t, "and where they cannot be read either the pass looks them up that finds no others", func(f *fixture) {
		f.putStalled(30)
		b := f.inBatches()
		b.after = func([]session.Outcome) ([]session.Outcome, error) {
			time.Sleep(5 * time.Second) // fake time
			return nil, context.DeadlineExceeded
		}
		f.onCancel = func(context.Context, session.Session) error { return errors.New("down") }
		f.onSession = func(context.Context) error { return errors.New("down") }
		p := f.fails("3 sessions in a row failed and cannot be read")
		require.Equal(f, 3, p.Failed)
		b.after, f.onCancel, f.onSession = nil, nil, nil
		for range 2 {
			require.Equal(f, sweep.Tally{Checked: 10, Found: 10, Cancelled: 10}, f.pass().Tally)
		}
		require.Equal(f, sweep.Tally{Cancelled: 10}, f.pass().Tally)
		require.Zero(f, f.sweeper().Remembered())
	})
	subtest(t, "and where a store answers for too few they are looked up", func(f *fixture) {
		f.putStalled(3)
		b := f.inBatches()
		b.after = func(outcomes []session.Outcome) ([]session.Outcome, error) { return outcomes[1:], nil }
		require.Equal(f, 3, f.pass().Cancelled)
	})
	subtest(t, "and the pass goes on behind those that had woken up", func(f *fixture) {
		f.putStalled(9)
		f.cfg.MaxCancellationsPerRun = 3
		b := f.inBatches()
		b.use(wholePages{f})
		f.onPage = func(*session.Page) { f.wake("s-00"); f.wake("s-02"); f.onPage = nil }
		p := f.pass()
		require.Equal(f, []string{
			"s-00 spared", "s-01 cancelled", "s-02 spared", "s-03 cancelled", "s-04 cancelled",
		}, outcomes(p))
		require.Len(f, f.pages, 1)
		require.Equal(f, [][]string{{"s-00", "s-01", "s-02"}, {"s-03", "s-04"}}, b.calls)
	})
	subtest(t, "with a grace those that are due come before the next is warned", func(f *fixture) {
		f.putStalled(2)
		f.cfg.Grace, f.cfg.Interval = time.Minute, 10*time.Second
		b := f.inBatches()
		require.Equal(f, 2, f.pass().Warned)
		f.put("s-98", 50*time.Minute)
		f.advance(time.Minute)
		require.Equal(f, []string{"s-00 cancelled", "s-01 cancelled", "s-98 warned"}, outcomes(f.pass()))
		require.Equal(f, [][]string{{"s-00", "s-01"}}, b.calls)
	})
	subtest(t, "and a sweeper that is stopped tries no other after a failure", func(f *fixture) {
		f.putStalled(5)
		ctx, cancel := context.WithCancel(f.Context())
		b := f.inBatches()
		b.onAll = func([]session.BatchedCancel) error { cancel(); return errors.New("down") }
		p, err := f.sweeper().Sweep(ctx)
		require.ErrorIs(f, err, context.Canceled)
		require.Zero(f, p.Cancelled)
		require.Empty(f, f.ended())
	})
}

// wholePages returns all stalled sessions at once.
type wholePages struct{ *fixture }

func (w wholePages) Stalled(ctx context.Context, q session.Query) (session.Page, error) {
	q.Limit = 100
	return w.fixture.Stalled(ctx, q)
}

// TestSweepersTogether: five sweepers of one database that cancel in batches cancel each session once.
func TestSweepersTogether(t *testing.T) {
	inBubble(t, func(f *fixture) {
		names := f.putStalled(60)
		results := make(chan sweep.Pass, 50)
		for i := range 5 {
			b := &batching{fixture: f, onAll: func([]session.BatchedCancel) error {
				time.Sleep(time.Duration(1+i) * time.Millisecond) // fake time
				return nil
			}}
			s, err := sweep.New(f, b, sweep.Config{MaxCancellationsPerRun: 7, Logger: f.cfg.Logger})
			require.NoError(f, err)
			go func() {
				for range 10 {
					p, _ := s.Sweep(context.Background())
					results <- p
				}
			}()
		}
		sum := 0
		for range cap(results) {
			sum += (<-results).Cancelled
		}
		require.Equal(f, 60, sum)
		require.ElementsMatch(f, names, f.ended())
	})
}
