package notify_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/locked"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/notify"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// TestStore has runs that end in every way, and a sweeper, write to a store with an outbox, while two senders deliver to
// a receiver that fails now and then: what is told is what the store has.
func TestStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, r := &session.Memory{Outbox: true}, &receiver{}
		chance := rand.New(rand.NewPCG(1, 2))
		r.answers(func(*http.Request, string) (*http.Response, error) {
			time.Sleep(100 * time.Millisecond)
			r.mu.Lock()
			failing := chance.IntN(3) == 0
			r.mu.Unlock()
			if failing {
				return respond(500), nil
			}
			return nil, nil
		})
		completes := func(c *notify.Config) { c.Completes = true }
		end := run(t, newSender(t, store, r, completes), newSender(t, store, r, completes))

		var runs []string
		for i := range 200 {
			runs = append(runs, fmt.Sprintf("run-%d", i))
			endRun(t, store, runs[i], i%5)
			time.Sleep(time.Second)
		}
		for i := range 3 {
			runs = append(runs, fmt.Sprintf("stale-%d", i))
			require.NoError(t, store.Put(t.Context(), session.Session{
				RunID: runs[len(runs)-1], Status: session.Active, Attempt: 1, CreatedAt: time.Now().Add(-3 * time.Hour),
				StartedAt: time.Now().Add(-3 * time.Hour), LastEventAt: time.Now().Add(-time.Hour),
			}))
		}
		sweeper, err := sweep.New(store, store, sweep.Config{
			Logger: quiet, Alert: sweep.Alert{Count: 1, Within: time.Hour, Func: notify.Alert(store, time.Hour, quiet)},
		})
		require.NoError(t, err)
		pass, err := sweeper.Sweep(t.Context())
		require.NoError(t, err)
		require.Equal(t, 3, pass.Cancelled)
		time.Sleep(time.Hour)
		end()

		var ends []string
		for _, id := range runs {
			events, err := store.Read(t.Context(), watchdog.AggregateType, id)
			require.NoError(t, err)
			for _, e := range events {
				if e.Type == watchdog.EventCancel || e.Type == watchdog.EventComplete {
					ends = append(ends, e.ID)
				}
			}
		}
		require.Len(t, ends, 200*3/5+3)
		told := r.ids()
		assert.Subset(t, told, ends)
		assert.Len(t, told, len(ends)+1, "and the alert")
		for _, id := range told {
			assert.Equal(t, 1, r.times(id))
		}
		left, err := store.ClaimNotices(t.Context(), 1, time.Hour)
		require.NoError(t, err)
		assert.Empty(t, left)
	})
}

// endRun runs a run that ends in one of five ways.
func endRun(t *testing.T, store *session.Memory, id string, way int) {
	t.Helper()
	wd, err := watchdog.New(t.Context(), watchdog.Run{ID: id, StartedAt: time.Now()}, watchdog.Config{
		Store: store, Budget: watchdog.Budget{WallClock: time.Second}, Logger: quiet,
	})
	require.NoError(t, err)
	layer, err := wd.Layer("tool", watchdog.Budget{WallClock: time.Millisecond})
	require.NoError(t, err)
	<-layer.Context().Done() // its stop is a layer's
	switch way {
	case 0:
		<-wd.Context().Done()
	case 1:
		_, err = wd.Cancel(watchdog.Cancellation{Reason: "quota_used"})
	case 2:
		err = wd.Complete()
	case 3:
		err = wd.Interrupt("SIGTERM")
	}
	require.NoError(t, err)
	require.NoError(t, layer.Close())
	require.NoError(t, wd.Close())
}

var errKilled = errors.New("killed")

// A mortal reaches a database and a receiver up to one of its calls: that kills it, before or after it took effect.
type mortal struct {
	to   *receiver
	late bool
	kill func()

	mu   sync.Mutex
	left int // calls
}

// call carries out a call if it is still alive.
func (m *mortal) call(_ context.Context, _ string, do func() error) (err error) {
	m.mu.Lock()
	m.left--
	left := m.left
	m.mu.Unlock()
	if left == 0 {
		m.kill()
	}
	if left > 0 || left == 0 && m.late {
		err = do()
	}
	if left <= 0 {
		return errKilled
	}
	return err
}

func (m *mortal) RoundTrip(request *http.Request) (response *http.Response, err error) {
	err = m.call(request.Context(), "send", func() (err error) {
		response, err = m.to.RoundTrip(request) //nolint:bodyclose // the sender closes it
		return err
	})
	return response, err
}

// TestKilled kills the sender at each of its calls, before and after it took effect, while the receiver refuses each
// notice once. Another sender goes on.
func TestKilled(t *testing.T) {
	points, twice := 0, 0
	for _, late := range []bool{false, true} {
		for at, lived := 1, false; !lived; at++ {
			synctest.Test(t, func(t *testing.T) {
				b, r := newBox(), &receiver{}
				ids := b.stops(t, 5)
				layer := b.put(t, stored(t, "cancel_layer"))
				refused := map[string]bool{}
				r.answers(func(_ *http.Request, id string) (*http.Response, error) {
					r.mu.Lock()
					defer r.mu.Unlock()
					if !refused[id] {
						refused[id] = true
						return respond(http.StatusServiceUnavailable), nil
					}
					return nil, nil
				})
				ctx, kill := context.WithCancel(t.Context())
				m := &mortal{to: r, late: late, kill: kill, left: at}
				b.around = m.call
				s := newSender(t, b, m, func(c *notify.Config) { c.Parallel = 2 })
				var running sync.WaitGroup
				running.Go(func() { _ = s.Run(ctx) })
				time.Sleep(time.Minute)
				lived = ctx.Err() == nil && b.left() == 0
				kill()
				running.Wait()
				b.onCall(nil)

				end := run(t, newSender(t, b, r))
				time.Sleep(5 * time.Minute)
				end()
				assert.ElementsMatch(t, ids, r.ids(), "killed at call %d", at)
				assert.NotContains(t, r.ids(), layer)
				assert.Zero(t, b.left())
				for _, id := range ids {
					assert.LessOrEqual(t, r.times(id), 2)
					twice += r.times(id) - 1
				}
			})
			points++
		}
	}
	assert.Greater(t, points, 2*25, "the claims, reads, sends, delays and removals")
	assert.Positive(t, twice, "at least once: killed between the answer and its note")
	t.Logf("killed at %d points; %d notices were told twice", points, twice)
}

// TestWrongClock has the database's clock be wrong when a notice is put: the notice is tried for seven days all the
// same, and then dropped once.
func TestWrongClock(t *testing.T) {
	const year, never = 365 * 24 * time.Hour, time.Duration(-1)
	for name, wrong := range map[string]time.Duration{"right": 0, "a year ahead": year, "a year behind": -year} {
		for when, corrected := range map[string]time.Duration{
			"never": never, "before the first try": 0, "after some": time.Minute, "in a long pause": 90 * time.Minute,
		} {
			if racing.Enabled && (wrong <= 0 || corrected != time.Minute) {
				continue // seven days of tries take seconds
			}
			bubble(t, name+" and set right "+when, func(t *testing.T) {
				b, r, log := newBox(), &receiver{}, &locked.Buffer{}
				b.ahead.Store(int64(wrong))
				id := b.put(t, stored(t, "cancel"))
				if corrected == 0 {
					b.ahead.Store(0)
				}
				r.answersWith(500)
				end := run(t, newSender(t, b, r, func(c *notify.Config) { c.Logger = logTo(log) }))
				if corrected > 0 {
					time.Sleep(corrected)
					b.ahead.Store(0)
				}
				time.Sleep(notify.DefaultKeepFor - max(corrected, 0))
				assert.NotContains(t, log.String(), "given up")
				tries := r.all()
				assert.Less(t, time.Since(tries[len(tries)-1].at), 2*time.Hour, "it is tried until then")
				time.Sleep(3 * time.Hour)
				end()
				assert.Equal(t, 1, strings.Count(log.String(), "a notice is given up, and nobody is told of it"))
				assert.Regexp(t, "level=ERROR .*notice="+id+" .*run_id=s-1 ", log.String())
				assert.Zero(t, b.left())
			})
		}
	}
	bubble(t, "and it is told a minute after its receiver is back", func(t *testing.T) {
		b, r := newBox(), &receiver{}
		b.ahead.Store(int64(year))
		id := b.put(t, stored(t, "cancel"))
		r.answersWith(500)
		sender := newSender(t, b, r)
		_, err := sender.Deliver(t.Context())
		require.Error(t, err)
		b.ahead.Store(0)
		r.answersWith(0)
		time.Sleep(time.Minute)
		deliver(t, sender)
		assert.Equal(t, []string{id}, r.ids())
	})
	bubble(t, "one that is to be kept for ever is", func(t *testing.T) {
		b, r := newBox(), &receiver{}
		b.stop(t, "r")
		r.answersWith(500)
		end := run(t, newSender(t, b, r, func(c *notify.Config) { c.KeepFor, c.Poll = watchdog.NoLimit, time.Hour }))
		time.Sleep(60 * 24 * time.Hour)
		end()
		assert.Equal(t, 1, b.left())
	})
}
