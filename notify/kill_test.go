package notify_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/notify"
	"github.com/seed62658d38/watchdog/session"
)

var errKilled = errors.New("killed")

// A mortal is what a process reaches of an outbox and a receiver: nothing more from one of its calls on. That call is
// still carried out if late is set.
type mortal struct {
	*box
	to   *receiver
	late bool
	kill func()

	mu   sync.Mutex
	left int // calls
}

// call carries out a call of a process that is alive.
func call[T any](m *mortal, do func() (T, error)) (result T, err error) {
	m.mu.Lock()
	m.left--
	left := m.left
	m.mu.Unlock()
	if left == 0 {
		m.kill()
	}
	if left > 0 || left == 0 && m.late {
		result, err = do()
	}
	if left <= 0 {
		var none T
		return none, errKilled
	}
	return result, err
}

func (m *mortal) Read(ctx context.Context, kind, id string) ([]watchdog.Event, error) {
	return call(m, func() ([]watchdog.Event, error) { return m.box.Read(ctx, kind, id) })
}

func (m *mortal) ClaimNotices(ctx context.Context, most int, lasts time.Duration) ([]session.Notice, error) {
	return call(m, func() ([]session.Notice, error) { return m.box.ClaimNotices(ctx, most, lasts) })
}

func (m *mortal) FinishNotices(ctx context.Context, notices ...session.Notice) error {
	_, err := call(m, func() (int, error) { return 0, m.box.FinishNotices(ctx, notices...) })
	return err
}

func (m *mortal) DelayNotice(ctx context.Context, n session.Notice, pause time.Duration) error {
	_, err := call(m, func() (int, error) { return 0, m.box.DelayNotice(ctx, n, pause) })
	return err
}

func (m *mortal) RoundTrip(request *http.Request) (*http.Response, error) {
	return call(m, func() (*http.Response, error) { return m.to.RoundTrip(request) })
}

// TestKilled kills the sender at each of its calls, before and after it took effect, while the receiver refuses each
// notice once. Another sender goes on.
func TestKilled(t *testing.T) {
	points, twice := 0, 0
	for _, late := range []bool{false, true} {
		for at, lived := 1, false; !lived; at++ {
			synctest.Test(t, func(t *testing.T) {
				b, r := &box{}, &receiver{}
				ids := b.stops(t, 5)
				layer := b.put(t, golden(t, "cancel_layer"))
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
				m := &mortal{box: b, to: r, late: late, kill: kill, left: at}
				s, err := notify.New(m, m, notify.Config{
					URL: hook, Secrets: []string{secret}, Transport: m, Logger: (&journal{}).logger(), Parallel: 2,
				})
				require.NoError(t, err)
				var running sync.WaitGroup
				running.Go(func() { _ = s.Run(ctx) })
				time.Sleep(time.Minute)
				lived = ctx.Err() == nil && b.left() == 0
				kill()
				running.Wait()

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
