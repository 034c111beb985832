package sim_test

import (
	"slices"
	"sync"
	"time"

	"github.com/benbjohnson/clock"
)

// A hostClock is the wall clock of one process. It can be set; its timers and its Uptime go on as the time of the
// bubble does. A time that Now returned remembers how the clock was set then, as those of the machine do, so that
// Since is right for it whatever happens to the clock meanwhile.
type hostClock struct {
	clock.Clock
	began time.Time

	mu    sync.Mutex
	zones []*time.Location // one for each time that the clock was set
	ahead []time.Duration  // of the time of the bubble, in each zone
}

func newHostClock(ahead time.Duration) *hostClock {
	c := &hostClock{Clock: clock.New(), began: time.Now()}
	c.set(ahead)
	return c
}

// set sets the clock forward, or back.
func (c *hostClock) set(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.ahead); n > 0 {
		by += c.ahead[n-1]
	}
	c.zones, c.ahead = append(c.zones, time.FixedZone("", 0)), append(c.ahead, by)
}

// Now is the wall clock.
func (c *hostClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := len(c.zones) - 1
	return time.Now().Add(c.ahead[last]).In(c.zones[last])
}

// Since is the time since Now returned t. Of a time from elsewhere it is what the wall clock shows.
func (c *hostClock) Since(t time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.Index(c.zones, t.Location())
	if at < 0 {
		at = len(c.zones) - 1
	}
	return time.Since(t.Add(-c.ahead[at]))
}

// Until is the time until t.
func (c *hostClock) Until(t time.Time) time.Duration { return -c.Since(t) }

// Uptime never goes back, and nobody sets it.
func (c *hostClock) Uptime() time.Duration { return time.Since(c.began) }
