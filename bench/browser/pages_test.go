package browser_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/page"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// allRuns is how many runs BenchmarkPages has, one in five of them live.
const allRuns = 5000

// BenchmarkPages measures pages of a list of 5,000 runs in SQLite, for bench/README.md:
//
//	cd bench && GOWORK=off go test -run none -bench Pages ./browser
func BenchmarkPages(b *testing.B) {
	store, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "watchdog.db"))
	require.NoError(b, err)
	defer func() { require.NoError(b, store.Close()) }()
	fill(b, store)
	p, err := page.New(page.Config{Sessions: store, Events: store, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(b, err)
	for name, query := range map[string]string{
		"first": "/", "last": "/?page=50", "search": "/?id=499", "stopped": "/?state=stopped", "nearest": "/?sort=left",
	} {
		b.Run(name, func(b *testing.B) {
			before := processorTime(b)
			for b.Loop() {
				w := httptest.NewRecorder()
				p.ServeHTTP(w, httptest.NewRequestWithContext(b.Context(), http.MethodGet, query, nil))
				require.Equal(b, http.StatusOK, w.Code)
			}
			b.ReportMetric(float64((processorTime(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
		})
	}
}

// processorTime is what the process has used so far: on a busy machine it says more than a clock.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// fill fills a database with the runs of one host.
func fill(b *testing.B, store *sqlite.Store) {
	b.Helper()
	require.NoError(b, store.BeginLease(b.Context(), session.Lease{ID: "l", Host: "h", Promise: time.Minute, Beat: 1}))
	text, err := json.Marshal(session.State{
		WallClock: 14400, Reserve: 600, Idle: 300, Phase: "tool: go test ./...", Spent: []session.Spent{
			{Limit: "tokens", Used: 1000, Allowed: 2_000_000},
			{Limit: "cost", Currency: "EUR", Used: 5_320_000, Allowed: 6_400_000},
		},
	})
	require.NoError(b, err)
	var ends []session.Ending
	for i := range allRuns {
		_, s, err := store.Attach(b.Context(), session.Session{
			RunID: fmt.Sprintf("run-%04d", i), Host: "h", StartedAt: time.Now(), Lease: "l", State: text,
			Activity: session.NoActivity,
		})
		require.NoError(b, err)
		if i%5 > 0 {
			ends = append(ends, session.Ending{RunID: s.RunID, Attempt: 1, Status: session.Finished, Reason: "complete"})
		}
	}
	for len(ends) > 0 {
		n := min(len(ends), 500)
		_, err = store.End(b.Context(), ends[:n])
		require.NoError(b, err)
		ends = ends[n:]
	}
}
