package watchdog_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/racing"
)

// A model is the watchdog of one run as one would explain it: what the clock on the wall shows, how long the window has
// really lasted, and whether it was cancelled.
type model struct {
	wall    time.Duration // since noon
	window  time.Duration // its start, by the clock on the wall
	elapsed time.Duration
	budget  time.Duration
	fired   bool
	warned  bool
	cancels int
}

const propertyBudget = time.Hour

func (m *model) pass(d time.Duration) { m.wall += d; m.elapsed += d }
func (m *model) step(d time.Duration) { m.wall += d }

func (m *model) attach() { m.elapsed = max(m.wall-m.window, 0); m.look() }

// resume opens a window after one that was cancelled, or that begins too far in the future.
func (m *model) resume() {
	switch {
	case m.window-m.wall > watchdog.StartSkew:
		m.open(m.wall)
	case m.fired:
		m.open(max(m.wall, m.window+time.Microsecond))
	}
	m.attach()
}

func (m *model) open(at time.Duration) {
	m.window = at.Truncate(time.Microsecond)
	m.budget, m.fired, m.warned = propertyBudget, false, false
}

func (m *model) look() {
	if !m.fired && m.elapsed > m.budget {
		m.fired = true
		m.cancels++
	}
	m.warned = m.warned || !m.fired && m.elapsed >= m.budget*8/10
}

func (m *model) extend(d time.Duration) {
	if m.look(); !m.fired {
		m.budget, m.warned = m.budget+d, false
		m.look()
	}
}

// a history is a random life of one run: its watchdog and the model live through it side by side.
type history struct {
	*fixture
	*model
	rng *rand.Rand
	wd  *watchdog.Watchdog
	log []string
}

func TestModel(t *testing.T) {
	for name, pollOnly := range map[string]bool{"polling": true, "with a timer": false} {
		t.Run(name, func(t *testing.T) {
			for seed := range racing.Rounds[uint64](25, 1000) {
				synctest.Test(t, func(t *testing.T) {
					h := &history{fixture: newFixture(t), model: &model{budget: propertyBudget}, rng: rand.New(rand.NewPCG(seed, 7))}
					h.cfg.PollOnly, h.cfg.Budget.WallClock = pollOnly, propertyBudget
					h.live(80)
				})
			}
		})
	}
}

func (h *history) live(steps int) {
	h.wd = h.fixture.attach()
	h.model.attach()
	for range steps {
		h.happen()
		h.compare()
	}
}

func (h *history) happen() {
	d := time.Duration(h.rng.Int64N(int64(25 * time.Minute)))
	if h.rng.IntN(4) == 0 {
		d = max(h.budget-h.elapsed+time.Duration(h.rng.IntN(3)-1), 0) // to the edge
	}
	switch h.rng.IntN(9) {
	case 0, 1, 2:
		h.say("pass", d)
		h.fixture.pass(d)
		h.model.pass(d)
	case 3:
		d -= 12 * time.Minute
		h.say("step", d)
		h.clock.step(d)
		h.step(d)
	case 4:
		h.say("suspend", d)
		h.clock.suspend(d)
		h.model.pass(d)
		h.fixture.pass(time.Minute)
		h.model.pass(time.Minute)
	case 5:
		h.say("extend", d)
		d = (d + time.Microsecond).Truncate(time.Microsecond)
		err := h.wd.Extend(d)
		h.model.extend(d)
		require.Equal(h.t, h.fired, errors.Is(err, watchdog.ErrEnded), "%v: %v", h.log, err)
	case 6, 7:
		h.say("restart after", d)
		h.restart(d, watchdog.New, h.window, h.model.attach)
	case 8:
		h.say("resume after", d)
		h.restart(d, watchdog.Resume, 0, h.model.resume)
	}
}

func (h *history) say(what string, d time.Duration) { h.log = append(h.log, fmt.Sprint(what, " ", d)) }

// restart lets the process go, and another one come after d. Hosts whose clock shows a time before the run's start are
// refused, and by New before that of its window.
func (h *history) restart(d time.Duration, attach attachFunc, window time.Duration, model func()) {
	require.NoError(h.t, h.wd.Close())
	if h.rng.IntN(2) == 0 {
		h.run.StartedAt = h.wd.StartedAt()
	}
	h.fixture.pass(d)
	h.wall += d
	if early := max(h.run.StartedAt.Sub(noon), window) - h.wall - watchdog.StartSkew; early > 0 {
		_, err := attach(h.t.Context(), h.run, h.cfg)
		require.ErrorIs(h.t, err, watchdog.ErrInvalid)
		h.clock.step(early)
		h.step(early)
	}
	wd, err := attach(h.t.Context(), h.run, h.cfg)
	require.NoError(h.t, err)
	h.t.Cleanup(func() { wd.Close() })
	h.wd = wd
	model()
}

// compare looks at both at the same moment.
func (h *history) compare() {
	synctest.Wait()
	h.look()
	_, fired := h.wd.Fired()
	require.Equal(h.t, h.fired, fired, "%v", h.log)
	require.Equal(h.t, h.elapsed, h.wd.Elapsed(), "%v", h.log)
	require.Len(h.t, h.events(watchdog.EventCancel), h.cancels, "%v", h.log)
	require.Equal(h.t, noon.Add(h.window), h.wd.StartedAt(), "%v", h.log)
	if !fired {
		require.Equal(h.t, h.budget-h.elapsed, h.wd.Remaining(), "%v", h.log)
	}
}
