package idle

import (
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/handle"
)

// timerSigns are the timer for those packages of this module that give signs of life and do not care what for.
type timerSigns Timer

var _ handle.Timer = (*timerSigns)(nil)

// Alive implements handle.Signs.
func (t *timerSigns) Alive() { (*Timer)(t).Alive() }

// AliveAt implements handle.Signs.
func (t *timerSigns) AliveAt(now time.Time) {
	t.signs.At(now.Sub(t.base))
	if t.around != nil {
		t.around.AliveAt(now)
	}
}

// MaxSilence implements handle.Timer.
func (t *timerSigns) MaxSilence() time.Duration {
	t.mu.Lock()
	shortest := t.limit
	t.mu.Unlock()
	if around, ok := t.around.(handle.Timer); ok {
		shortest = min(shortest, around.MaxSilence())
	}
	return shortest
}

// Hold implements handle.Timer.
func (t *timerSigns) Hold() (release func()) {
	narrow := (*Timer)(t).Widen(watchdog.NoLimit)
	around, ok := t.around.(handle.Timer)
	if !ok {
		return narrow
	}
	outer := around.Hold()
	return func() {
		narrow()
		outer()
	}
}
