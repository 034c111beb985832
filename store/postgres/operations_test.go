package postgres_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
)

var (
	statementsOf = regexp.MustCompile("(?s)```sql\n(.*?)```")
	comment      = regexp.MustCompile("(?m)^--.*$")
)

// documented returns the statements of a section of a page for operators.
func documented(t *testing.T, page, section string) (statements []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
	if os.IsNotExist(err) {
		t.Skip("the document is in another module:", err)
	}
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "\n## "+section+"\n")
	require.True(t, found, "%s has no section %q", page, section)
	rest, _, _ = strings.Cut(rest, "\n## ")
	for _, block := range statementsOf.FindAllStringSubmatch(rest, -1) {
		for statement := range strings.SplitSeq(comment.ReplaceAllString(block[1], ""), ";") {
			if statement = strings.TrimSpace(statement); statement != "" {
				statements = append(statements, statement)
			}
		}
	}
	require.NotEmpty(t, statements)
	return statements
}

// What the pages for operators say works.
func TestOperations(t *testing.T) {
	t.Parallel()
	t.Run("the rights are enough, and each is needed", func(t *testing.T) {
		grants := documented(t, "operations.md", "Rights")
		dsn := newDSN(t)
		pool := hostPool(t, dsn)
		cfg := postgres.Config{Schema: "watchdog", Outbox: true}
		openAt(t, dsn, cfg)
		mustExec(t, pool, "DROP ROLE IF EXISTS app", "CREATE ROLE app LOGIN")
		t.Cleanup(func() { mustExec(t, pool, "DROP OWNED BY app", "DROP ROLE app") })
		asApp := strings.Replace(dsn, "user=postgres", "user=app", 1)
		for _, grant := range grants {
			if !strings.Contains(grant, "DATABASE") { // which has another name, and everybody may connect
				_, err := postgres.Open(t.Context(), asApp, cfg)
				require.Error(t, err, "before "+grant)
				mustExec(t, pool, grant)
			}
		}
		s := openAt(t, asApp, cfg)
		cancelsAtOnce(t, s)
		_, err := s.Take(t.Context(), sliceOf("slice-1", 5, 60))
		require.NoError(t, err)
		require.NoError(t, s.Return(t.Context(), "slice-1", watchdog.Totals{Requests: 2}))
	})
	for section, page := range map[string]string{
		"Autovacuum": "operations.md", "What to alert on": "operations-alerts.md",
	} {
		t.Run("the queries of "+section, func(t *testing.T) {
			dsn := newDSN(t)
			openAt(t, dsn, postgres.Config{})
			mustExec(t, hostPool(t, dsn), documented(t, page, section)...)
		})
	}
	t.Run("the query for rows that are behind", func(t *testing.T) {
		dsn := newDSN(t)
		s := openAt(t, dsn, postgres.Config{})
		l := begin(t, s, lease1)
		l.Beat, l.Clock, l.Covered = 2, 5*time.Second, 5*time.Second
		l.Behind = []session.RowBehind{{RunID: "run-1", Attempt: 3, Written: time.Second}}
		require.NoError(t, s.RenewLease(t.Context(), l))
		for _, statement := range documented(t, "operations-alerts.md", "What to alert on") {
			if strings.Contains(statement, "behind_seconds") {
				require.Equal(t, []string{"host-1 run-1 3 4"}, texts(t, hostPool(t, dsn), "SELECT concat_ws(' ', host, run, attempt, "+
					"round(behind_seconds)) FROM ("+statement+") AS found"))
				return
			}
		}
		require.Fail(t, "there is no such query")
	})
	t.Run("retention takes old sessions that have ended, all of their events, and what was read", func(t *testing.T) {
		s, pool := openNew(t, withOutbox)
		old := time.Now().Add(-100 * 24 * time.Hour)
		for _, run := range []string{"old", "old but active", "ended today", "old without a session", "mixed without a session"} {
			e := cancelOf("cancel of "+run, run).Events[0]
			e.Timestamp = old
			require.NoError(t, s.Append(t.Context(), e))
			if !strings.HasSuffix(run, "without a session") {
				attach(t, s, run)
			}
		}
		for run, claim := range map[string]time.Duration{"to be started": time.Hour, "started": time.Hour, "not to be": 0} {
			c := cancelOf("cancel of "+run, run)
			c.Events[0].Timestamp, c.StartFor = old, claim
			_, err := s.Cancel(t.Context(), attach(t, s, run), c)
			require.NoError(t, err)
		}
		_, err := s.End(t.Context(), []session.Ending{{
			RunID: "started", Attempt: attach(t, s, "started").Attempt, Status: session.Finished,
		}})
		require.NoError(t, err)
		late := cancelOf("late", "mixed without a session").Events[0]
		late.Timestamp = time.Now()
		theirs := cancelOf("theirs", "old").Events[0]
		theirs.AggregateType, theirs.Timestamp = "their own", old
		require.NoError(t, s.Append(t.Context(), late, theirs))
		for _, run := range []string{"old", "ended today"} {
			_, err := s.End(t.Context(), []session.Ending{{RunID: run, Attempt: 1, Status: session.Finished}})
			require.NoError(t, err)
		}
		mustExec(t, pool, `UPDATE watchdog_sessions SET last_event_at = now() - interval '100 days',
			created_at = now() - interval '100 days', ended_at = ended_at - interval '100 days' * (run_id <> 'ended today')::int`)
		require.Len(t, texts(t, pool, "SELECT event_id FROM watchdog_outbox"), 9)
		mustExec(t, pool, documented(t, "operations.md", "Retention")...)
		outbox := documented(t, "operations.md", "The outbox")
		mustExec(t, pool, outbox[:len(outbox)-1]...)
		require.Len(t, texts(t, pool, "SELECT event_id FROM watchdog_outbox"), 9, "none is old")
		mustExec(t, pool, outbox[len(outbox)-1])
		require.Empty(t, texts(t, pool, "SELECT event_id FROM watchdog_outbox"))
		left := []string{"ended today", "mixed without a session", "old but active", "to be started"}
		require.Equal(t, left, slices.Compact(texts(t, pool, `SELECT aggregate_id FROM events
			WHERE aggregate_type = $1 ORDER BY 1`, watchdog.AggregateType)))
		require.Equal(t, []string{"ended today", "old but active", "to be started"},
			texts(t, pool, "SELECT run_id FROM watchdog_sessions ORDER BY 1"))
		require.Len(t, texts(t, pool, "SELECT id FROM events WHERE aggregate_type = 'their own'"), 1)
	})
	t.Run("retention takes slices of windows that ended long ago, these windows, and what was given back", func(t *testing.T) {
		s, pool := openNew(t, postgres.Config{})
		for id, period := range map[string]watchdog.Period{
			"old": watchdog.PeriodDay, "now": watchdog.PeriodDay, "kept": watchdog.PeriodNone, "back": watchdog.PeriodNone,
		} {
			slice := sliceOf(id, 5, 60)
			slice.Period, slice.Scope = period, "of "+id
			_, err := s.Take(t.Context(), slice)
			require.NoError(t, err)
		}
		require.NoError(t, s.Return(t.Context(), "back", watchdog.Totals{Requests: 2}))
		mustExec(t, pool, `UPDATE watchdog_spend SET ends_at = ends_at - interval '100 days' WHERE scope = 'of old'`,
			`UPDATE watchdog_slices SET returned_at = returned_at - interval '100 days'`)
		mustExec(t, pool, documented(t, "operations.md", "Retention")...)
		require.Equal(t, []string{"kept", "now"}, texts(t, pool, "SELECT id FROM watchdog_slices ORDER BY id"))
		require.Equal(t, []string{"of back", "of kept", "of now"},
			texts(t, pool, "SELECT scope FROM watchdog_spend WHERE requests > 0 ORDER BY scope"))
		require.Equal(t, []string{"of old"}, texts(t, pool, `SELECT scope FROM watchdog_spend GROUP BY scope
			HAVING sum(requests) = 0`), "it keeps its currency")
	})
}
