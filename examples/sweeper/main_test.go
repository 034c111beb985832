package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	main "github.com/seed62658d38/watchdog/examples/sweeper"
	"github.com/seed62658d38/watchdog/internal/golden"
	"github.com/seed62658d38/watchdog/internal/locked"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
)

// asProgram makes this test binary the program itself.
const asProgram = "SWEEPER_PROGRAM"

// postgresServer is the server of all tests. Each test has a database of its own.
var postgresServer pgtest.Shared

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main.Main()
	}
	code := m.Run()
	for _, failed := range []error{postgresServer.Close(), goleak.Find()} {
		if failed != nil && code == 0 {
			fmt.Fprintln(os.Stderr, failed)
			code = 1
		}
	}
	os.Exit(code)
}

// volatile matches what differs from run to run.
var volatile = []struct {
	pattern *regexp.Regexp
	to      string
}{
	{regexp.MustCompile(`seed-[0-9a-f]{11}-`), "seed-XXXXXXXXXXX-"},
	{regexp.MustCompile(`\([0-9.]+(µs|ms|s)\)|\(\d+m[0-9.]+s\)`), "(TIME)"},
	{regexp.MustCompile(`(\d+m)\d(s +10m0s)`), "${1}X$2"},
}

func normal(out string) string {
	for _, v := range volatile {
		out = v.pattern.ReplaceAllString(out, v.to)
	}
	return out
}

// sweep runs the program in this process.
func sweep(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = main.Run(t.Context(), args, &out, &errs)
	return status, out.String(), errs.String()
}

func TestOutput(t *testing.T) {
	for name, args := range map[string][]string{
		"once":        {"-seed", "50", "-stalled", "4", "-once"},
		"capped":      {"-seed", "50", "-stalled", "25", "-once"},
		"dry-run":     {"-seed", "50", "-stalled", "3", "-once", "-dry-run"},
		"nothing":     {"-seed", "50", "-stalled", "0", "-once"},
		"no sessions": {"-seed", "0", "-stalled", "0", "-once"},
		"help":        {"-h"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			t.Setenv("TMPDIR", folder)
			t.Setenv("TMP", folder) // the name on Windows
			status, out, errs := sweep(t, args...)
			require.Zero(t, status, errs)
			require.Empty(t, errs)
			golden.Compare(t, filepath.Join("testdata", strings.ReplaceAll(name, " ", "-")+".golden"), normal(out))
			left, err := os.ReadDir(folder)
			require.NoError(t, err)
			require.Empty(t, left, "the temporary folder is removed")
		})
	}
}

func TestUsageErrors(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"an unknown flag":                   {[]string{"-sed", "1"}, "-sed"},
		"an argument":                       {[]string{"postgres://u:geheim@h/db"}, "unexpected argument; use flags only"},
		"too few sessions":                  {[]string{"-seed", "-1"}, "-seed -1"},
		"more stalled than there are":       {[]string{"-seed", "3", "-stalled", "4"}, "-stalled at most -seed"},
		"a negative number of stalled ones": {[]string{"-stalled", "-1"}, "-stalled -1"},
		"stalled sessions of none":          {[]string{"-dsn", "sqlite:s.db", "-stalled", "4"}, "set -seed, too"},
		"a dry run that inserts":            {[]string{"-dsn", "sqlite:s.db", "-seed", "4", "-dry-run"}, "leave out -seed"},
		"a number in words":                 {[]string{"-seed", "many"}, "many"},
		"health of a single pass":           {[]string{"-once", "-http", "127.0.0.1:0"}, "leave out -once"},
		"another kind of database":          {[]string{"-dsn", "mysql://u:geheim@h/db"}, "use sqlite:PATH or postgres"},
		"a database without a path":         {[]string{"-dsn", "sqlite:"}, "use sqlite:PATH or postgres"},
		"a missing file":                    {[]string{"-config", "none.yaml"}, "none.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			status, out, errs := sweep(t, c.args...)
			require.Equal(t, 2, status)
			require.Contains(t, errs, c.says)
			require.Contains(t, errs, "sweeper -h lists the flags")
			require.Empty(t, out)
			require.NotContains(t, errs, "geheim")
		})
	}
}

func TestOpenErrors(t *testing.T) {
	for name, c := range map[string]struct{ dsn, says string }{
		"a missing folder": {
			"sqlite:" + filepath.Join(t.TempDir(), "none", "s.db"), "its folder does not exist",
		},
		"a server that does not listen": {
			"postgres://u:geheim@127.0.0.1:1/db?sslmode=disable", "no server listens there",
		},
		"an invalid parameter": {"postgres://u:geheim@h/db?pool_max_conns=geheim", "cannot be understood"},
	} {
		t.Run(name, func(t *testing.T) {
			status, out, errs := sweep(t, "-dsn", c.dsn, "-once")
			require.Equal(t, 1, status)
			require.Contains(t, errs, c.says)
			require.NotContains(t, out+errs, "geheim")
		})
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("WATCHDOG_MAX_CANCELLATIONS", "2")
	t.Setenv("WATCHDOG_ALERT_WITHIN_MS", "60000")
	t.Setenv("WATCHDOG_ALERT_COUNT", "1")
	_, out, _ := sweep(t, "-seed", "20", "-stalled", "5", "-once")
	require.Contains(t, out, " 2 cancelled")
	require.Contains(t, out, "\nalert: 2 cancels\n")
	t.Run("a dry run", func(t *testing.T) {
		t.Setenv("WATCHDOG_DRY_RUN", "true")
		_, out, _ := sweep(t, "-seed", "20", "-stalled", "5", "-once")
		require.Contains(t, out, "2 stalled, 0 cancelled")
		status, _, errs := sweep(t, "-dsn", "sqlite:s.db", "-seed", "20", "-once")
		require.Equal(t, 2, status)
		require.Contains(t, errs, "a dry run writes nothing")
	})
	t.Run("resumes, which it cannot make", func(t *testing.T) {
		t.Setenv("WATCHDOG_MAX_RESUMES", "1")
		status, _, errs := sweep(t, "-once")
		require.Equal(t, 2, status)
		require.Contains(t, errs, "this program resumes nothing")
	})
}

// interrupted is what the program says after Ctrl-C.
const interrupted = "sweeper: interrupted after the sessions in hand; what was cancelled stays so, and a sweeper of the " +
	"same -dsn goes on with the others\n"

func TestInterruptedAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var errs bytes.Buffer
	require.Zero(t, main.Run(ctx, []string{"-once"}, io.Discard, &errs), "before the sessions are inserted is no failure")
	require.Equal(t, interrupted, errs.String())
}

// TestServe expects the program to say how soon it cancels, to show what it does, and to end after the session in hand.
func TestServe(t *testing.T) {
	t.Setenv("WATCHDOG_INTERVAL_MS", "200")
	p := start(t, "-http", "127.0.0.1:0", "-seed", "20", "-stalled", "3")
	p.until("to the cancel: 10m")
	p.until("sweeping SQLite every 200ms; press Ctrl-C to end")
	p.until("3 cancelled")
	address := regexp.MustCompile(`health is at (\S+)`).FindStringSubmatch(p.out.String())
	require.NotNil(t, address)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		response, err := http.Get(address[1])
		require.NoError(c, err)
		defer response.Body.Close()
		require.Equal(c, "application/json", response.Header.Get("Content-Type"))
		var page struct {
			Status            string
			Running, Passing  bool
			Passes, Cancelled int
		}
		require.NoError(c, json.NewDecoder(response.Body).Decode(&page))
		// On a busy machine a pass can be an interval late, and the page says so for a moment.
		require.Equal(c, http.StatusOK, response.StatusCode)
		require.Equal(c, "ok", page.Status)
		require.Equal(c, 3, page.Cancelled)
		require.Greater(c, page.Passes, 2)
		require.True(c, page.Running)
		require.False(c, page.Passing)
	}, time.Minute, 10*time.Millisecond)
	url := strings.TrimSuffix(address[1], "healthz")
	require.Contains(t, p.out.String(), "the page is at "+url+"\n")
	require.Contains(t, shown(t, url), "seed-", "the sessions")
	require.Regexp(t, `<td>cancelled</td><td><bdi>host-`, shown(t, url+"?view=sweeper"), "the passes")
	updates, err := http.Get(url + "?live")
	require.NoError(t, err)
	defer updates.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, p.cmd.Wait(), p.stderr.String())
	require.Equal(t, interrupted, p.stderr.String())
	require.Contains(t, p.out.String(), "host-1 1 host-2 1", "the history")
	require.LessOrEqual(t, strings.Count(p.out.String(), "pass "), 3, "only the first pass that finds nothing is printed:\n%s",
		p.out.String())
	left, err := os.ReadDir(p.folder)
	require.NoError(t, err)
	require.Empty(t, left, "the temporary folder is removed")
}

// shown is the text of a page.
func shown(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, http.StatusOK, response.StatusCode)
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(text)
}

func TestAddressInUse(t *testing.T) {
	status, _, errs := sweep(t, "-http", "127.0.0.1:-1")
	require.Equal(t, 1, status)
	require.Contains(t, errs, "sweeper: -http: ")
	require.Contains(t, errs, "use a free address")
}

// A program is this program in a process of its own.
type program struct {
	t      *testing.T
	cmd    *exec.Cmd
	folder string
	stderr bytes.Buffer
	out    locked.Buffer
}

// until waits for a text in the output.
func (p *program) until(text string) {
	p.t.Helper()
	printed := func() bool { return strings.Contains(p.out.String(), text) }
	require.Eventually(p.t, printed, time.Minute, 5*time.Millisecond, "waiting for %q", text)
}

// start starts the program. It ends by a signal, which Windows does not have.
func start(t *testing.T, args ...string) *program {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("there is no SIGTERM")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	p := &program{t: t, cmd: exec.Command(self, args...), folder: t.TempDir()}
	p.cmd.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+p.folder, "GORACE=atexit_sleep_ms=0")
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.stderr
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() {
		if err := p.cmd.Process.Kill(); !errors.Is(err, os.ErrProcessDone) {
			_ = p.cmd.Wait()
		}
	})
	return p
}

// TestWritesNothing expects that nothing is written into a database that was not asked for, and that a second run goes
// on with the sessions that the first one left.
func TestWritesNothing(t *testing.T) {
	t.Run("into an SQLite file with special characters in its name", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "a file? with #marks%20.db")
		writesNothing(t, "sqlite:"+path, func() any {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			return text
		})
	})
	t.Run("into PostgreSQL", func(t *testing.T) {
		dsn := postgresServer.DSN(t)
		writesNothing(t, dsn, func() any {
			return rowsOf(t, dsn, "SELECT s::text FROM watchdog_sessions s UNION ALL SELECT e::text FROM events e ORDER BY 1")
		})
	})
}

// writesNothing runs the program on a database with sessions, whose content read returns, in each way that is to leave
// it unchanged.
func writesNothing(t *testing.T, dsn string, read func() any) {
	t.Helper()
	status, out, errs := sweep(t, "-dsn", dsn, "-seed", "20", "-stalled", "12", "-once")
	require.Zero(t, status, errs)
	require.Contains(t, out, " 10 cancelled, 0 spared, 0 failed")
	before := read()
	for _, seed := range []string{"1", "1000"} {
		status, out, errs := sweep(t, "-dsn", dsn, "-seed", seed, "-stalled", "1", "-once")
		require.Equal(t, 1, status)
		require.Contains(t, errs, "-seed "+seed)
		require.Contains(t, errs, "has sessions, and nothing in it was changed: leave out -seed")
		require.Empty(t, out)
		require.Equal(t, before, read(), "-seed into a database with sessions")
	}
	status, out, errs = sweep(t, "-dsn", dsn, "-dry-run", "-once")
	require.Zero(t, status, errs)
	require.Contains(t, out, "2 checked, 2 stalled, 0 cancelled")
	require.Equal(t, before, read(), "-dry-run")

	t.Setenv("WATCHDOG_DISABLED", "true")
	_, _, errs = sweep(t, "-dsn", dsn, "-once")
	require.Contains(t, errs, "the sweeper is disabled: see sweep.enabled and runtime_controls.disabled")
	require.Equal(t, before, read(), "disabled")

	t.Setenv("WATCHDOG_DISABLED", "false")
	status, out, errs = sweep(t, "-dsn", dsn, "-once")
	require.Zero(t, status, errs)
	require.Contains(t, out, "2 checked, 2 stalled, 2 cancelled, 0 spared, 0 failed")
	require.Regexp(t, `by reason: idle_timeout 12\n`, out)
}

func TestSeedOnlyIfSet(t *testing.T) {
	for name, dsn := range map[string]string{
		"SQLite": "sqlite:" + filepath.Join(t.TempDir(), "new.db"), "PostgreSQL": postgresServer.DSN(t),
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				status, out, errs := sweep(t, "-dsn", dsn, "-once")
				require.Zero(t, status, errs)
				require.NotContains(t, out, "active sessions")
				require.Contains(t, out, "pass 1: 0 checked")
			}
			status, out, errs := sweep(t, "-dsn", dsn, "-seed", "3", "-once")
			require.Zero(t, status, errs)
			require.Contains(t, out, "3 active sessions in", "an empty database takes them")
			require.Contains(t, out, "3 of them stalled", "as many as there are, at most")
		})
	}
}

// TestDryRunMakesNoTables runs it where there are none.
func TestDryRunMakesNoTables(t *testing.T) {
	t.Run("an SQLite file that does not exist", func(t *testing.T) {
		folder := t.TempDir()
		status, out, errs := sweep(t, "-dsn", "sqlite:"+filepath.Join(folder, "new.db"), "-dry-run", "-once")
		require.Equal(t, 1, status, out)
		require.Contains(t, errs, "there is no file")
		left, err := os.ReadDir(folder)
		require.NoError(t, err)
		require.Empty(t, left)
	})
	t.Run("an empty PostgreSQL database", func(t *testing.T) {
		dsn := postgresServer.DSN(t)
		status, out, errs := sweep(t, "-dsn", dsn, "-dry-run", "-once")
		require.Equal(t, 1, status, out)
		require.Contains(t, errs, "it has no table of events, and none is created")
		require.Empty(t, rowsOf(t, dsn, "SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace"))
	})
}

// TestSeedTwiceAtOnce starts several programs at once, of which one may insert.
func TestSeedTwiceAtOnce(t *testing.T) {
	for name, dsn := range map[string]string{
		"SQLite": "sqlite:" + filepath.Join(t.TempDir(), "new.db"), "PostgreSQL": postgresServer.DSN(t),
	} {
		t.Run(name, func(t *testing.T) {
			const programs = 4
			statuses := make(chan int, programs)
			for i := range programs {
				go func() {
					status, _, _ := sweep(t, "-dsn", dsn, "-seed", strconv.Itoa(10+i), "-stalled", "0", "-once")
					statuses <- status
				}()
			}
			sum := 0
			for range programs {
				sum += <-statuses
			}
			require.Equal(t, programs-1, sum, "all but one fail with status 1")
		})
	}
}

// rowsOf returns the rows of a query for one text each.
func rowsOf(t *testing.T, dsn, query string) []string {
	t.Helper()
	connection, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	rows, err := connection.Query(t.Context(), query)
	require.NoError(t, err)
	texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.NoError(t, connection.Close(t.Context()))
	return texts
}
