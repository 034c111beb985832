package sqlite_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed62658d38/watchdog"
)

// TestPauseUnderLock protects that a run ends on time whose approval closes, or opens, while a stranger has the
// database locked for longer than the record timeout, and that both are stored afterwards though nobody polls.
func TestPauseUnderLock(t *testing.T) {
	t.Parallel()
	limit := watchdog.HoldLimit{Cap: time.Minute, PausesWallClock: true}
	for name, locked := range map[string]time.Duration{
		"when it opens": 18 * time.Second, "when it closes": 6500 * time.Millisecond,
		"from when it closes until the run has to end": 10500 * time.Millisecond,
	} {
		opensLocked := name == "when it opens"
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				file := newFile(t)
				s := openAt(t, file)
				holder := openPlain(t, file)
				holder.SetMaxOpenConns(1)
				begun := time.Now()
				wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: begun}, watchdog.Config{
					Store: s, Logger: slog.New(slog.DiscardHandler), Budget: watchdog.Budget{WallClock: 10 * time.Second},
				})
				if err != nil {
					t.Fatal(err)
				}
				defer wd.Close()
				lock := func() {
					mustExec(t, holder, "BEGIN IMMEDIATE")
					time.AfterFunc(locked, func() { mustExec(t, holder, "ROLLBACK") })
				}
				if opensLocked {
					lock()
				}
				h, err := wd.Hold(t.Context(), "approval", limit)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(20 * time.Second)
				if !opensLocked {
					lock()
				}
				h.Close()
				<-wd.Context().Done()
				if lasted := time.Since(begun); lasted < 30*time.Second || lasted > 31*time.Second {
					t.Errorf("the run lasted %v, and 20 s of them were an approval; it has 10 s", lasted)
				}
				if !errors.Is(context.Cause(wd.Context()), watchdog.WallClockExceeded) {
					t.Error(context.Cause(wd.Context()))
				}
				events, err := s.Read(t.Context(), watchdog.AggregateType, "s-1")
				if err != nil {
					t.Fatal(err)
				}
				for _, kind := range []string{watchdog.EventHold, watchdog.EventRelease, watchdog.EventCancel} {
					if !slices.ContainsFunc(events, func(e watchdog.Event) bool { return e.Type == kind }) {
						t.Errorf("%s is not stored", kind)
					}
				}
			})
		})
	}
}
