package watchdog_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// asked is a run that is asked to wait each minute in which it is silent.
var asked = watchdog.Config{Budget: watchdog.Budget{
	WallClock: time.Hour, WarnAt: []float64{}, Idle: minute,
	Ladders: watchdog.Ladders{Idle: many(watchdog.DirectiveWait, 200)},
}}

// A reader keeps what it is told, in order.
type reader struct {
	mu   sync.Mutex
	told []string
}

func (r *reader) tell(d watchdog.Directive) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = append(r.told, fmt.Sprint(d.Kind, " ", d.Rung))
}

func (r *reader) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.told)
}

// polled is what there is to poll.
func polled(wd *watchdog.Watchdog) (all []string) {
	var r reader
	for d, ok := wd.Poll(); ok; d, ok = wd.Poll() {
		r.tell(d)
	}
	return r.all()
}

// TestCallbacksOfOneLook protects a host that calls the watchdog from its callbacks: without a timer they run on the
// goroutine that also has to end the run.
func TestCallbacksOfOneLook(t *testing.T) {
	calls := map[string]func(*watchdog.Watchdog){
		"Fired":     func(wd *watchdog.Watchdog) { wd.Fired() },
		"Poll":      func(wd *watchdog.Watchdog) { wd.Poll() },
		"Stop":      func(wd *watchdog.Watchdog) { wd.Stop() },
		"Close":     func(wd *watchdog.Watchdog) { wd.Close() },
		"Cancel":    func(wd *watchdog.Watchdog) { wd.Cancel(noOutput) },
		"Interrupt": func(wd *watchdog.Watchdog) { wd.Interrupt("SIGINT") },
		"Extend":    func(wd *watchdog.Watchdog) { wd.Extend(time.Hour) },
		"Hold":      func(wd *watchdog.Watchdog) { wd.Hold(context.Background(), "tool", watchdog.HoldLimit{}) },
		"Sync":      func(wd *watchdog.Watchdog) { wd.Sync(context.Background()) },
		"Progress":  (*watchdog.Watchdog).Progress,
	}
	for name, call := range calls {
		runSynced(t, "a look finds a warning, a directive and a stop, and each calls "+name, func(t *testing.T) {
			var wd *watchdog.Watchdog
			var warnings, signals int
			store, cfg := &flakyStore{}, asked
			cfg.Store, cfg.PollOnly = store, true
			cfg.Budget.WallClock, cfg.Budget.WarnAt = 90*time.Second, []float64{0.5}
			cfg.OnWarning = func(watchdog.Warning) { warnings++; call(wd) }
			cfg.OnSignal = func(s watchdog.Signal) {
				if s.Kind == watchdog.SignalEnd {
					signals++
					call(wd)
				}
			}
			wd = guard(t, cfg)
			var told reader
			wd.Subscribe(func(d watchdog.Directive) { told.tell(d); call(wd) })
			after(80 * time.Second)
			stop, err := wd.Cancel(noOutput)
			require.NoError(t, err)
			require.Equal(t, noOutput.Reason, stop.Code)
			require.Equal(t, []string{"wait 1", "cancel 1"}, told.all())
			require.Equal(t, 1, countEvents(t, store, watchdog.EventCancel))
			require.Equal(t, []int{1, 1}, []int{warnings, signals})
			require.NoError(t, wd.Close())
		})
	}
}

// TestCancelIsLast protects every reader from a directive after the run's end, and from one that is left out.
func TestCancelIsLast(t *testing.T) {
	want := []string{"wait 1", "wait 2", "wait 3", "cancel 1"}
	for name, set := range map[string]func(*flakyStore){
		"the store answers":                 func(*flakyStore) {},
		"the store fails":                   func(s *flakyStore) { s.fail = errDiskFull },
		"the store hangs":                   func(s *flakyStore) { s.hang = make(chan struct{}) },
		"the store hangs and heeds nothing": func(s *flakyStore) { s.hang, s.ignoresContext = make(chan struct{}), true },
	} {
		for _, pollOnly := range []bool{false, true} {
			if name == "the store hangs and heeds nothing" && pollOnly {
				continue // which holds its caller, as documented
			}
			t.Run(fmt.Sprintf("%s, poll-only %v", name, pollOnly), func(t *testing.T) {
				for range 200 {
					cfg := asked
					cfg.PollOnly, cfg.RecordTimeout = pollOnly, 10*minute
					inBubble(t, cfg, func(t *testing.T, wd *watchdog.Watchdog, store *flakyStore) {
						store.set(set)
						var readers [3]reader
						for i := range readers {
							wd.Subscribe(readers[i].tell)
						}
						for range 3 {
							time.Sleep(minute + 1) // and no Wait: Cancel comes while the others are found and recorded
						}
						began := time.Now()
						stop, err := wd.Cancel(noOutput)
						require.NoError(t, err)
						require.NotNil(t, stop)
						require.LessOrEqual(t, time.Since(began), cfg.RecordTimeout)
						synctest.Wait()
						for i := range readers {
							requireAsked(t, want, readers[i].all(), pollOnly)
						}
						requireAsked(t, want, polled(wd), pollOnly)
						store.set(func(s *flakyStore) {
							if s.fail = nil; s.hang != nil {
								close(s.hang)
								s.hang = nil
							}
						})
						require.NoError(t, wd.Close())
						synctest.Wait()
						for i := range readers {
							requireAsked(t, want, readers[i].all(), pollOnly)
						}
						require.Empty(t, polled(wd), "after the cancel")
						require.Equal(t, 1, countEvents(t, store, watchdog.EventCancel))
					})
				}
			})
		}
	}
}

// requireAsked reports that a reader got what is wanted; without a timer one look finds the silence of three minutes.
func requireAsked(t *testing.T, want, got []string, pollOnly bool) {
	t.Helper()
	if pollOnly {
		want = []string{want[0], want[len(want)-1]}
	}
	require.Equal(t, want, got)
}
