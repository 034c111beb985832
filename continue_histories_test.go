package watchdog_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/racing"
)

// TestContinueHistories has a run with Continue and one whose host passes its start live through the same: restarts,
// resumes, holds, layers, extensions and all ends. They are to be the same at each step.
func TestContinueHistories(t *testing.T) {
	for seed := range racing.Rounds[uint64](6, 200) {
		for _, store := range []func() watchdog.EventStore{
			func() watchdog.EventStore { return &flakyStore{} }, func() watchdog.EventStore { return &countingStore{} },
			func() watchdog.EventStore { return &watchdog.Memory{} },
		} {
			synctest.Test(t, func(t *testing.T) {
				tw := &twins{fixture: newFixture(t), random: rand.New(rand.NewPCG(seed, 3)), seed: seed}
				tw.cfg.RecordInterrupts = tw.random.IntN(2) == 0
				tw.cfg.Budget.Idle = []time.Duration{0, 30 * minute}[tw.random.IntN(2)]
				tw.stores = [2]watchdog.EventStore{store(), store()}
				tw.runs = [2]watchdog.Run{{ID: "s-1", Continue: true}, {ID: "s-1", StartedAt: noon}}
				for range 40 {
					tw.live()
				}
			})
		}
	}
}

// Twins are the two runs.
type twins struct {
	*fixture
	random *rand.Rand
	seed   uint64
	stores [2]watchdog.EventStore
	runs   [2]watchdog.Run
	wds    [2]*watchdog.Watchdog
}

// live attaches both, lets them do something, and ends them.
func (tw *twins) live() {
	resume, persists := tw.random.IntN(4) == 0, tw.random.IntN(2) == 0
	attach := map[bool]attachFunc{false: watchdog.New, true: watchdog.Resume}[resume]
	var errs [2]error
	for i := range tw.runs {
		tw.cfg.Store = tw.stores[i]
		tw.wds[i], errs[i] = attach(context.Background(), tw.runs[i], tw.cfg)
	}
	require.Equal(tw.t, fmt.Sprint(errs[1]), fmt.Sprint(errs[0]), "seed %d", tw.seed)
	if errs[0] != nil { // it is complete
		tw.pass(tw.upTo(time.Hour))
		return
	}
	if persists {
		tw.runs[1].StartedAt = tw.wds[1].StartedAt()
	}
	for range tw.random.IntN(6) {
		act, length, stays := tw.random.IntN(6), tw.upTo(80*minute), tw.random.IntN(2) == 0
		for _, wd := range tw.wds {
			twinAct(wd, act, length, stays)
		}
		tw.pass(length)
		tw.same()
	}
	end := tw.random.IntN(5)
	for _, wd := range tw.wds {
		switch end { // the error is that of a run that has ended
		case 0:
			_ = wd.Complete()
		case 1:
			_ = wd.Interrupt("SIGTERM")
		case 2:
			_, _ = wd.Cancel(noOutput)
		}
		require.NoError(tw.t, wd.Close())
	}
	tw.pass(tw.upTo(time.Minute))
}

func twinAct(wd *watchdog.Watchdog, act int, length time.Duration, stays bool) {
	switch act {
	case 0:
		_ = wd.Extend(length)
	case 1:
		wd.Progress()
	case 2:
		wd.Activity()
	case 3:
		if h, err := wd.Hold(context.Background(), "tool", watchdog.HoldLimit{}); err == nil && !stays {
			h.Close()
		}
	case 4:
		if l, err := wd.Layer("s-1", watchdog.Budget{WallClock: 10 * minute}); err == nil && !stays {
			_ = l.Close()
		}
	}
}

func (tw *twins) same() {
	continues, explicit := tw.wds[0], tw.wds[1]
	require.Equal(tw.t, explicit.StartedAt(), continues.StartedAt(), "seed %d", tw.seed)
	require.Equal(tw.t, explicit.Remaining(), continues.Remaining(), "seed %d", tw.seed)
	require.Equal(tw.t, fmt.Sprint(explicit.Stop()), fmt.Sprint(continues.Stop()), "seed %d", tw.seed)
}

func (tw *twins) upTo(most time.Duration) time.Duration {
	return time.Duration(tw.random.Int64N(int64(most)))
}
