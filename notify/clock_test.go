package notify_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/notify"
	"github.com/seed62658d38/watchdog/session"
)

// A wrongClock is a memory whose clock is wrong by a time that can change.
type wrongClock struct {
	session.Memory
	by atomic.Int64
}

func newWrongClock(by time.Duration) *wrongClock {
	m := &wrongClock{Memory: session.Memory{Outbox: true}}
	m.by.Store(int64(by))
	m.Clock = func() time.Time { return time.Now().Add(time.Duration(m.by.Load())) }
	return m
}

// TestWrongClock has the database's clock be wrong when a notice is put: the notice is tried for seven days all the
// same, and then dropped once.
func TestWrongClock(t *testing.T) {
	const year, never = 365 * 24 * time.Hour, time.Duration(-1)
	for name, wrong := range map[string]time.Duration{"right": 0, "a year ahead": year, "a year behind": -year} {
		for when, corrected := range map[string]time.Duration{
			"never": never, "before the first try": 0, "after some": time.Minute, "in a long pause": 90 * time.Minute,
		} {
			bubble(t, name+" and set right "+when, func(t *testing.T) {
				m, r, log := newWrongClock(wrong), &receiver{}, &journal{}
				require.NoError(t, m.Append(t.Context(), golden(t, "cancel")))
				if corrected == 0 {
					m.by.Store(0)
				}
				r.answersWith(500)
				sender, err := notify.New(m, m, notify.Config{
					URL: hook, Secrets: []string{secret}, Transport: r, Logger: log.logger(),
				})
				require.NoError(t, err)
				end := run(t, sender)
				if corrected > 0 {
					time.Sleep(corrected)
					m.by.Store(0)
				}
				time.Sleep(notify.DefaultKeepFor - max(corrected, 0))
				assert.NotContains(t, log.String(), "given up")
				tries := r.all()
				assert.Less(t, time.Since(tries[len(tries)-1].at), 2*time.Hour, "it is tried until then")
				time.Sleep(3 * time.Hour)
				end()
				assert.Equal(t, 1, strings.Count(log.String(), "a notice is given up, and nobody is told of it"))
				left, err := m.ClaimNotices(t.Context(), 1, 0)
				require.NoError(t, err)
				assert.Empty(t, left)
			})
		}
	}
	bubble(t, "and it is told a minute after its receiver is back", func(t *testing.T) {
		m, r := newWrongClock(year), &receiver{}
		e := golden(t, "cancel")
		require.NoError(t, m.Append(t.Context(), e))
		r.answersWith(500)
		sender, err := notify.New(m, m, notify.Config{URL: hook, Secrets: []string{secret}, Transport: r})
		require.NoError(t, err)
		_, err = sender.Deliver(t.Context())
		require.Error(t, err)
		m.by.Store(0)
		r.answersWith(0)
		time.Sleep(time.Minute)
		_, err = sender.Deliver(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []string{e.ID}, r.ids())
	})
	bubble(t, "one that is to be kept for ever is", func(t *testing.T) {
		b, r := &box{}, &receiver{}
		b.stop(t, "r")
		r.answersWith(500)
		end := run(t, newSender(t, b, r, func(c *notify.Config) { c.KeepFor, c.Poll = watchdog.NoLimit, time.Hour }))
		time.Sleep(60 * 24 * time.Hour)
		end()
		assert.Equal(t, 1, b.left())
	})
}
