package main_test

import (
	"database/sql"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	main "github.com/seed62658d38/watchdog/cmd/watchdog"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/stores"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/term"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/why"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/story"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// stopped has a run with a layer, whose host stopped it, in the store.
func stopped(tb testing.TB, store testStore, runID string) {
	tb.Helper()
	_, _, err := store.Attach(tb.Context(), session.Session{
		RunID: runID, StartedAt: time.Now().Add(-time.Hour), Host: "host-a",
	})
	require.NoError(tb, err)
	row, err := store.Session(tb.Context(), runID)
	require.NoError(tb, err)
	run, err := watchdog.New(tb.Context(), watchdog.Run{ID: runID, StartedAt: row.StartedAt}, watchdog.Config{
		Store: store, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(tb, err)
	layer, err := run.Layer("build", watchdog.Budget{})
	require.NoError(tb, err)
	_, err = layer.Cancel(watchdog.Cancellation{Reason: watchdog.CommandNoOutput, Elapsed: time.Minute, Budget: time.Minute})
	require.NoError(tb, err)
	require.NoError(tb, layer.Close())
	run.Note("tool: grep \x1b[31m")
	_, err = run.Cancel(watchdog.Cancellation{Reason: "grade_regressing"})
	require.NoError(tb, err)
	require.NoError(tb, run.Close())
	_, err = store.End(tb.Context(), []session.Ending{{
		RunID: runID, Attempt: 1, Status: session.Cancelled, Reason: "grade_regressing",
	}})
	require.NoError(tb, err)
}

func TestWhy(t *testing.T) {
	t.Parallel()
	eachURL(t, racing.Long, func(t *testing.T, url string) {
		store := openStore(t, url)
		stopped(t, store, "s-1")
		_, _, err := store.Attach(t.Context(), session.Session{RunID: "live", StartedAt: time.Now(), Host: "host-b"})
		require.NoError(t, err)
		require.NoError(t, store.Close())
		t.Run("a run", func(t *testing.T) {
			o := program(t, "why", "--store", url, "s-1").must(t, 0)
			checkText(t, o.stdout)
			assert.Regexp(t, `^run      s-1 on host-a
state    stopped \S+ \S+ UTC, \S+ ago
why      its host or another guard stopped it
         grade_regressing, by its host
doing    last noted "tool: grep \[31m"
started  \S+ \S+ UTC
used     1h\S*
layers   s-1/build stopped \(watchdog_no_output\) after \S+
next     remove the cause or raise the limit, then resume it
         watchdog resume --store \S+ s-1
$`, o.stdout)
			assert.Empty(t, o.stderr)
		})
		t.Run("as JSON", func(t *testing.T) {
			o := program(t, "why", "--store", url, "--json", "s-1").must(t, 0)
			var s story.Story
			require.NoError(t, json.Unmarshal([]byte(o.stdout), &s))
			assert.Equal(t, watchdog.StopReason("grade_regressing"), s.End.Code)
			assert.Equal(t, 1, strings.Count(o.stdout, "\n"))
		})
		t.Run("one that lives", func(t *testing.T) {
			o := program(t, "why", "--store", url, "live").must(t, 0)
			checkText(t, o.stdout)
			assert.Contains(t, o.stdout, "state    running\n")
			assert.Contains(t, o.stdout, "\n         watchdog why --store "+story.ShellQuote(url)+" live\n")
		})
		t.Run("one that never was", func(t *testing.T) {
			o := program(t, "why", "--store", url, "live-1").must(t, 125)
			assert.Equal(t, "watchdog: the store has no run live-1, and no event of one; did you mean live? "+
				"watchdog sessions lists all\n", o.stderr)
			o = program(t, "why", "--store", url, "\x1b[31mnobody").must(t, 125)
			assert.Equal(t, `watchdog: the store has no run \x1b[31mnobody, and no event of one; `+
				"watchdog sessions lists those that there are\n", o.stderr)
		})
	})
}

// TestWhyFolder reads what package stall writes.
func TestWhyFolder(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../stall/testdata/event.json")
	require.NoError(t, err)
	root := t.TempDir()
	for _, step := range []string{"build", "test"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, step, "_stall"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, step, "_stall", "event.json"), text, 0o644))
	}
	for _, dir := range []string{"build", "build/_stall", "build/_stall/event.json"} {
		o := program(t, "why", filepath.Join(root, dir)).must(t, 0)
		checkText(t, o.stdout)
		assert.Contains(t, o.stdout, "why      the probe says that the state is terminal\n")
		assert.Contains(t, o.stdout, "command  SIGINT to 1; nothing is alive\n")
		assert.Empty(t, o.stderr)
	}
	t.Run("the root has a line for each step", func(t *testing.T) {
		o := program(t, "why", root).must(t, 0)
		const line = "1970-01-01 00:00:00 UTC step stopped: the probe says that the state is terminal\n"
		assert.Equal(t, line+line+
			"watchdog why DIR/STEP tells more of one\n", o.stdout)
		o = program(t, "why", "--json", root).must(t, 0)
		assert.Equal(t, 2, strings.Count(o.stdout, "\n"))
	})
	t.Run("a folder without such a file is a run", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "watchdog.db")
		store, err := sqlite.Open(t.Context(), path)
		require.NoError(t, err)
		require.NoError(t, store.Close())
		url := "sqlite:" + path
		empty := t.TempDir()
		program(t, "why", "--store", url, empty).must(t, 125).says(t, "the store has no run")
		o := program(t, "why", empty).must(t, 125)
		assert.Contains(t, o.stderr, "no command stalled there; for a run in a database, no store is named; write --store")
		o = program(t, "why", "--store", url, filepath.Join(root, "build")).must(t, 0)
		assert.Contains(t, o.stderr, "is a folder with artifacts, and this is what they say")
	})
	t.Run("a file that cannot be read", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "event.json")
		require.NoError(t, os.WriteFile(file, []byte("{}"), 0o644))
		program(t, "why", file).must(t, 125).says(t, `its schema is ""`)
	})
}

// TestStoryText tells the stories of package story for people.
func TestStoryText(t *testing.T) {
	files, err := filepath.Glob("../../internal/story/testdata/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			var got strings.Builder
			for _, s := range readStories(t, file) {
				text := why.Text(s)
				checkText(t, text)
				got.WriteString(text + "\n")
			}
			compare(t, "why/"+name, got.String())
		})
	}
}

func readStories(t *testing.T, file string) (all []story.Story) {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	for d := json.NewDecoder(f); ; {
		var s story.Story
		err := d.Decode(&s)
		if err == io.EOF {
			return all
		}
		require.NoError(t, err)
		all = append(all, s)
	}
}

// checkText expects a text that any terminal shows as it is: few aligned lines, nothing that cannot be seen.
func checkText(t *testing.T, text string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	assert.LessOrEqual(t, len(lines), 24)
	for _, line := range lines {
		if !strings.HasPrefix(line, "         watchdog ") { // that is to be pasted, whole
			assert.LessOrEqual(t, term.Columns(line), 80, line)
		}
		require.Greater(t, len(line), 9, "%q is aligned", line)
		assert.Equal(t, " ", line[8:9], "%q is aligned", line)
		assert.NotEqual(t, " ", line[9:10], "%q is aligned", line)
		for _, r := range line {
			assert.True(t, unicode.IsPrint(r), "%q shows %q", line, r)
		}
	}
}

// TestLongStory protects a terminal's first screen: what is too much is left out, with how much that is.
func TestLongStory(t *testing.T) {
	began := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	s := story.Story{RunID: "s-1", State: story.Running, StartedAt: began, ToldAt: began.Add(time.Hour)}
	for i := range 3000 {
		at := began.Add(time.Duration(i) * time.Second)
		s.Asked = append(s.Asked, story.Request{At: at, Kind: "retry", Limit: "idle", Attempt: i})
		s.Others = append(s.Others, story.Other{At: at, Type: strings.Repeat("宽", 500), Problem: "of another writer"})
		s.Layers = append(s.Layers, story.Layer{RunID: "s-1/" + strings.Repeat("x", 250), State: story.Stopped})
		s.Allowed = append(s.Allowed, story.Limit{Limit: "tool_calls", Tool: strings.Repeat("rm ", i%7), Count: 3})
	}
	s.Next = story.Next{Advice: "watch it", Command: []string{"watchdog", "why", "s-1"}}
	text := why.Text(s)
	checkText(t, text)
	assert.Contains(t, text, "attempt 2999", "the latest is told")
	assert.Regexp(t, `(?m)^left out \d+ lines; --json has all`, text)
	assert.Contains(t, text, "\n         watchdog why s-1\n")
}

func TestWithoutPassword(t *testing.T) {
	t.Parallel()
	for store, want := range map[string]string{
		"sqlite:runs.db":                                  "sqlite:runs.db",
		"postgres://host/db":                              "postgres://host/db",
		"postgres://me@host:5432/db?sslmode=require":      "postgres://me@host:5432/db?sslmode=require",
		"postgres://me:canary@host/db":                    "postgres://me@host/db",
		"postgresql:///db?user=me&password=canary&host=a": "postgresql:///db?host=a&user=me",
		"postgres://host/db?sslPassword=canary":           "postgres://host/db",
		"postgres://me:can ary%@host/db":                  "...",
		"postgres:host=a password=canary":                 "...",
	} {
		assert.Equal(t, want, stores.WithoutPassword(store), store)
	}
}

// TestPaste has a shell run what is said to be run next, about a run whose name a shell would take for more.
func TestPaste(t *testing.T) {
	t.Parallel()
	url := "sqlite:" + filepath.Join(t.TempDir(), "it's $(not) run.db")
	const id = "-it's $HOME; é bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	store := openStore(t, url)
	stopped(t, store, id)
	_, _, err := store.Attach(t.Context(), session.Session{RunID: id + " live", StartedAt: time.Now(), Host: "b"})
	require.NoError(t, err)
	require.NoError(t, store.Append(t.Context(), interrupted(id+" live", "SIGHUP", 0)))
	require.NoError(t, store.Close())
	resume := nextLine(t, program(t, "why", "--store", url, "--", id))
	assert.Contains(t, firstLine(t, resume), "has a fresh window since")
	again := nextLine(t, program(t, "why", "--store", url, "--", id+" live"))
	assert.Contains(t, firstLine(t, again), "run      -it's $HOME; é")
	shorter := nextLine(t, programIn(t, []string{"WATCHDOG_STORE=" + url}, "why", "--", id+" live"))
	assert.Equal(t, strings.Replace(again, " --store "+story.ShellQuote(url), "", 1), shorter, "it has the variable, too")
}

// nextLine is the line of a story that is to be run next.
func nextLine(t *testing.T, told outcome) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^ {9}(watchdog .*)$`).FindStringSubmatch(told.stdout)
	require.Len(t, found, 2, told)
	return found[1]
}

// firstLine has a shell, to which watchdog is the program, run a line, and returns the first line that it prints.
func firstLine(t *testing.T, line string) string {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.Symlink(self, filepath.Join(dir, "watchdog")))
	cmd := exec.CommandContext(t.Context(), bash, "-c", "exec "+line)
	cmd.Env = append(programCmd(t, nil).Env, "PATH="+dir+":"+os.Getenv("PATH"), "LC_ALL=C.UTF-8")
	p := begin(t, cmd)
	first := p.until("")
	p.end()
	return first
}

// A million events of a hundred thousand runs, every tenth of which is a layer of the one before.
const (
	millionSQLite = `WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999999)
		INSERT INTO events (id, aggregate_type, aggregate_id, event_type, payload, timestamp)
		SELECT printf('%036d', i), 'runtime_control', printf('r-%d', i / 10), 'runtime.watchdog.retry',
			CASE WHEN i / 10 % 10 = 9
				THEN json_object('parent', printf('r-%d', i / 10 - 1), 'session_started_at', '2026-05-01T12:00:00.000000Z',
					'reason', 'idle_exceeded', 'directive', 'retry', 'attempt', 1, 'event_version', 1)
				ELSE json_object('session_started_at', '2026-05-01T12:00:00.000000Z', 'reason', 'idle_exceeded',
					'directive', 'retry', 'attempt', 1, 'event_version', 1) END,
			strftime('%Y-%m-%d %H:%M:%S.000000', '2026-05-01', printf('+%d seconds', i))
		FROM n`
	millionPostgres = `INSERT INTO events (id, aggregate_type, aggregate_id, event_type, payload, "timestamp")
		SELECT lpad(i::text, 36, '0'), 'runtime_control', 'r-' || i / 10, 'runtime.watchdog.retry',
			CASE WHEN i / 10 % 10 = 9
				THEN json_build_object('parent', 'r-' || i / 10 - 1, 'session_started_at', '2026-05-01T12:00:00.000000Z',
					'reason', 'idle_exceeded', 'directive', 'retry', 'attempt', 1)
				ELSE json_build_object('session_started_at', '2026-05-01T12:00:00.000000Z', 'reason', 'idle_exceeded',
					'directive', 'retry', 'attempt', 1) END,
			timestamptz '2026-05-01' + i * interval '1 second'
		FROM generate_series(0, 999999) AS n (i)`
)

// BenchmarkWhy tells the story of one run, which has a layer, among 1,000,000 events: with a store that is
// open, with one that is opened each time, as by a command, and as a whole command with its process.
func BenchmarkWhy(b *testing.B) {
	b.Run("SQLite", func(b *testing.B) {
		path := filepath.Join(b.TempDir(), "watchdog.db")
		benchWhy(b, "sqlite:"+path, "sqlite", path, millionSQLite)
	})
	b.Run("PostgreSQL", func(b *testing.B) {
		server := pgtest.Start(b, pgtest.Options{})
		dsn := server.DSN(server.Database(b))
		benchWhy(b, dsn, "pgx", dsn, millionPostgres)
	})
}

func benchWhy(b *testing.B, url, driver, source, million string) {
	b.Helper()
	store := openStore(b, url)
	stopped(b, store, "s-1")
	require.NoError(b, store.Close())
	db, err := sql.Open(driver, source)
	require.NoError(b, err)
	began := time.Now()
	_, err = db.ExecContext(b.Context(), million)
	require.NoError(b, err)
	_, err = db.ExecContext(b.Context(), "ANALYZE")
	require.NoError(b, err)
	require.NoError(b, db.Close())
	b.Logf("a million events took %v", time.Since(began))
	devNull, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	require.NoError(b, err)
	defer devNull.Close()
	b.Run("reading", func(b *testing.B) {
		opened := openStore(b, url)
		defer func() { require.NoError(b, opened.Close()) }()
		for b.Loop() {
			_, err := why.Read(b.Context(), opened, "r-55558")
			require.NoError(b, err)
		}
	})
	b.Run("in process", func(b *testing.B) {
		p := main.Program{Stdin: devNull, Stdout: devNull, Stderr: os.Stderr}
		for b.Loop() {
			require.Zero(b, p.Run(b.Context(), []string{"why", "--store", url, "r-55558"}))
		}
	})
	b.Run("as a command", func(b *testing.B) {
		for b.Loop() {
			text, err := programCmd(b, nil, "why", "--store", url, "r-55558").CombinedOutput()
			require.NoError(b, err, string(text))
			require.Contains(b, string(text), "r-55559")
		}
	})
}

// interrupted is an event of a run that was so long ago.
func interrupted(run, signal string, ago time.Duration) watchdog.Event {
	at := time.Now().Add(-ago).UTC().Truncate(time.Microsecond)
	return watchdog.Event{
		ID: record.NewRunID(), AggregateType: event.AggregateType, AggregateID: run, Type: event.Interrupt,
		Payload:   record.JSON(record.Interrupt{Signal: signal, SessionStartedAt: event.Stamp(at), InterruptedAt: event.Stamp(at)}),
		Timestamp: at,
	}
}
