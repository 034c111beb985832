package main_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver of the statements of tests
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	main "github.com/seed62658d38/watchdog/cmd/watchdog"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/stores"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/sqlite"
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
			o := s.program(t, "sessions").must(t, 0)
			assert.Equal(t, newestFirst, runs(o))
			assert.Empty(t, o.stderr)
			seconds := regexp.MustCompile(`\b\d+s\b`) // a test can be slow
			text := seconds.ReplaceAllString(o.stdout, "10s")
			text = regexp.MustCompile(`10s +(complete|watchdog_)`).ReplaceAllString(text, "10s      $1")
			text = strings.ReplaceAll(text, "59m  ", "1h00m") // the end is of the database's clock, which has milliseconds
			compare(t, "sessions", text)
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
				o := s.program(t, append([]string{"sessions"}, strings.Fields(flags)...)...).must(t, 0)
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
					o := s.program(t, "sessions", "--limit", fmt.Sprint(limit), "--after", after).must(t, 0)
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
			o := s.program(t, "sessions", "--json", "--limit", "5").must(t, 0)
			numbers := regexp.MustCompile(`(_seconds": )[\d.]+`)
			times := regexp.MustCompile(`"20\d\d-[^"]*Z"`)
			marks := regexp.MustCompile(`("next": ").*"`)
			text := numbers.ReplaceAllString(o.stdout, "${1}10.5")
			text = marks.ReplaceAllString(times.ReplaceAllString(text, `"2026-03-04T12:00:00Z"`), `${1}eMARK"`)
			compare(t, "sessions.json", text)
		})
		t.Run("a row that cannot be read is said, and the others are listed", func(t *testing.T) {
			s.exec("UPDATE watchdog_sessions SET status = 'strange' WHERE run_id = 'complete'")
			o := s.program(t, "sessions").must(t, 0)
			assert.Len(t, runs(o), 5)
			o.says(t, "unreadable session", "run complete")
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
				s.program(t, append([]string{"sessions"}, strings.Fields(flags)...)...).must(t, 125).says(t, says)
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

// waitBound is how long a test waits for a real process on a busy machine.
const waitBound = time.Minute

// stalledStore makes a store with one session that was silent for an hour and one that is not, of another writer.
func stalledStore(t *testing.T) (flag, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "events.db")
	store, err := sqlite.Open(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, store.Close())
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	at := func(ago time.Duration) string { return time.Now().Add(-ago).UTC().Format("2006-01-02 15:04:05.000000") }
	_, err = db.ExecContext(t.Context(), `INSERT INTO watchdog_sessions
		(run_id, status, created_at, last_event_at, started_at, host, attempt)
		VALUES ('stalled', 'active', ?1, ?1, ?1, 'host-a', 1), ('busy', 'active', ?1, ?2, ?1, 'host-b', 1)`,
		at(time.Hour), at(0))
	require.NoError(t, err)
	require.NoError(t, db.Close())
	return "--store=sqlite:" + path, path
}

// statusOf reads the status of a session.
func statusOf(t *testing.T, path, run string) session.Status {
	t.Helper()
	store, err := sqlite.Open(t.Context(), path)
	require.NoError(t, err)
	defer store.Close()
	s, err := store.Session(t.Context(), run)
	require.NoError(t, err)
	return s.Status
}

func TestSweep(t *testing.T) {
	t.Parallel()
	t.Run("a dry run says what it would cancel, and writes nothing", func(t *testing.T) {
		store, path := stalledStore(t)
		before, err := os.ReadFile(path)
		require.NoError(t, err)
		o := program(t, "sweep", store, "--once", "--dry-run").must(t, 0)
		require.Contains(t, o.stdout, "1 stalled, 0 cancelled")
		require.Contains(t, o.stdout, "  would_cancel  stalled on host-a: silent for 1h0m")
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, before, after)
		require.Equal(t, session.Active, statusOf(t, path, "stalled"))
	})
	t.Run("one pass cancels what stalled and leaves the others", func(t *testing.T) {
		store, path := stalledStore(t)
		o := program(t, "sweep", store, "--once", "--json").must(t, 0)
		var pass struct {
			Cancelled int
			Sessions  []map[string]any
		}
		require.NoError(t, json.Unmarshal([]byte(o.stdout), &pass))
		require.Equal(t, 1, pass.Cancelled)
		require.Equal(t, "stalled", pass.Sessions[0]["run_id"])
		require.Equal(t, "cancelled", pass.Sessions[0]["handling"])
		require.Equal(t, "watchdog_idle_timeout", pass.Sessions[0]["reason"])
		require.Equal(t, session.Cancelled, statusOf(t, path, "stalled"))
		require.Equal(t, session.Active, statusOf(t, path, "busy"))
	})
	t.Run("what was seen of a process that died is said", func(t *testing.T) {
		store, path := stalledStore(t)
		db, err := sql.Open("sqlite", path)
		require.NoError(t, err)
		_, err = db.ExecContext(t.Context(), `UPDATE watchdog_sessions SET lost = TRUE,
			expired_lease = '4 1777636800000000 5f0a' WHERE run_id = 'stalled'`)
		require.NoError(t, err)
		o := program(t, "sweep", store, "--once", "--dry-run")
		require.Contains(t, o.stdout, `, its host was lost: lease "5f0a" not renewed since 2026-05-01T12:00:00Z in 4 looks`+"\n")
		require.Contains(t, program(t, "sweep", store, "--once", "--dry-run", "--json").stdout, `"reason":"watchdog_host_lost"`)
		_, err = db.ExecContext(t.Context(), `UPDATE watchdog_sessions SET expired_lease = NULL`)
		require.NoError(t, err)
		require.NoError(t, db.Close())
		o = program(t, "sweep", store, "--once")
		require.Contains(t, o.stdout, ", its host was lost\n", "the row says no more")
		require.Equal(t, session.Cancelled, statusOf(t, path, "stalled"))
	})
	t.Run("a signal ends it gracefully", func(t *testing.T) {
		store, path := stalledStore(t)
		settings := file(t, "watchdog.yaml", "sweep:\n  startup_delay: 1ms\n  interval: 1s\n")
		p := begin(t, programCmd(t, nil, "sweep", store, "--config", settings))
		require.Contains(t, p.until(""), "1 cancelled")
		p.signal(syscall.SIGTERM)
		require.Contains(t, p.end().must(t, 0).stderr, "worst time from the last sign of life to the cancel")
		require.Equal(t, session.Cancelled, statusOf(t, path, "stalled"))
	})
	t.Run("what is wrong is said, and nothing is swept", func(t *testing.T) {
		store, path := stalledStore(t)
		for settings, want := range map[string]string{
			"sweep:\n  enabled: false\n":   "the sweeper is switched off",
			"sweep:\n  max_resumes: 1\n":   "this program starts no sessions",
			"sweep:\n  intervall: 1m\n":    "did you mean interval?",
			"sweep:\n  interval: -1m\n":    "-1m",
			"sweep:\n  interval: later\n ": "later",
		} {
			o := program(t, "sweep", store, "--once", "--config", file(t, "watchdog.yaml", settings)).must(t, 125).says(t, want)
			require.Empty(t, o.stdout)
		}
		require.Equal(t, session.Active, statusOf(t, path, "stalled"))
		program(t, "sweep", "--once").must(t, 125).says(t, "no store is named")
		o := program(t, "sweep", "--store=mysql://user:canary@host/db", "--once").must(t, 125)
		require.NotContains(t, o.stderr, "canary")
	})
}

// A testStore is a store of which a program can be told.
type testStore struct {
	stores.Database
	url string // for --store
	// exec changes the tables.
	exec func(statement string)
	// close closes what the test has open.
	close func()
}

// eachStore runs a test with SQLite, and in a long run with PostgreSQL: what differs is tested with the stores, and
// that the program opens both with bothStores.
func eachStore(t *testing.T, test func(t *testing.T, s testStore)) {
	t.Helper()
	eachURL(t, racing.Long, func(t *testing.T, url string) { test(t, openStore(t, url)) })
}

func bothStores(t *testing.T, test func(t *testing.T, s testStore)) {
	t.Helper()
	eachURL(t, true, func(t *testing.T, url string) { test(t, openStore(t, url)) })
}

// eachURL runs a test with a store of each kind that is to be made, those of PostgreSQL included or not.
func eachURL(t *testing.T, postgres bool, test func(t *testing.T, url string)) {
	t.Helper()
	parallel(t, "in SQLite", func(t *testing.T) { test(t, "sqlite:"+filepath.Join(t.TempDir(), "watchdog.db")) })
	if postgres {
		parallel(t, "in PostgreSQL", func(t *testing.T) { test(t, postgresServer.DSN(t)) })
	}
}

func sqliteStore(tb testing.TB) testStore {
	tb.Helper()
	return openStore(tb, "sqlite:"+filepath.Join(tb.TempDir(), "watchdog.db"))
}

// openStore opens the store of a URL, and makes what is missing.
func openStore(tb testing.TB, url string) testStore {
	tb.Helper()
	driver, source := "pgx", url
	if path, is := strings.CutPrefix(url, "sqlite:"); is {
		driver, source = "sqlite", "file:"+path+"?_pragma=busy_timeout(10000)"
	}
	store, err := stores.Open(tb.Context(), url, stores.Writing, nil)
	require.NoError(tb, err)
	db, err := sql.Open(driver, source) // which connects when it is used
	require.NoError(tb, err)
	db.SetMaxOpenConns(1)
	s := testStore{Database: store, url: url, exec: func(statement string) {
		_, err := db.ExecContext(tb.Context(), statement)
		require.NoError(tb, err)
	}, close: func() { require.NoError(tb, store.Close()); require.NoError(tb, db.Close()) }}
	tb.Cleanup(s.close)
	return s
}

// program runs the program with the store.
func (s testStore) program(t *testing.T, args ...string) outcome {
	t.Helper()
	return program(t, append(args, "--store", s.url)...)
}

// attach makes a row of a run that began an hour ago.
func (s testStore) attach(t *testing.T, run session.Session) session.Session {
	t.Helper()
	run.StartedAt = time.Now().Add(-time.Hour).UTC().Truncate(time.Microsecond)
	_, after, err := s.Attach(t.Context(), run)
	require.NoError(t, err)
	return after
}

func TestStoreErrors(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	missing := filepath.Join(t.TempDir(), "nosuch.db")
	for name, test := range map[string]struct{ store, says string }{
		"no store":                       {"", "write --store sqlite:PATH"},
		"a path without sqlite:":         {"state/" + secret + ".db", "write sqlite:PATH for a file"},
		"a connection string of no kind": {"host=db password=" + secret, "write sqlite:PATH for a file"},
		"a URL of another database":      {"mysql://app:" + secret + "@db/agents", "there is no store mysql://"},
		"a database that is not there": {
			"postgres://app:" + secret + "@127.0.0.1:1/agents", "no server listens there: start it, or check host and port",
		},
		"a wrong connection string": {"postgres://app:" + secret + "@db:port/agents", "cannot be understood"},
		"a missing file":            {"sqlite:" + missing, "there is no file " + missing + ", and none is created"},
	} {
		t.Run(name+" is an error that says what to do", func(t *testing.T) {
			for _, command := range [][]string{{"sessions"}, {"complete", "run-1"}, {"resume", "run-1"}} {
				o := program(t, append(command, "--store", test.store)...).must(t, 125).says(t, test.says)
				require.Empty(t, o.stdout)
				require.NotContains(t, o.stderr, secret)
				require.Equal(t, 1, strings.Count(o.stderr, "\n"), o.stderr)
			}
		})
	}
	_, err := os.Stat(missing)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// cancelOf is the cancel of a run by another guard, in a window that began at a time.
func cancelOf(runID string, startedAt time.Time) watchdog.Event {
	return watchdog.Event{
		ID: "cancel of " + runID, AggregateType: event.AggregateType, AggregateID: runID, Type: event.Cancel,
		Payload: []byte(`{"reason":"wall_clock","session_started_at":"` + startedAt.Format("2006-01-02T15:04:05.000000Z") +
			`","fired_at":"` + startedAt.Add(time.Minute).Format("2006-01-02T15:04:05.000000Z") +
			`","elapsed_seconds":60,"configured_budget_seconds":59}`),
		Timestamp: startedAt.Add(time.Minute),
	}
}
