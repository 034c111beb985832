package main_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	main "github.com/seed62658d38/watchdog/cmd/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// someSessions makes sessions: two live ones, of which the first is leased, and ended ones of each kind, each made a
// second later.
func someSessions(t *testing.T, s testStore) {
	t.Helper()
	require.NoError(t, s.BeginLease(t.Context(), session.Lease{
		ID: "lease-1", Host: "worker-7", Promise: 10 * time.Second, Beat: 1, Clock: 5 * time.Minute, Vouched: 5 * time.Minute,
	}))
	state := json.RawMessage(`{"phase":"compiling"}`)
	s.attach(t, session.Session{RunID: "live-leased", Host: "worker-7", Lease: "lease-1", State: state})
	_, err := s.Freshen(t.Context(), "lease-1", []session.Freshness{{RunID: "live-leased", Attempt: 1, Activity: 3 * time.Minute}})
	require.NoError(t, err)
	s.attach(t, session.Session{RunID: "live", Host: "worker-8"})
	for _, e := range []session.Ending{
		{RunID: "complete", Status: session.Finished, Reason: "complete"},
		{RunID: "cancelled", Status: session.Cancelled, Reason: watchdog.SessionIdleTimeout},
		{RunID: "interrupted", Status: session.Interrupted},
	} {
		s.attach(t, session.Session{RunID: e.RunID, Host: "worker-7", Parent: "job"})
		e.Attempt = 1
		_, err := s.End(t.Context(), []session.Ending{e})
		require.NoError(t, err)
	}
	s.attach(t, session.Session{RunID: "evil\x1b[2J\u202e\n", Host: "ＨＯＳＴ"})
	ages := map[string]int{
		"live-leased": 200, "live": 90000, "complete": 30, "cancelled": 259200, "interrupted": 10, "evil\x1b[2J\u202e\n": 7200,
	}
	for run, seconds := range ages {
		s.exec(s.setAge(run, seconds))
	}
}

// setAge is a statement that gives a session an age in seconds, and an unleased one its last event then, too.
func (s testStore) setAge(run string, seconds int) string {
	at := fmt.Sprintf("now() - interval '%d seconds'", seconds)
	if strings.HasPrefix(s.url, "sqlite:") {
		at = fmt.Sprintf("strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', '-%d seconds') || '000'", seconds)
	}
	return fmt.Sprintf("UPDATE watchdog_sessions SET created_at = %[1]s, last_event_at = %[1]s WHERE run_id = '%[2]s'", at, run)
}

// runs returns the first words of the lines after the titles.
func runs(o outcome) (all []string) {
	for _, line := range strings.Split(strings.TrimSpace(o.stdout), "\n")[1:] {
		all = append(all, strings.Fields(line)[0])
	}
	return all
}

var newestFirst = []string{"live-leased", `evil\x1b[2J\u202e\x0a`, "live", "interrupted", "complete", "cancelled"}

func TestSessions(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s testStore) {
		someSessions(t, s)
		t.Run("the list has the live ones first, then the newest", func(t *testing.T) {
			o := s.program(t, "sessions")
			require.Zero(t, o.status, o.stderr)
			assert.Equal(t, newestFirst, runs(o))
			assert.Empty(t, o.stderr)
			seconds := regexp.MustCompile(`\b\d+s\b`) // a test can be slow
			text := seconds.ReplaceAllString(o.stdout, "10s")
			text = strings.ReplaceAll(text, "59m  ", "1h00m") // the end is of the database's clock, which has milliseconds
			golden(t, "sessions", text)
		})
		for flags, want := range map[string][]string{
			"--live":                 newestFirst[:3],
			"--ended":                newestFirst[3:],
			"--live --ended":         newestFirst,
			"--host worker-7":        {"live-leased", "interrupted", "complete", "cancelled"},
			"--reason complete":      {"complete"},
			"--parent job --live":    nil,
			"--parent job":           newestFirst[3:],
			"--host worker-8":        {"live"},
			"--limit 4 --parent job": newestFirst[3:],
		} {
			t.Run("filtered by "+flags, func(t *testing.T) {
				o := s.program(t, append([]string{"sessions"}, strings.Fields(flags)...)...)
				require.Zero(t, o.status, o.stderr)
				if want == nil {
					assert.Equal(t, "watchdog: no session is as asked for\n", o.stderr)
					assert.Empty(t, o.stdout)
					return
				}
				assert.Equal(t, want, runs(o))
			})
		}
		for limit := 1; limit <= 6; limit++ {
			t.Run(fmt.Sprintf("pages of %d are the whole list, once", limit), func(t *testing.T) {
				var all []string
				after := ""
				for range 8 {
					o := s.program(t, "sessions", "--limit", fmt.Sprint(limit), "--after", after)
					require.Zero(t, o.status, o.stderr)
					if o.stdout != "" {
						all = append(all, runs(o)...)
					}
					next := regexp.MustCompile(`--after (\S+)`).FindStringSubmatch(o.stderr)
					if next == nil {
						break
					}
					after = next[1]
				}
				assert.Equal(t, newestFirst, all)
			})
		}
		t.Run("as JSON", func(t *testing.T) {
			o := s.program(t, "sessions", "--json", "--limit", "5")
			require.Zero(t, o.status, o.stderr)
			numbers := regexp.MustCompile(`(_seconds": )[\d.]+`)
			times := regexp.MustCompile(`"20\d\d-[^"]*Z"`)
			marks := regexp.MustCompile(`("next": ").*"`)
			text := numbers.ReplaceAllString(o.stdout, "${1}10.5")
			text = marks.ReplaceAllString(times.ReplaceAllString(text, `"2026-03-04T12:00:00Z"`), `${1}eMARK"`)
			golden(t, "sessions.json", text)
		})
		t.Run("a row that cannot be read is said, and the others are listed", func(t *testing.T) {
			s.exec("UPDATE watchdog_sessions SET status = 'strange' WHERE run_id = 'complete'")
			o := s.program(t, "sessions")
			assert.Zero(t, o.status)
			assert.Len(t, runs(o), 5)
			assert.Contains(t, o.stderr, "unreadable session")
			assert.Contains(t, o.stderr, "run complete")
			var page struct{ Unreadable []string }
			require.NoError(t, json.Unmarshal([]byte(s.program(t, "sessions", "--json").stdout), &page))
			assert.Len(t, page.Unreadable, 1)
		})
		t.Run("what is wrong is said", func(t *testing.T) {
			for flags, says := range map[string]string{
				"--limit 0":             "--limit is 0; write at least 1",
				"--after nonsense":      "--after: no list with these flags ended so",
				"--ended --after lAAAA": "--after: no list with these flags ended so",
				"--limit x":             "--limit",
				"--after lbm9uc2Vuc2U":  "is not the end of a page",
			} {
				o := s.program(t, append([]string{"sessions"}, strings.Fields(flags)...)...)
				assert.Equal(t, 125, o.status)
				assert.Contains(t, o.stderr, says)
			}
		})
	})
}

// TestSessionBehind checks that a row which its process cannot write is said.
func TestSessionBehind(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s testStore) {
		someSessions(t, s)
		_, err := s.Freshen(t.Context(), "lease-1",
			[]session.Freshness{{RunID: "live-leased", Attempt: 1, Activity: 3 * time.Minute, Quiet: true}})
		require.NoError(t, err)
		require.NoError(t, s.RenewLease(t.Context(), session.Lease{
			ID: "lease-1", Beat: 2, Clock: time.Hour, Covered: time.Hour,
			Behind: []session.RowBehind{{RunID: "live-leased", Attempt: 1, Written: 3 * time.Minute}},
		}))
		o := s.program(t, "sessions")
		assert.Equal(t, newestFirst, runs(o))
		assert.Regexp(t, `live-leased +active \(behind\) `, o.stdout)
		assert.Equal(t, 1, strings.Count(o.stdout, "behind"))
		assert.Equal(t, 1, strings.Count(s.program(t, "sessions", "--json").stdout, `"behind": true`))
		assert.Contains(t, s.program(t, "why", "live-leased").stdout, "its process cannot write its row")
	})
}

func TestAgo(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{
		"0s": -time.Second, "59s": time.Minute - 1, "1m": time.Minute, "59m": time.Hour - 1, "1h00m": time.Hour,
		"47h59m": 48*time.Hour - 1, "2d": 48 * time.Hour,
	} {
		assert.Equal(t, want, main.Ago(d))
	}
}

// The rows of the benchmark: one of a hundred is live, in one of ten leases, and they were made a second apart.
const (
	benchSessions = 1_000_000

	sqliteSessions = `
	WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %[1]d),
		made (i, at) AS (SELECT i, strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', (i - %[1]d) || ' seconds') || '000' FROM n)
	INSERT INTO watchdog_sessions (run_id, parent, status, created_at, last_event_at, started_at, host, attempt, reason,
		threshold, lease, leased, activity, ended, state)
	SELECT 'run-' || i, '', CASE WHEN i %% 100 = 0 THEN 'active' ELSE 'finished' END, at, at, at, 'worker-' || (i %% 100), 1,
		CASE WHEN i %% 100 <> 0 THEN 'complete' ELSE '' END, 0, CASE WHEN i %% 100 = 0 THEN 'lease-' || (i / 100 %% 10) END,
		CASE WHEN i %% 100 = 0 THEN 1 END, CASE WHEN i %% 100 = 0 THEN 1 END, CASE WHEN i %% 100 <> 0 THEN i END,
		CASE WHEN i %% 100 = 0 THEN '{"phase":"compiling"}' END FROM made`
	sqliteLeases = `
	INSERT INTO watchdog_leases (id, host, promise, beat, clock, vouched, renewed_at)
	SELECT 'lease-' || value, 'worker', 10000000000, 1, 5, 5, strftime('%Y-%m-%d %H:%M:%f', 'now') || '000'
	FROM json_each('[0,1,2,3,4,5,6,7,8,9]')`

	postgresSessions = `
	INSERT INTO watchdog_sessions (run_id, parent, status, created_at, last_event_at, started_at, host, attempt, reason,
		threshold, lease, leased, activity, ended, state)
	SELECT 'run-' || i, '', CASE WHEN i %% 100 = 0 THEN 'active' ELSE 'finished' END, at, at, at, 'worker-' || (i %% 100), 1,
		CASE WHEN i %% 100 <> 0 THEN 'complete' ELSE '' END, 0, CASE WHEN i %% 100 = 0 THEN 'lease-' || (i / 100 %% 10) END,
		CASE WHEN i %% 100 = 0 THEN 1 END, CASE WHEN i %% 100 = 0 THEN 1 END,
		CASE WHEN i %% 100 <> 0 THEN pg_current_xact_id() END, CASE WHEN i %% 100 = 0 THEN '{"phase":"compiling"}'::json END
	FROM (SELECT i, now() + (i - %[1]d) * interval '1 second' AS at FROM generate_series(1, %[1]d) AS i) AS made`
	postgresLeases = `
	INSERT INTO watchdog_leases (id, host, promise, beat, clock, vouched, renewed_at)
	SELECT 'lease-' || i, 'worker', 10000000000, 1, 5, 5, now() FROM generate_series(0, 9) AS i`
)

// BenchmarkSessions measures the program from its start to its end, when it has printed a page of 1,000,000 sessions.
func BenchmarkSessions(b *testing.B) {
	b.Run("store=sqlite", func(b *testing.B) {
		s := sqliteStore(b)
		s.exec(sqliteLeases)
		s.exec(fmt.Sprintf(sqliteSessions, benchSessions))
		benchSessionsOf(b, s)
	})
	b.Run("store=postgres", func(b *testing.B) {
		s := openStore(b, postgresServer.DSN(b))
		s.exec(postgresLeases)
		s.exec(fmt.Sprintf(postgresSessions, benchSessions))
		s.exec("VACUUM ANALYZE watchdog_sessions")
		benchSessionsOf(b, s)
	})
}

func benchSessionsOf(b *testing.B, s testStore) {
	b.Helper()
	for _, flags := range []string{"", "--ended", "--host worker-7"} {
		b.Run("page="+strings.ReplaceAll("first "+flags, " ", "_"), func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				args := append([]string{"sessions", "--store", s.url}, strings.Fields(flags)...)
				output, err := programCmd(b, nil, args...).Output()
				took = append(took, time.Since(began))
				require.NoError(b, err)
				require.Equal(b, 51, strings.Count(string(output), "\n"))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2])/1e6, "median-ms")
		})
	}
}
