package idle

import (
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/seam"
)

// timerSigns are the timer for those packages of this module that give signs of life and do not care what for.
type timerSigns Timer

var _ seam.Timer = (*timerSigns)(nil)

// Alive implements seam.Signs.
func (t *timerSigns) Alive() { (*Timer)(t).Alive() }

// AliveAt implements seam.Signs.
func (t *timerSigns) AliveAt(now time.Time) {
	t.signs.At(now.Sub(t.base))
	if t.around != nil {
		t.around.AliveAt(now)
	}
}

// Silence implements seam.Timer.
func (t *timerSigns) Silence() time.Duration {
	t.mu.Lock()
	shortest := t.limit
	t.mu.Unlock()
	if around, ok := t.around.(seam.Timer); ok {
		shortest = min(shortest, around.Silence())
	}
	return shortest
}

// Hold implements seam.Timer.
func (t *timerSigns) Hold() (release func()) {
	narrow := (*Timer)(t).Widen(watchdog.NoLimit)
	around, ok := t.around.(seam.Timer)
	if !ok {
		return narrow
	}
	outer := around.Hold()
	return func() {
		narrow()
		outer()
	}
}
