package browser_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/page"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/sqlite"
	"github.com/seed62658d38/watchdog/sweep"
)

// begin begins a live run in the database, as the keeper of another host would.
func (b *tab) begin(runID, host string, age time.Duration, state session.State) session.Session {
	b.Helper()
	return b.beginIn("", runID, host, age, state)
}

// beginIn begins one inside of another.
func (b *tab) beginIn(parent, runID, host string, age time.Duration, state session.State) session.Session {
	b.Helper()
	id := "lease-" + host
	require.NoError(b, b.store.BeginLease(b.Context(), session.Lease{ID: id, Host: host, Promise: time.Minute, Beat: 1}))
	text, err := json.Marshal(state)
	require.NoError(b, err)
	_, s, err := b.store.Attach(b.Context(), session.Session{
		RunID: runID, Parent: parent, Host: host, StartedAt: time.Now().Add(-age), Lease: id, State: text, Activity: session.NoActivity,
	})
	require.NoError(b, err)
	time.Sleep(2 * time.Millisecond) // SQLite orders by milliseconds
	return s
}

// freshen has the keeper of a run say what is new of it.
func (b *tab) freshen(s session.Session, state session.State) {
	b.Helper()
	text, err := json.Marshal(state)
	require.NoError(b, err)
	_, err = b.store.Freshen(b.Context(), s.Lease, []session.Freshness{{
		RunID: s.RunID, Attempt: s.Attempt, Activity: time.Second, State: text,
	}})
	require.NoError(b, err)
}

func (b *tab) end(s session.Session, status session.Status, reason watchdog.StopReason) {
	b.Helper()
	_, err := b.store.End(b.Context(), []session.Ending{{RunID: s.RunID, Attempt: s.Attempt, Status: status, Reason: reason}})
	require.NoError(b, err)
}

// event appends an event that happened some time ago, and returns its ID.
func (b *tab) event(runID, kind string, start time.Time, ago time.Duration, fields string) (id string) {
	b.Helper()
	id = fmt.Sprintf("%s-%d", kind[len(kind)-3:], time.Now().UnixNano())
	payload := fmt.Sprintf(`{"session_started_at":%q`, start.UTC().Format("2006-01-02T15:04:05.000000Z"))
	if fields != "" {
		payload += "," + fields
	}
	require.NoError(b, b.store.Append(b.Context(), watchdog.Event{
		ID: id, AggregateType: watchdog.AggregateType,
		AggregateID: runID, Type: kind, Payload: json.RawMessage(payload + "}"), Timestamp: time.Now().Add(-ago),
	}))
	return id
}

// fleet fills the database with runs of all kinds.
func (b *tab) fleet() {
	b.Helper()
	m := time.Minute
	b.end(b.begin("docs-7fd2", "worker-3", 62*m, session.State{}), session.Finished, "complete")
	b.end(b.begin("nightly-evals", "worker-2", 95*m, session.State{}), session.Interrupted, "")
	b.end(b.begin("crawl-0142", "worker-3", 40*m, session.State{}), session.Cancelled, watchdog.SessionIdleTimeout)
	b.end(b.begin("research-0c1e", "worker-2", 30*m, session.State{}), session.Cancelled, watchdog.CostExceeded)
	b.cancelledRun()
	b.begin("release-notes", "worker-1", 35*time.Second, session.State{WallClock: 3600, Idle: 300, Phase: "reading the log"})
	b.begin("triage-5520", "worker-1", 231*m, session.State{
		WallClock: 14400, Reserve: 900, Idle: 600, Warned: 1, WrappedUp: true, Phase: "writing the summary",
		Spent: []session.Spent{{Limit: "tokens", Used: 812_400, Allowed: 1_000_000, Reserve: 50_000}},
	})
	b.begin("migrate-billing", "worker-2", 98*m, session.State{
		WallClock: 14400, Reserve: 600, Idle: 300, Holds: 1, Phase: "waiting for an approval",
		Spent: []session.Spent{{Limit: "cost", Currency: "EUR", Used: 3_840_000, Allowed: 10_000_000}},
	})
	b.begin("fix-4821", "worker-1", 41*m, session.State{
		WallClock: 14400, Reserve: 600, Safety: 28800, Idle: 300, Phase: "tool: go test ./...",
		Spent: []session.Spent{
			{Limit: "tokens", Used: 241_250, Admitted: 2000, Allowed: 2_000_000, Reserve: 100_000},
			{Limit: "cost", Scope: "tenant-7", Currency: "EUR", Used: 5_320_000, Allowed: 6_400_000},
		},
	})
	b.beginIn("fix-4821", "fix-4821-review", "worker-1", 3*m, session.State{WallClock: 900, Idle: 300, Phase: "reading the diff"})
}

// cancelledRun has events of many kinds and layers.
func (b *tab) cancelledRun() {
	b.Helper()
	const run = "refactor-91ab"
	m := time.Minute
	s := b.begin(run, "worker-2", 267*m, session.State{WallClock: 14400, Spent: []session.Spent{
		{Limit: "cost", Currency: "EUR", Used: 5_870_000, Allowed: 6_400_000},
	}})
	start := s.StartedAt
	opening := b.event(run, watchdog.EventHold, start, 220*m, `"hold":"approval","cap_seconds":3600,"opened_seconds":2820`)
	b.event(run, watchdog.EventRelease, start, 195*m, `"hold":"approval","released_seconds":4320,"opening":"`+opening+`"`)
	b.event(run, watchdog.EventRetry, start, 140*m,
		`"reason":"idle_exceeded","elapsed_seconds":300,"configured_budget_seconds":300,"directive":"retry","attempt":1,"note":"tool: browser"`)
	b.event(run, watchdog.EventInterrupt, start, 133*m, `"signal":"SIGTERM"`)
	b.event(run, watchdog.EventExtend, start, 120*m, `"extension_seconds":1800,"configured_budget_seconds":14400,"elapsed_seconds":7320`)
	b.event(run, watchdog.EventWarning, start, 50*m,
		`"reason":"wall_clock","elapsed_seconds":11520,"configured_budget_seconds":14400,"fraction":0.8,"remaining_seconds":2880`)
	b.event(run, watchdog.EventWarning, start, 96*m, `"reason":"cost","fraction":0.8,`+
		`"spend":{"limit":"cost","currency":"EUR","used":5120000,"allowed":6400000}`)
	b.event(run, watchdog.EventWrapUp, start, 12*m,
		`"reason":"wall_clock","elapsed_seconds":13800,"configured_budget_seconds":14400,"remaining_seconds":600,"note":"tool: go vet"`)
	b.event(run, watchdog.EventCancel, start, 2*m,
		`"reason":"wall_clock_exceeded","elapsed_seconds":14400,"configured_budget_seconds":14400,"note":"tool: go test ./...","paused_seconds":1500`)
	for i, name := range []string{"plan", "edit", "test"} {
		begun := start.Add(time.Duration(i*70) * m)
		end, fields := watchdog.EventComplete, `"reason":"complete","elapsed_seconds":3600,`
		if name == "test" {
			end, fields = watchdog.EventCancel, `"reason":"no_output","elapsed_seconds":300,"configured_budget_seconds":300,`
		}
		b.event(run+"/"+name, end, begun, time.Since(begun.Add(65*m)), fields+fmt.Sprintf(`"parent":%q,"window":"w%d"`, run, i))
	}
	b.end(s, session.Cancelled, watchdog.WallClockExceeded)
}

// A passes is a sweeper that has had passes.
type passes struct{ stats sweep.Stats }

func (p passes) Stats() sweep.Stats { return p.stats }

// sweeper gives a page a sweeper that has had passes.
func sweeper(cfg *page.Config) {
	log := &page.PassLog{}
	for i := range 6 {
		log.Add(sweep.Pass{
			StartedAt: time.Now().Add(time.Duration(5*i-31) * time.Minute), Duration: time.Duration(8+3*i) * time.Millisecond,
			Tally: sweep.Tally{Checked: i, Found: i / 2, Cancelled: i / 3, Spared: i % 2},
		})
	}
	log.Add(sweep.Pass{
		StartedAt: time.Now().Add(-time.Minute), Duration: 21 * time.Millisecond, Tally: sweep.Tally{Checked: 4, Cancelled: 1},
		Cases: []sweep.Case{
			{Session: session.Session{RunID: "crawl-0142", Host: "worker-3"}, Handling: sweep.CaseCancelled, Silence: 11 * time.Minute, Threshold: 10 * time.Minute},
			{Session: session.Session{RunID: "fix-4821", Host: "worker-1"}, Handling: sweep.CaseSpared, Silence: 10 * time.Minute, Threshold: 10 * time.Minute},
		},
	})
	cfg.PassLog = log
	cfg.Sweeper = passes{sweep.Stats{
		Enabled: true, Running: true, Interval: 5 * time.Minute, Passes: 288, Next: time.Now().Add(4 * time.Minute),
		Tally: sweep.Tally{Checked: 412, Found: 19, Cancelled: 11, Spared: 6, Warned: 14, Deferred: 2, LeasesExpired: 1},
	}}
}

// cancelElsewhere has another process cancel a run, as a sweeper does: the event and the row in one transaction.
func (b *tab) cancelElsewhere(runID string) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), os.Args[0], b.path)
	cmd.Env = append(cmd.Environ(), childVariable+"="+runID)
	text, err := cmd.CombinedOutput()
	require.NoError(b, err, "%s", text)
}

// cancelHere cancels a run, and returns the exit status.
func cancelHere(runID, path string) int {
	ctx := context.Background()
	store, err := sqlite.Open(ctx, path)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	err = cancelIn(ctx, store, runID)
	if err = errors.Join(err, store.Close()); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func cancelIn(ctx context.Context, store *sqlite.Store, runID string) error {
	s, err := store.Session(ctx, runID)
	if err != nil {
		return err
	}
	now := time.Now()
	events := sweep.StalledRun{
		RunID: runID, StartedAt: s.StartedAt, LastEventAt: s.LastEventAt, DecidedAt: now,
		Silence: 11 * time.Minute, Threshold: 10 * time.Minute,
	}.CancelEvents()
	did, err := store.Cancel(ctx, s, session.CancelRequest{By: "test", Reason: watchdog.SessionIdleTimeout, Events: events})
	if err == nil && did != session.Done {
		err = fmt.Errorf("the cancel of %s is %s", runID, did)
	}
	return err
}
