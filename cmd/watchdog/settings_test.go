package main_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	main "github.com/seed62658d38/watchdog/cmd/watchdog"
	"github.com/seed62658d38/watchdog/config"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/taxonomy"
	"github.com/seed62658d38/watchdog/internal/verdict"
	"github.com/seed62658d38/watchdog/page"
	"github.com/seed62658d38/watchdog/session"
)

// TestCounts protects a count from being left out somewhere: for each of the table there is what ends a run, a key, a
// ladder, a bar on the page, and what the documents say. The columns of stores and metrics have tests of their
// own over the table.
func TestCounts(t *testing.T) {
	spend, codes := document(t, "spend"), document(t, "events-codes")
	all := watchdog.Spend{}
	for _, count := range taxonomy.Counts {
		*countIn(&all, count) = 1_000_000
		code := watchdog.StopReason(record.LimitCode(count.Limit))
		t.Run(count.Name, func(t *testing.T) {
			require.Equal(t, code, overspent(t, count))
			require.True(t, code.Own())
			require.False(t, code.Timeout())
			require.Regexp(t, "`"+count.Field+"`.*`"+string(code)+"`", spend)
			require.Contains(t, codes, "| `"+string(code)+"` | "+taxonomy.Find(count.Limit).Meaning+" |")
			require.EqualValues(t, 5, *countIn(&fromFile(t, "spend: {"+count.Name+": "+five(count)+"}").Spend, count))
			ladders := fromFile(t, "spend: {"+count.Name+": "+five(count)+"}\n  ladders: {"+count.Limit+": [wait]}").Ladders
			require.Equal(t, []watchdog.DirectiveKind{watchdog.DirectiveWait}, field(ladders, count.Limit))
		})
	}
	shown := shownOnPage(t, watchdog.Budget{Spend: all})
	for _, count := range taxonomy.Counts {
		require.Contains(t, shown, "<bdi>"+strings.ReplaceAll(count.Name, "_", " ")+"</bdi>")
	}
}

// TestTimeLimits protects a limit of time as TestCounts does a count.
func TestTimeLimits(t *testing.T) {
	codes, settings := document(t, "events-codes"), document(t, "configuration*")
	for _, limit := range taxonomy.Limits {
		if limit.Counts {
			continue
		}
		t.Run(limit.Name, func(t *testing.T) {
			code := watchdog.StopReason(record.LimitCode(limit.Name))
			require.True(t, code.Timeout())
			require.Contains(t, codes, "| `"+string(code)+"` | "+limit.Meaning+" |")
			require.Contains(t, document(t, "errors"), "`"+string(code)+"`")
			if limit.Name != "hold" { // which is a default of each hold
				require.Equal(t, 90*time.Second, field(limitsOf(t, limit.Name), limit.Name))
			}
			key := keyOf(t, settings, limit.Name)
			require.Equal(t, 90*time.Second, field(fromFile(t, key+": 90"), limit.Name))
		})
	}
}

// limitsOf are the limits of a run with the one of 90 seconds, which comes after a run without: both are kept.
func limitsOf(t *testing.T, limit string) (got verdict.Limits) {
	var budget watchdog.Budget
	for _, length := range []time.Duration{0, 90 * time.Second} {
		fieldOf(&budget, limit).Set(reflect.ValueOf(length))
		wd, err := watchdog.New(t.Context(), watchdog.Run{}, watchdog.Config{Budget: budget})
		require.NoError(t, err)
		got = *handle.Of(wd.Context()).Settings().Limits
		require.NoError(t, wd.Close())
	}
	return got
}

// keyOf is the setting of a limit of time.
func keyOf(t *testing.T, settings, limit string) string {
	for line := range strings.Lines(settings) {
		if key, found := strings.CutPrefix(line, "| `runtime_controls."); found {
			key, _, _ = strings.Cut(key, "`")
			plain := strings.ReplaceAll(key, "_", "")
			if strings.HasSuffix(key, "_seconds") && strings.Contains(plain, strings.ReplaceAll(limit, "_", "")) {
				return key
			}
		}
	}
	require.FailNow(t, "no setting of "+limit)
	return ""
}

// overspent is the code that a run ends with that used more than one of the count.
func overspent(t *testing.T, count taxonomy.Count) watchdog.StopReason {
	var limit watchdog.Spend
	*countIn(&limit, count) = 1
	wd, err := watchdog.New(t.Context(), watchdog.Run{}, watchdog.Config{
		Budget: watchdog.Budget{Spend: limit}, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	defer wd.Close()
	for range 2 { // errors and retries are exceeded by the second
		if charge, err := wd.Admit(t.Context(), "", watchdog.Amount{}); err == nil {
			_ = charge.Settle(two(count))
		}
	}
	if count.Name == "call_input" {
		_, _ = wd.Admit(t.Context(), "", two(count))
	}
	<-wd.Context().Done()
	require.Equal(t, count.Name, wd.Stop().Usage.Limit)
	return wd.Stop().Code
}

// two is a call that counts two, or one call in a row.
func two(c taxonomy.Count) (a watchdog.Amount) {
	switch c.Name {
	case "tokens", "call_input":
		a.InputTokens = 2
	case "errors":
		a.Result = watchdog.ResultError
	case "retries":
		a.Result = watchdog.ResultRetry
	default:
		*countIn(&a, c) = 2
	}
	return a
}

// countIn is the number that a *watchdog.Spend or *watchdog.Amount has for the count. Money is in euros.
func countIn(owner any, c taxonomy.Count) *int64 {
	field := reflect.ValueOf(owner).Elem().FieldByName(c.Field)
	if money, ok := reflect.TypeAssert[*watchdog.Money](field.Addr()); ok {
		money.Currency = "EUR"
		return &money.Micros
	}
	return field.Addr().Interface().(*int64)
}

// fromFile is the budget of a file of settings.
func fromFile(t *testing.T, controls string) *watchdog.Budget {
	got, err := config.Parse("limits.yaml", []byte("runtime_controls:\n  "+controls+"\n"), config.NoEnvironment)
	require.NoError(t, err)
	return &got.Budget
}

func five(count taxonomy.Count) string {
	if count.Name == "cost" {
		return "0.000005 EUR"
	}
	return "5"
}

// field is the value of the field that a struct has for a name in snake_case.
func field(of any, name string) any { return fieldOf(of, name).Interface() }

func fieldOf(of any, name string) reflect.Value {
	return reflect.Indirect(reflect.ValueOf(of)).FieldByNameFunc(func(field string) bool {
		return strings.EqualFold(field, strings.ReplaceAll(name, "_", ""))
	})
}

// shownOnPage is the page of a live run with the budget.
func shownOnPage(t *testing.T, budget watchdog.Budget) string {
	store := &session.Memory{}
	keeper, err := session.NewKeeper(session.KeeperConfig{Store: store})
	require.NoError(t, err)
	running, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- keeper.Run(running) }()
	defer func() { stop(); require.NoError(t, <-ended) }()
	wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "r-1", StartedAt: time.Now()}, watchdog.Config{
		Store: store, Keeper: keeper, Budget: budget,
	})
	require.NoError(t, err)
	defer wd.Close()
	served, err := page.New(page.Config{Sessions: store, Events: store})
	require.NoError(t, err)
	defer served.Close()
	w := httptest.NewRecorder()
	served.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?run=r-1", nil))
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	return w.Body.String()
}

// document is the text of all pages of that name.
func document(t *testing.T, name string) (text string) {
	pages, err := filepath.Glob("../../docs/" + name + ".md")
	require.NoError(t, err)
	for _, page := range pages {
		one, err := os.ReadFile(page)
		require.NoError(t, err)
		text += string(one)
	}
	return text
}

func TestRunFlags(t *testing.T) {
	t.Parallel()
	parallel(t, "a command line that is wrong is refused with a reason, and nothing is started", func(t *testing.T) {
		var said strings.Builder
		for _, line := range []string{
			"",
			"--no-output 5m",
			"--no-output 5m --",
			"--no-outputs 5m -- true",
			"--no-output soon -- true",
			"--no-output 5 -- true",
			"--no-output=-1s -- true",
			"--no-output -1s -- true",
			"--no-output 0 -- true",
			"--no-output -- true",
			"--no-output",
			"--activity stderr -- true",
			"--wall-clock=-1s -- true",
			"--grace-int=-1s -- true",
			"--signal NONE -- true",
			"--signal STOP -- true",
			"-s TERM --grace-int 1s -- true",
			"-s KILL --grace-term 1s -- true",
			"--on-stall explode -- true",
			"--activity nothing -- true",
			"--file-itself -- true",
			"--terminal ( -- true",
			"--probe-interval 1s -- true",
			"--stall-threshold 2 -- true",
			"--also-end-timeout 2s -- true",
			"--probe ./probe --stall-threshold 1 -- true",
			"--probe ./probe --probe-interval 0s -- true",
			"--probe ./probe --on-probe-error stall --probe-error-threshold 0 -- true",
			"--fingerprint-prefix /x -- true",
			"--step a/b -- true",
			"--id nightly-{date} -- true",
			"--config no-such-file -- true",
			"--store nosuch:x -- true",
		} {
			o := program(t, append([]string{"run"}, strings.Fields(line)...)...).must(t, 125)
			require.Empty(t, o.stdout, line)
			said.WriteString("watchdog run " + line + "\n\t" + strings.ReplaceAll(o.stderr, "\n", "\n\t") + "\n")
		}
		here, err := os.Getwd()
		require.NoError(t, err)
		compare(t, "run_refused", strings.NewReplacer("\t\n", "", here, "HERE").Replace(said.String()))
	})
	parallel(t, "a valid command line is accepted", func(t *testing.T) {
		for _, line := range []string{
			"true", "-- true --no-outputs", "true --no-outputs", "--wall-clock 0 true",
			"--grace-int 0s --grace-term 0s true", "--probe true --stall-threshold 2 true",
			"--on-stall ignore --on-terminal fail --terminal fatal,a --terminal b --wall-clock 1h --step build -- true",
			"--signal TERM --also-end true --also-end-timeout 1s --record-timeout 1s --keep-background true",
			"--probe true --probe-timeout 1s --probe-any-exit --on-probe-error stall --probe-error-threshold 9 true",
			"--check-id a --workflow b --iteration 3 --step-log d --fingerprint-prefix ci --id x true",
			"--no-output 1m --activity stdout --file-itself true", "--probe true --file-itself true",
		} {
			o := program(t, append([]string{"run"}, strings.Fields(line)...)...)
			require.Equal(t, outcome{}, o, line)
		}
	})
	parallel(t, "--help prints the help and succeeds", func(t *testing.T) {
		o := program(t, "run", "--help").must(t, 0)
		require.Empty(t, o.stderr)
		compare(t, "run_help", o.stdout)
		require.LessOrEqual(t, strings.Count(o.stdout, "\n"), 60)
		for line := range strings.Lines(programIn(t, []string{"COLUMNS=300"}, "run", "--help").stdout) {
			require.LessOrEqual(t, len(line), 101, line)
		}
		shown, all := flagsOf(o.stdout), flagsOf(program(t, "help", "run").stdout)
		require.LessOrEqual(t, len(shown), 24)
		require.Len(t, all, 35, "nothing is hidden from watchdog help")
		require.Subset(t, all, shown)
	})
}

func TestFilledID(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 23, 30, 5, 999, time.FixedZone("", -5*3600))
	for id, want := range map[string]string{
		"": "", "nightly": "nightly", "nightly-{time}": "nightly-20261128T043005Z", "{host}/{time}{host}": "h/20261128T043005Zh",
		"{time": "{time", "a}b{": "a}b{",
	} {
		got, err := main.FilledID(id, "h", now)
		require.NoError(t, err, id)
		require.Equal(t, want, got)
	}
	for _, id := range []string{"{}", "{date}", "{time}-{Host}", "{{time}}"} {
		_, err := main.FilledID(id, "h", now)
		require.ErrorContains(t, err, "; write {time} or {host}", id)
	}
	here, err := os.Hostname()
	require.NoError(t, err)
	got, err := main.FilledID("{host}", "", now)
	require.NoError(t, err)
	require.Equal(t, here, got)
}

// flagsOf are the flags that a help lists.
func flagsOf(help string) (flags []string) {
	for _, found := range regexp.MustCompile(`(?m)^ {2,6}(?:-\w, )?--(?:\[no-\])?([a-z-]+)`).FindAllStringSubmatch(help, -1) {
		flags = append(flags, "--"+found[1])
	}
	return flags
}

// file writes a file in a folder of the test and returns its path.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestCheck(t *testing.T) {
	t.Parallel()
	const text = "runtime_controls:\n  idle_timeout_seconds: 60\n  ladders:\n    idle: [retry, cancel]\n" +
		"sweep:\n  interval: 1m\n"
	path := file(t, "watchdog.yaml", text)
	in := func(o outcome) string { return strings.ReplaceAll(o.stdout, path, "watchdog.yaml") }
	t.Run("the schema for editors", func(t *testing.T) {
		require.Equal(t, outcome{stdout: string(config.Schema())}, program(t, "check", "--schema", "nothing.yaml"))
	})
	t.Run("what is in force, from where, and the worst time", func(t *testing.T) {
		o := program(t, "check", path).must(t, 0)
		compare(t, "check", regexp.MustCompile(`(?m)^.* default\n`).ReplaceAllString(in(o), ""))
		for _, s := range new(config.Config).Limits() {
			require.Contains(t, o.stdout, s.Key+" ")
		}
		require.Equal(t, in(o), in(program(t, "check", "--config", path)), "by the flag")
		require.Equal(t, in(o), in(programIn(t, []string{"WATCHDOG_CONFIG=" + path}, "check")), "by the variable")
	})
	t.Run("the flag, for a command that reads no limits", func(t *testing.T) {
		for _, args := range [][]string{
			{"sessions"}, {"why", "run"}, {"complete", "run"}, {"resume", "run"}, {"version"}, {"help", "run"},
		} {
			for _, given := range [][]string{append([]string{"--config", path}, args...), append(args, "--config="+path)} {
				program(t, given...).must(t, 125).says(t, args[0]+" reads no limits; leave out --config")
			}
		}
		programIn(t, []string{"WATCHDOG_CONFIG=" + path}, "version").must(t, 0)
		program(t, "--config", path, "check").must(t, 0)
	})
	t.Run("only what is set", func(t *testing.T) {
		compare(t, "check-set", in(program(t, "check", "--set", path)))
	})
	t.Run("a variable overrides the file", func(t *testing.T) {
		o := programIn(t, []string{"WATCHDOG_IDLE_TIMEOUT_SECONDS=90", "WATCHDOG_STORE=sqlite:none"}, "check", "--set", path)
		require.Contains(t, o.stdout, "1m30s")
		require.Contains(t, o.stdout, "environment WATCHDOG_IDLE_TIMEOUT_SECONDS")
		require.Empty(t, o.stderr, "the program's own variables are not taken for misspelt ones")
	})
	t.Run("as JSON", func(t *testing.T) {
		var got struct {
			File     string
			Settings []map[string]string
			Worst    string `json:"worst_time"`
		}
		o := program(t, "check", "--json", "--set", path)
		require.NoError(t, json.Unmarshal([]byte(o.stdout), &got))
		require.Equal(t, path, got.File)
		require.Len(t, got.Settings, 3)
		require.Equal(t, "runtime_controls.idle_timeout_seconds", got.Settings[0]["key"])
		require.Equal(t, "1m0s", got.Settings[0]["value"])
		require.Contains(t, got.Worst, "from the last sign of life to the cancel")
	})
	t.Run("each error is a line with its place", func(t *testing.T) {
		bad := file(t, "bad.yaml", "runtime_controls:\n  idle_timeout_secnds: 5\n  warn_at: [2]\n")
		o := program(t, "check", bad).must(t, 125)
		require.Empty(t, o.stdout)
		lines := strings.Split(strings.TrimSpace(o.stderr), "\n")
		require.Len(t, lines, 2)
		require.True(t, strings.HasPrefix(lines[0], "watchdog: "+bad+":2: "), lines[0])
		require.Contains(t, lines[0], "did you mean idle_timeout_seconds?")
		require.True(t, strings.HasPrefix(lines[1], "watchdog: "+bad+":3: "), lines[1])
	})
	t.Run("a file in which nothing is a setting", func(t *testing.T) {
		other := file(t, "other.yaml", "server:\n  port: 5\n")
		require.Contains(t, program(t, "check", other).stdout, "nothing in "+other+" is a setting")
		require.Contains(t, program(t, "check", "--json", other).stdout, `"nothing_in_file": true`)
		require.NotContains(t, program(t, "check", path).stdout, "nothing in")
		hidden := file(t, "hidden.yaml", "runtime_controls:\n  idle_timeout_seconds: 5\n")
		overridden := programIn(t, []string{"WATCHDOG_IDLE_TIMEOUT_SECONDS=90"}, "check", hidden)
		require.NotContains(t, overridden.stdout, "nothing in")
	})
	t.Run("a file that is not there, and two files", func(t *testing.T) {
		program(t, "check", "nosuch.yaml").must(t, 125).says(t, "nosuch.yaml")
		program(t, "check", "--config", path, "other.yaml").must(t, 125).says(t, "name one")
	})
}
