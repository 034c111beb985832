package session_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

func TestACancelFromElsewhereEndsTheRun(t *testing.T) {
	t.Run("at once, where the store can be listened to", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.running()
			wd, other := b.attach("s-1"), b.attach("s-2")
			b.after(time.Hour)
			begun := time.Now()
			b.swept("s-1")
			synctest.Wait()
			require.Equal(t, begun, time.Now())
			b.requireSwept(wd)
			b.requireRunning(other)
			b.after(time.Minute)
			require.Equal(t, 1, b.the().Live())
			b.requireSwept(wd) // its own end has not changed the row
			require.Zero(t, b.log.count("level="))
		})
	})
	t.Run("with the next poll, where it cannot", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.cfg.Store = unheard{b.db}
			b.running()
			wd := b.attach("s-1")
			b.after(time.Hour + time.Millisecond)
			b.swept("s-1")
			synctest.Wait()
			b.requireRunning(wd)
			b.after(session.DefaultPoll)
			b.requireSwept(wd)
		})
	})
	t.Run("within a minute, where nobody was told though the store was listened to", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.running()
			wd := b.attach("s-1")
			b.db.mute = true
			b.after(time.Millisecond)
			b.swept("s-1")
			b.after(time.Minute - 2*time.Millisecond)
			b.requireRunning(wd)
			b.after(time.Millisecond)
			b.requireSwept(wd)
		})
	})
	t.Run("where the keeper ran only after it", func(t *testing.T) {
		for _, listen := range []bool{true, false} {
			inBed(t, func(b *bed) {
				if !listen {
					b.cfg.Store = unheard{b.db}
				}
				wd, other := b.attach("s-1"), b.attach("s-2")
				b.after(time.Hour)
				b.swept("s-1")
				fails := 3
				b.db.spoil(func(_ context.Context, call string) error {
					if call != "Freshen" || fails == 0 {
						return nil
					}
					fails--
					return errDown
				})
				b.running()
				b.after(10 * time.Second)
				b.requireSwept(wd)
				b.requireRunning(other)
				calls, _ := b.db.counted()
				require.Equal(t, 3+1, calls["Freshen"], "all are asked for at once")
			})
		}
	})
	t.Run("where it writes its row, and was not told", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.cfg.Store, b.cfg.Poll = unheard{b.db}, time.Hour
			b.running()
			wd := b.attach("s-1")
			b.after(11 * time.Minute)
			b.swept("s-1")
			wd.Activity()
			b.after(time.Second)
			b.requireSwept(wd)
			require.NotEqual(t, time.Now().UTC(), b.row("s-1").LastEventAt)
		})
	})
	t.Run("one of many in its turn: sixteen look at once", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.running()
			var all []*watchdog.Watchdog
			for i := range 7 * 16 {
				all = append(all, b.attach(name(i)))
			}
			b.after(time.Hour)
			b.db.spoil(func(_ context.Context, call string) error {
				if call == "Read" {
					time.Sleep(time.Second)
				}
				return nil
			})
			for i := range all {
				b.swept(name(i))
			}
			b.after(7*time.Second - 1)
			ended := 0
			for _, wd := range all {
				if wd.Context().Err() != nil {
					ended++
				}
			}
			require.Equal(t, 6*16, ended)
			b.after(1)
			for _, wd := range all {
				b.requireSwept(wd)
			}
		})
	})
}

func TestARunThatCannotLookForItsCancelLooksAgain(t *testing.T) {
	t.Run("until it can, and the log tells once", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.running()
			wd := b.attach("s-1")
			b.after(time.Hour)
			b.db.spoil(func(_ context.Context, call string) error {
				if call == "Read" {
					return errDown
				}
				return nil
			})
			b.swept("s-1")
			b.after(time.Minute)
			b.requireRunning(wd)
			require.Equal(t, 1, b.log.count("a run cannot look for its cancel"))
			b.db.spoil(nil)
			b.after(time.Second)
			b.requireSwept(wd)
			b.db.counted()
			b.after(time.Minute)
			calls, _ := b.db.counted()
			require.Zero(t, calls["Read"])
		})
	})
	t.Run("but not where the looking ended with the keeper", func(t *testing.T) {
		inBed(t, func(b *bed) {
			stop := b.run(b.the())
			wd := b.attach("s-1")
			b.db.spoil(func(ctx context.Context, call string) error {
				if call == "Read" {
					<-ctx.Done()
				}
				return ctx.Err()
			})
			b.swept("s-1")
			b.after(time.Second)
			stop()
			b.requireRunning(wd)
			require.Zero(t, b.log.count("level="))
		})
	})
	t.Run("nor each second where an event cannot be understood", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.running()
			wd := b.attach("s-1")
			require.NoError(t, b.db.Append(context.Background(), watchdog.Event{
				ID: "1", AggregateType: watchdog.AggregateType, AggregateID: "s-1", Type: watchdog.EventCancel, Payload: []byte(`{}`), Timestamp: time.Now(),
			}))
			b.swept("s-1")
			b.after(time.Second)
			b.db.counted()
			b.after(time.Minute)
			b.requireRunning(wd)
			calls, _ := b.db.counted()
			require.LessOrEqual(t, calls["Read"], 1, "the poll finds it too")
			require.Equal(t, 1, b.log.count("a run cannot look for its cancel"))
		})
	})
	t.Run("but not where it has ended meanwhile", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.running()
			wd := b.attach("s-1")
			require.NoError(t, wd.Close())
			b.swept("s-1")
			b.after(time.Minute)
			require.Zero(t, b.log.count("level="))
			require.Equal(t, session.Cancelled, b.row("s-1").Status)
		})
	})
	t.Run("and the log tells of the next time that it cannot", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.running()
			wd := b.attach("s-1")
			require.NoError(t, b.db.Memory.End(context.Background(), []session.Ending{{RunID: "s-1", Attempt: 1, Status: session.Finished}}))
			for n := 1; n < 3; n++ {
				b.db.spoil(func(_ context.Context, call string) error {
					if call == "Session" {
						return errDown
					}
					return nil
				})
				b.after(2 * time.Minute)
				wd.Activity()
				b.after(time.Minute)
				require.Equal(t, n, b.log.count("a run cannot look for its cancel"))
				b.db.spoil(nil)
				b.after(time.Minute)
			}
			b.requireRunning(wd)
		})
	})
	t.Run("also where it was told of it while it looked", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.running()
			wd := b.attach("s-1")
			b.after(11 * time.Minute)
			require.NoError(t, b.db.Memory.End(context.Background(), []session.Ending{{RunID: "s-1", Attempt: 1, Status: session.Finished}}))
			wd.Activity()
			b.db.spoil(func(_ context.Context, call string) error {
				if call == "Session" { // it has read the events, and found nothing
					time.Sleep(3 * time.Second)
				}
				return nil
			})
			b.after(2 * time.Second)
			row := b.row("s-1")
			row.Status = session.Active
			require.NoError(t, b.db.Put(context.Background(), row))
			b.swept("s-1")
			b.after(5 * time.Second)
			b.requireSwept(wd)
		})
	})
}

func TestListeningThatFails(t *testing.T) {
	t.Run("is polling, until it comes back", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.db.spoil(func(_ context.Context, call string) error {
				if call == "Listen" {
					return errDown
				}
				return nil
			})
			b.running()
			first, second := b.attach("s-1"), b.attach("s-2")
			b.after(10 * time.Minute)
			require.Equal(t, 1, b.log.count("polling for them"))
			calls, _ := b.db.counted()
			require.Less(t, calls["Listen"], 30)
			b.swept("s-1")
			b.after(session.DefaultPoll)
			b.requireSwept(first)
			b.db.spoil(nil)
			b.after(30 * time.Second)
			require.Equal(t, 1, b.log.count("are listened to again"))
			b.swept("s-2")
			synctest.Wait()
			b.requireSwept(second)
		})
	})
	t.Run("is soon tried again after it was well for a time", func(t *testing.T) {
		inBed(t, func(b *bed) {
			store := &frail{database: b.db}
			b.cfg.Store = store
			b.db.spoil(func(_ context.Context, call string) error {
				if call == "Listen" {
					return errDown
				}
				return nil
			})
			b.running()
			wd := b.attach("s-1")
			b.after(10 * time.Minute)
			b.db.spoil(nil)
			b.after(time.Minute)
			for range 3 {
				b.db.counted()
				store.cut()
				b.after(time.Second)
				calls, _ := b.db.counted()
				require.Equal(t, 1, calls["Listen"])
			}
			b.swept("s-1")
			synctest.Wait()
			b.requireSwept(wd)
			require.Equal(t, 4, b.log.count("polling for them"))
			require.Equal(t, 4, b.log.count("are listened to again"))
		})
	})
	t.Run("misses nothing of what happened until it was back", func(t *testing.T) {
		inBed(t, func(b *bed) {
			lost, ready := make(chan struct{}), make(chan struct{})
			b.cfg.Store = &broken{database: b.db, lost: lost, ready: ready}
			b.running()
			wd := b.attach("s-1")
			polled := b.attach("s-2")
			b.after(time.Hour + time.Millisecond)
			close(lost)
			b.swept("s-2")
			b.after(session.DefaultPoll)
			b.requireSwept(polled)
			b.swept("s-1")
			begun := time.Now()
			close(ready)
			synctest.Wait()
			require.Equal(t, begun, time.Now())
			b.requireSwept(wd)
		})
	})
}

// frail is a database whose connection can be cut.
type frail struct {
	*database
	cut context.CancelFunc
}

func (s *frail) Listen(ctx context.Context, ready func(), told func(string)) error {
	ctx, s.cut = context.WithCancel(ctx)
	return s.database.Listen(ctx, ready, told)
}

// broken is a database whose first connection is lost, and whose second is slow to be ready and then silent.
type broken struct {
	*database
	lost, ready chan struct{}
	again       bool
}

func (s *broken) Listen(ctx context.Context, ready func(), told func(string)) error {
	if !s.again {
		s.again = true
		ready()
		<-s.lost
		return errDown
	}
	<-s.ready
	s.database.mute = true
	return s.database.Listen(ctx, ready, told)
}

func TestASweepersCancelAgainstASignOfLife(t *testing.T) {
	t.Run("that is written first: the cancel is void", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.running()
			wd := b.attach("s-1")
			b.after(11 * time.Minute)
			judged := b.row("s-1")
			wd.Activity()
			b.after(time.Second)
			require.False(t, b.sweep(judged))
			b.after(time.Minute)
			b.requireRunning(wd)
			require.Equal(t, session.Active, b.row("s-1").Status)
		})
	})
	t.Run("that is written at the same instant: the one or the other", func(t *testing.T) {
		won := map[bool]int{}
		for range 50 {
			inBed(t, func(b *bed) { won[b.race()]++ })
		}
		t.Logf("cancelled: %d of 50", won[true])
	})
}

// race has a sweeper cancel some runs when their keeper writes that they woke up, and reports whether the first was cancelled.
func (b *bed) race() bool {
	b.running()
	var all []*watchdog.Watchdog
	var judged []session.Session
	for i := range 8 {
		all = append(all, b.attach(name(i)))
	}
	b.after(11*time.Minute - time.Millisecond)
	for i, wd := range all {
		judged = append(judged, b.row(name(i)))
		wd.Activity()
	}
	cancelled := make([]bool, len(all))
	var sweepers sync.WaitGroup
	for i := range all {
		sweepers.Go(func() {
			time.Sleep(time.Millisecond) // until the keeper looks
			cancelled[i] = b.sweep(judged[i])
		})
	}
	sweepers.Wait()
	b.after(time.Minute)
	for i, wd := range all {
		if row := b.row(name(i)); cancelled[i] {
			b.requireSwept(wd)
			require.Equal(b, judged[i].LastEventAt, row.LastEventAt)
		} else {
			b.requireRunning(wd)
			require.Equal(b, session.Active, row.Status)
			require.NotEqual(b, judged[i].LastEventAt, row.LastEventAt)
		}
	}
	return cancelled[0]
}
