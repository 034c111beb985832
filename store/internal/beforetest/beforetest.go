// Package beforetest tests that a store opens a database which an older version wrote, and that the runs there are what
// they were. The databases are testdata/before.sql of each store. All of them hold the same runs.
package beforetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
	"github.com/seed62658d38/watchdog/watchdogtest"
)

// A Store keeps events and sessions.
type Store interface {
	event.Store
	session.Store
	session.Starts
}

// noon is when all runs began.
var noon = time.Date(2025, 11, 28, 12, 0, 0, 0, time.UTC)

// Check runs the tests. They change the database.
func Check(t *testing.T, s Store) {
	t.Helper()
	c := check{store: s}
	t.Run("a run goes on from its start, with what was recorded", c.goOn)
	t.Run("an end is the one that is stored", c.ended)
	t.Run("an open hold pauses the wall clock until its cap is over, because nobody knows who opened it", c.held)
	t.Run("a ladder and the warnings go on where they were", c.laddered)
	t.Run("a layer that was cancelled has its event", c.layered)
	t.Run("cancels are counted", c.history)
	t.Run("rows are read", c.rows)
	t.Run("a start is owed", c.owed)
	t.Run("a sweeper cancels what is stalled, and runs of a dead process", c.swept)
	t.Run("new runs and rows are written beside the old ones", c.added)
	t.Run("processes that begin a run at once have one start", c.together)
}

// CheckLeftovers opens a store, and expects what it logs of tables that nothing reads any more: one warning of each,
// with the statement that reads it and those that drop it. After these it expects none.
func CheckLeftovers(t *testing.T, open func(log *slog.Logger), exec func(statement string)) {
	t.Helper()
	warnings := func() (all []map[string]string) {
		var log bytes.Buffer
		open(slog.New(slog.NewJSONHandler(&log, nil)))
		for line := range bytes.Lines(log.Bytes()) {
			var warning map[string]string
			works(t, json.Unmarshal(line, &warning))
			all = append(all, warning)
		}
		return all
	}
	tables := []string{"watchdog_outbox", "watchdog_spend"}
	found := warnings()
	equal(t, len(tables), len(found))
	for i, warning := range found {
		equal(t, "WARN", warning["level"])
		equal(t, "an older version left rows that nothing reads any more", warning["msg"])
		equal(t, true, warning["database"] != "" && warning["rows"] != "")
		equal(t, true, strings.Contains(warning["read"], tables[i]) && strings.Contains(warning["drop"], tables[i]))
		exec(warning["read"])
		exec(warning["drop"])
	}
	equal(t, 0, len(warnings()))
}

type check struct{ store Store }

// at attaches to a run so long after noon.
func (c check) at(
	t *testing.T, run watchdog.Run, after time.Duration, b watchdog.Budget,
) (*watchdog.Watchdog, *watchdogtest.MockClock) {
	t.Helper()
	now := watchdogtest.NewMockClock()
	now.Set(noon.Add(after))
	w, err := watchdog.New(t.Context(), run, watchdog.Config{
		Store: c.store, Budget: b, Clock: now, PollOnly: true, Logger: slog.New(slog.DiscardHandler),
	})
	works(t, err)
	t.Cleanup(func() { works(t, w.Close()) })
	return w, now
}

func at(id string) watchdog.Run { return watchdog.Run{ID: id, StartedAt: noon} }

func (c check) goOn(t *testing.T) {
	for _, test := range []struct {
		run   watchdog.Run
		start time.Time
		left  time.Duration // seven hours after noon
	}{
		{watchdog.Run{ID: "continued"}, noon, 3 * time.Hour},
		{watchdog.Run{ID: "continued-eventful"}, noon, 3*time.Hour + 78*time.Second + 6*time.Minute},
		{at("eventful"), noon, 3*time.Hour + 12*time.Minute},
		{at("released"), noon, 3*time.Hour + 10*time.Minute},
		{at("extended"), noon, 4 * time.Hour},
		{at("resumed"), noon.Add(6 * time.Hour), 9 * time.Hour},
		{at("scoped"), noon, 3 * time.Hour},
		{at("layered"), noon, 3 * time.Hour},
	} {
		t.Run(test.run.ID, func(t *testing.T) {
			w, now := c.at(t, test.run, 7*time.Hour, watchdog.Budget{WallClock: 10 * time.Hour})
			equal(t, test.start, w.StartedAt())
			equal(t, test.left, w.Remaining())
			now.Add(test.left)
			_, fired := w.Fired()
			equal(t, false, fired) // at the limit itself
		})
	}
}

func (c check) ended(t *testing.T) {
	for _, test := range []struct {
		run  string
		want watchdog.Stop
	}{
		{"cancelled", watchdog.Stop{
			Code: watchdog.WallClockExceeded, FiredAt: noon.Add(4*time.Hour + time.Second),
			Elapsed: 4*time.Hour + time.Second, Budget: 4 * time.Hour, Note: "tool call",
		}},
		{"looped", watchdog.Stop{Code: "watchdog_loop_detected", FiredAt: noon.Add(5 * time.Second)}},
		{"spent", watchdog.Stop{Code: watchdog.RequestsExceeded, FiredAt: noon.Add(5 * time.Second)}},
	} {
		t.Run(test.run, func(t *testing.T) {
			w, _ := c.at(t, at(test.run), 5*time.Hour, watchdog.Budget{})
			code, fired := w.Fired()
			equal(t, true, fired)
			equal(t, test.want.Code, code)
			stop := w.Stop()
			equal(t, noon, stop.StartedAt)
			equal(t, test.want.FiredAt, stop.FiredAt)
			equal(t, test.want.Note, stop.Note)
			if test.want.Budget != 0 {
				equal(t, test.want.Elapsed, stop.Elapsed)
				equal(t, test.want.Budget, stop.Budget)
			}
		})
	}
	_, err := watchdog.New(t.Context(), at("completed"), watchdog.Config{Store: c.store})
	equal(t, true, errors.Is(err, watchdog.ErrComplete))
	_, err = watchdog.New(t.Context(), watchdog.Run{ID: "finished"}, watchdog.Config{Store: c.store})
	equal(t, true, errors.Is(err, watchdog.ErrComplete))
}

func (c check) held(t *testing.T) {
	w, now := c.at(t, at("held"), time.Hour, watchdog.Budget{})
	equal(t, 4*time.Hour-time.Minute, w.Remaining())
	h, err := w.Hold(t.Context(), "approval", watchdog.HoldLimit{Cap: 2 * time.Hour, PausesWallClock: true})
	works(t, err)
	now.Add(time.Minute)
	equal(t, true, h.Close())
	now.Add(time.Hour) // to the cap of the old one
	equal(t, 4*time.Hour-time.Minute, w.Remaining())
	now.Add(time.Minute)
	equal(t, 4*time.Hour-2*time.Minute, w.Remaining())
}

func (c check) laddered(t *testing.T) {
	w, now := c.at(t, at("laddered"), 2*time.Hour, watchdog.Budget{
		WarnAt: []float64{0.25}, Idle: 30 * time.Minute,
		Ladders: watchdog.Ladders{Idle: []watchdog.DirectiveKind{watchdog.DirectiveRetry, watchdog.DirectiveUnstuck}},
	})
	now.Add(31 * time.Minute)
	d, _ := w.Poll()
	equal(t, watchdog.DirectiveUnstuck, d.Kind)
	now.Add(31 * time.Minute)
	code, _ := w.Fired()
	equal(t, watchdog.IdleExceeded, code)
	works(t, w.Close())
	var warned int
	for _, e := range c.read(t, "laddered") {
		if e.Type == event.Warning && bytes.Contains(e.Payload, []byte(`"fraction":0.25`)) {
			warned++
		}
	}
	equal(t, 1, warned)
}

func (c check) layered(t *testing.T) {
	all := c.read(t, "layered/tool")
	equal(t, 1, len(all))
	equal(t, event.Cancel, all[0].Type)
}

func (c check) history(t *testing.T) {
	counts, err := c.store.History(t.Context(), session.HistoryQuery{
		From: noon.Truncate(24 * time.Hour), To: noon.Add(24 * time.Hour), By: session.ByReason,
	})
	works(t, err)
	asked := make(map[session.CancelCount]bool)
	for _, count := range counts {
		asked[count] = true
	}
	equal(t, map[session.CancelCount]bool{
		{Key: "wall_clock_exceeded", Count: 3}: true, {Key: "loop_detected", Count: 1}: true,
		{Key: "requests_exceeded", Count: 1}: true, {Key: "idle_timeout", Count: 1}: true,
		{Key: "idle_exceeded", Count: 1}: true, // that of the ladder, just now
	}, asked)
}

func (c check) rows(t *testing.T) {
	kept := c.session(t, "kept")
	equal(t, session.Active, kept.Status)
	equal(t, "host-b", kept.Host)
	equal(t, true, kept.Lease != "")
	equal(t, noon, kept.StartedAt)
	finished := c.session(t, "finished")
	equal(t, session.Finished, finished.Status)
	equal(t, watchdog.StopReason("complete"), finished.Reason)
	equal(t, session.Active, c.session(t, "unleased").Status)
	equal(t, session.Cancelled, c.session(t, "owed").Status)
}

func (c check) owed(t *testing.T) {
	row, err := c.store.ClaimStart(t.Context(), time.Minute)
	works(t, err)
	equal(t, "owed", row.RunID)
	equal(t, 1, row.Resumes)
	equal(t, 2, row.Start.Tries)
	done, err := c.store.PutOffStart(t.Context(), row, session.NoMoreStarts)
	works(t, err)
	equal(t, true, done)
}

func (c check) swept(t *testing.T) {
	sweeper, err := sweep.New(c.store, c.store, sweep.Config{Logger: slog.New(slog.DiscardHandler)})
	works(t, err)
	pass, err := sweeper.Sweep(t.Context()) // which waits for the promises of the lease
	works(t, err)
	equal(t, 2, pass.Cancelled)
	equal(t, watchdog.SessionIdleTimeout, c.session(t, "unleased").Reason)
	equal(t, watchdog.SessionHostLost, c.session(t, "kept").Reason)
	w, _ := c.at(t, watchdog.Run{ID: "kept"}, time.Hour, watchdog.Budget{})
	code, fired := w.Fired()
	equal(t, true, fired)
	equal(t, watchdog.SessionHostLost, code)
}

func (c check) added(t *testing.T) {
	keeper, err := session.NewKeeper(session.KeeperConfig{Store: c.store, Host: "host-c"})
	works(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- keeper.Run(ctx) }()
	run := watchdog.Run{ID: "new"}
	w, err := watchdog.New(t.Context(), run, watchdog.Config{Store: c.store, Keeper: keeper})
	works(t, err)
	equal(t, session.Active, c.session(t, "new").Status)
	works(t, w.Complete())
	works(t, w.Close())
	stop()
	works(t, <-ended)
	equal(t, session.Finished, c.session(t, "new").Status)
}

func (c check) together(t *testing.T) {
	starts := make(chan time.Time, 16)
	for n := range cap(starts) {
		go func() {
			now := watchdogtest.NewMockClock()
			now.Set(noon.Add(time.Duration(n) * time.Second))
			w, err := watchdog.New(t.Context(), watchdog.Run{ID: "together"}, watchdog.Config{
				Store: c.store, Clock: now, PollOnly: true, Logger: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				t.Error(err)
			} else if err := w.Close(); err != nil {
				t.Error(err)
			}
			starts <- w.StartedAt()
		}()
	}
	first := <-starts
	for range cap(starts) - 1 {
		equal(t, first, <-starts)
	}
	all := c.read(t, "together")
	equal(t, 1, len(all))
	equal(t, event.Start, all[0].Type)
}

func (c check) read(t *testing.T, run string) []event.Event {
	t.Helper()
	all, err := c.store.Read(t.Context(), event.AggregateType, run)
	works(t, err)
	return all
}

func (c check) session(t *testing.T, run string) session.Session {
	t.Helper()
	row, err := c.store.Session(t.Context(), run)
	works(t, err)
	return row
}

func works(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T any](t *testing.T, want, got T) {
	t.Helper()
	if !reflect.DeepEqual(want, got) {
		t.Fatalf("got %v, want %v", got, want)
	}
}
