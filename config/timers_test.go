package config_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/bound"
	"github.com/seed62658d38/watchdog/config"
	"github.com/seed62658d38/watchdog/internal/taxonomy"
	"github.com/seed62658d38/watchdog/loop"
	"github.com/seed62658d38/watchdog/stall"
)

// everySetting is a file in which no setting of runtime_controls has its default, but those of counts: see TestCounts.
const everySetting = `runtime_controls:
  disabled: true
  session_wall_clock_seconds: 3600
  warn_at: [0.5, 0.75]
  reserve_seconds: 60
  safety_timeout_seconds: 7200
  no_progress_timeout_seconds: 900
  idle_timeout_seconds: 90.5
  hold_timeout_seconds: 300
  from_first_sign: true
  first_sign_timeout_seconds: 120
  ladders:
    idle: [retry, "retry", cancel]
    no_progress: [unstuck]
    hold:
    - wait
    - cancel
    loop: [wait, cancel]
  spend:
    tokens: 1100000
    cost: 5.00 EUR
    tools: {bash: 100, "404": 20}
    reserve: {tokens: 3000, cost: 0.25 EUR}
    warn_at: [0.5, 0.9]
  scopes:
  - scope: tenant-7
    spend: {cost: 100 EUR}
    period: day
    zone: Europe/Berlin
  - {scope: fleet, spend: {tools: {bash: 9000}, reserve: {tokens: 1}, tokens: 5000000, warn_at: 0}}
  loop:
    mode: strict
    classes: {deploy: change, poll_job: wait, "404": look}
    waits: ask
    volatile: [elapsed, "404"]
  events:
    material: [tool.result, commit, "404"]
    activity: [token]
    ignored: ["on"]
    unknown: activity
  max_tick_duration_minutes: 7.5
  tick_grace_seconds: 10
`

var everyBudget = watchdog.Budget{
	WallClock: time.Hour, WarnAt: []float64{0.5, 0.75}, Reserve: time.Minute, Safety: 2 * time.Hour,
	NoProgress: 15 * time.Minute, Idle: 90*time.Second + time.Second/2, Hold: 5 * time.Minute,
	FromFirstSign: true, FirstSign: 2 * time.Minute,
	Ladders: watchdog.Ladders{
		Idle:       []watchdog.DirectiveKind{watchdog.DirectiveRetry, watchdog.DirectiveRetry, watchdog.DirectiveCancel},
		NoProgress: []watchdog.DirectiveKind{watchdog.DirectiveUnstuck},
		Hold:       []watchdog.DirectiveKind{watchdog.DirectiveWait, watchdog.DirectiveCancel},
		Loop:       []watchdog.DirectiveKind{watchdog.DirectiveWait, watchdog.DirectiveCancel},
	},
	Spend: watchdog.Spend{
		Tokens: 1_100_000, Cost: euros(5_000_000), Tools: map[string]int64{"bash": 100, "404": 20},
		Reserve: watchdog.Totals{Tokens: 3000, Cost: 250_000},
		WarnAt:  []float64{0.5, 0.9},
	},
}

func euros(micros int64) watchdog.Money { return watchdog.Money{Micros: micros, Currency: "EUR"} }

var everyLoop = loop.Config{
	Mode: loop.Strict, Waits: loop.Ask, Volatile: []string{"elapsed", "404"},
	Classes: map[string]loop.Class{"deploy": loop.Change, "poll_job": loop.Wait, "404": loop.Look},
}

var everyScope = []watchdog.SharedSpend{
	{Scope: "tenant-7", Spend: watchdog.Spend{Cost: euros(100_000_000)}, Period: watchdog.PeriodDay, Zone: "Europe/Berlin"},
	{Scope: "fleet", Spend: watchdog.Spend{
		Tokens: 5_000_000, Tools: map[string]int64{"bash": 9000}, Reserve: watchdog.Totals{Tokens: 1}, WarnAt: []float64{},
	}},
}

// TestControlsFile reads everySetting.
func TestControlsFile(t *testing.T) {
	c := parse(t, everySetting, nil)
	require.True(t, c.Disabled)
	require.Equal(t, everyBudget, c.Budget)
	require.Equal(t, everyScope, c.Scopes)
	require.Equal(t, everyLoop, c.Loop)
	require.Equal(t, watchdog.Kinds{
		Material: []string{"tool.result", "commit", "404"}, Activity: []string{"token"}, Ignored: []string{"on"},
		Unknown: watchdog.ClassActivity,
	}, c.Kinds)
	require.Equal(t, config.Tick{Limit: 7*time.Minute + 30*time.Second, Grace: 10 * time.Second}, c.Tick)
	golden(t, "limits_every.golden", set(c))
	requireUsable(t, c)
}

// TestCounts sets the limit of each count, its reserve if it adds up, and its ladder, in a file and by variables.
func TestCounts(t *testing.T) {
	var limits, kept, ladders []string
	inEnvironment := variables{}
	write := func(list *[]string, block, name, value string) {
		*list = append(*list, name+": "+value)
		inEnvironment["WATCHDOG_"+strings.ToUpper(block+name)] = value
	}
	var want watchdog.Budget
	set := func(part any, field string, n int64) bool {
		f := reflect.ValueOf(part).Elem().FieldByName(field)
		if f.IsValid() {
			f.SetInt(n)
		}
		return f.IsValid()
	}
	for i, count := range taxonomy.Counts[:len(taxonomy.Counts)-1] { // a budget has no limit of loops, the last
		n, reserve, unit := int64(10+i), int64(1+i), ""
		if count.Name == "cost" {
			unit, want.Spend.Cost = " EUR", euros(1e6*n)
			set(&want.Spend.Reserve, count.Field, 1e6*reserve)
			write(&kept, "spend_reserve_", count.Name, fmt.Sprint(reserve, unit))
		} else if require.True(t, set(&want.Spend, count.Field, n), count.Name); set(&want.Spend.Reserve, count.Field, reserve) {
			write(&kept, "spend_reserve_", count.Name, fmt.Sprint(reserve))
		}
		write(&limits, "spend_", count.Name, fmt.Sprint(n, unit))
		if count.Name == count.Limit {
			ladder := reflect.ValueOf(&want.Ladders).Elem().FieldByName(count.Field)
			ladder.Set(reflect.ValueOf([]watchdog.DirectiveKind{watchdog.DirectiveWait}))
			write(&ladders, "ladders_", count.Name, "wait")
		}
	}
	all := func(lines []string) string { return strings.Join(lines, ", ") }
	text := fmt.Sprintf("runtime_controls:\n  spend: {%s, reserve: {%s}}\n  ladders: {%s}\n", all(limits), all(kept),
		strings.ReplaceAll(all(ladders), "wait", "[wait]"))
	c := parse(t, text, nil)
	require.Equal(t, want, c.Budget)
	c = parse(t, "", inEnvironment)
	require.Equal(t, want, c.Budget)
	_, err := config.Parse(file, []byte("runtime_controls: {spend: {loop: 5}}\n"), config.NoEnvironment)
	require.ErrorContains(t, only(t, err), "unknown key")
}

// TestListedKeys expects all keys of a block in the error about one that is something else.
func TestListedKeys(t *testing.T) {
	for _, s := range new(config.Config).Limits() {
		block, name, _ := strings.Cut(s.Key, ".")
		_, err := config.Parse(file, []byte(block+": 5\n"), config.NoEnvironment)
		name, _, _ = strings.Cut(name, ".") // of the key, or of an inner block
		require.Regexp(t, "the keys (.*, )?"+name+"(,|$)", only(t, err).Problem)
	}
}

func settings(c *config.Config) [][3]string {
	var settings [][3]string
	for _, s := range c.Limits() {
		settings = append(settings, [3]string{s.Key, s.Value, s.Source})
	}
	return settings
}

func TestDefaults(t *testing.T) {
	for sentence, text := range map[string]string{
		"no file at all":          "",
		"blocks without anything": "runtime_controls:\n  ladders:\n  loop:\n  events:\n",
		"blocks of no keys":       "runtime_controls: {ladders: {}, events: {}}\n",
		"keys without values": "runtime_controls:\n  idle_timeout_seconds:\n  from_first_sign:\n" +
			"  ladders: {idle: , hold: ~}\n  loop: {mode: , waits: ~, classes: {}, volatile: []}\n  events: {material: null, unknown: }\n  max_tick_duration_minutes:\n",
		"zeros for what is off anyway": "runtime_controls: {idle_timeout_seconds: 0, no_progress_timeout_seconds: 0, " +
			"safety_timeout_seconds: 0, hold_timeout_seconds: 0, first_sign_timeout_seconds: 0}\n",
		"a sentinel of no settings": "stall:\n  probe: {}\n",
		"a sentinel that is off": "stall: {no_output_timeout: 0, keep_background: false, terminal_patterns: [], " +
			"probe: {interval: , command: ~, on_probe_error: ignore}}\n",
	} {
		t.Run(sentence, func(t *testing.T) {
			c := parse(t, text, nil)
			require.Equal(t, watchdog.Budget{}, c.Budget)
			require.Equal(t, loop.Config{}, c.Loop)
			require.Equal(t, watchdog.Kinds{}, c.Kinds)
			require.Equal(t, config.Tick{}, c.Tick)
			require.Equal(t, stall.Config{}, c.Stall)
		})
	}
}

// TestTickBounds reads ticks at and between the bounds.
func TestTickBounds(t *testing.T) {
	for written, want := range map[string]time.Duration{
		"1": bound.MinTick, "60": bound.MaxTick, "60.000": bound.MaxTick, "1.000000001": time.Minute + 60,
		"30": bound.DefaultTick,
	} {
		t.Run(written, func(t *testing.T) {
			c := parse(t, "", variables{"WATCHDOG_MAX_TICK_DURATION_MINUTES": written})
			require.Equal(t, want, c.Tick.Limit)
		})
	}
}

// TestSwitchedOffLimit expects off for a limit that the host switched off.
func TestSwitchedOffLimit(t *testing.T) {
	c := parse(t, everySetting, nil)
	c.Budget.Idle = watchdog.NoLimit
	require.Contains(t, settings(c), [3]string{"runtime_controls.idle_timeout_seconds", "off", "limits.yaml:8"})
}

// TestLookupNames never looks up a variable with an empty name.
func TestLookupNames(t *testing.T) {
	_, err := config.Load("", func(name string) (string, bool) {
		require.NotEmpty(t, name)
		return "", false
	})
	require.NoError(t, err)
}
