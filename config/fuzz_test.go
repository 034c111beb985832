package config_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/big"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/bound"
	"github.com/seed62658d38/watchdog/config"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/stall"
	"github.com/seed62658d38/watchdog/sweep"
)

// FuzzParse checks what holds for every text: no panic, a Config or an error but never both, a budget that the watchdog
// accepts, and no empty error.
func FuzzParse(f *testing.F) {
	for _, of := range rejections {
		for _, test := range of.all {
			if text := fmt.Sprintf(of.form, test[1]); len(text) < 1<<12 {
				f.Add([]byte(text))
			}
		}
	}
	for _, text := range []string{everySetting, tuned, everyStall, everySweep, origin} {
		f.Add([]byte(text))
	}
	workflow, err := os.ReadFile("testdata/workflow.yaml")
	require.NoError(f, err)
	f.Add(workflow)
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := config.Parse(file, text, config.NoEnvironment)
		if err != nil {
			require.Nil(t, c)
			requireSensible(t, faults(t, err))
			return
		}
		require.NoError(t, c.Budget.Validate())
		require.NotEmpty(t, c.String())
		requireUsable(t, c)
		for _, name := range c.Steps() {
			s := c.Step(name)
			require.NotEmpty(t, s.String())
			requireSteps(t, c.Disabled, s.Stall)
			if s.Check != nil {
				requireSteps(t, c.Disabled, s.Check.Stall)
			}
		}
	})
}

// requireSteps checks that the stall settings of a step are valid, and off if everything is.
func requireSteps(t *testing.T, disabled bool, s stall.Config) {
	t.Helper()
	require.True(t, s.Disabled || !disabled)
	s.Terminal = append(s.Terminal, regexp.MustCompile("x")) // the other settings may have no signal
	requireSentinel(t, s)
}

// requireUsable checks that a watchdog accepts the limits, and that the tick is in its range.
func requireUsable(t *testing.T, c *config.Config) {
	t.Helper()
	wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
		Store: &watchdog.Memory{}, Budget: c.Budget, Kinds: c.Kinds,
		PollOnly: true, Logger: slog.New(slog.DiscardHandler),
	})
	require.NotErrorIs(t, err, watchdog.ErrInvalid)
	if err == nil {
		require.NoError(t, wd.Close())
	}
	limit := cmp.Or(c.Tick.Limit, bound.DefaultTick)
	require.GreaterOrEqual(t, limit, bound.MinTick)
	require.LessOrEqual(t, limit, bound.MaxTick)
	require.LessOrEqual(t, cmp.Or(c.Tick.Grace, bound.DefaultGrace), limit)
	requireSentinel(t, c.Stall)
	require.Equal(t, c.Disabled, c.Stall.Disabled)
	requireSweeper(t, c)
}

// requireSweeper checks that a sweeper and a keeper accept their settings, once the host has added its funcs.
func requireSweeper(t *testing.T, c *config.Config) {
	t.Helper()
	if c.Sweep.Resume.Max > 0 {
		c.Sweep.Resume.Start = func(context.Context, session.Session) error { return nil }
	}
	if c.Sweep.Alert.Within > 0 {
		c.Sweep.Alert.Func = func(context.Context, int) {}
	}
	store := &session.Memory{}
	_, err := sweep.New(store, store, c.Sweep)
	require.NoError(t, err)
	c.Keeper.Store = store
	if c.Keeper.Pace == 0 { // no key of the keeper's forbids a sweeper's threshold too short for the default pace
		c.Keeper.Threshold = max(c.Keeper.Threshold, 4*session.DefaultPace)
	}
	_, err = session.NewKeeper(c.Keeper)
	require.NoError(t, err)
}

// requireSentinel checks that the stall settings are empty or can fire.
func requireSentinel(t *testing.T, s stall.Config) {
	t.Helper()
	if s.NoOutput == 0 && s.Probe == nil && len(s.Terminal) == 0 {
		require.Equal(t, stall.Config{Disabled: s.Disabled}, s)
	}
	require.GreaterOrEqual(t, s.NoOutput, time.Duration(0))
	_, err := stall.NewCommand(exec.Command("true"), stall.Config{Step: "step", Grace: s.Grace})
	require.NoError(t, err)
	for _, pattern := range s.Terminal {
		require.NotNil(t, pattern)
	}
	if p := s.Probe; p != nil {
		require.NotEmpty(t, p.Command[0])
		require.GreaterOrEqual(t, p.Interval, time.Duration(0))
		require.GreaterOrEqual(t, p.Timeout, time.Duration(0))
		require.GreaterOrEqual(t, cmp.Or(p.StallThreshold, 2), 2)
		require.GreaterOrEqual(t, p.ErrorThreshold, 0)
	}
}

// requireSensible checks that errors are in the order of their lines and that none is empty.
func requireSensible(t *testing.T, faults []*config.Error) {
	t.Helper()
	for i, fault := range faults {
		require.NotEmpty(t, fault.Problem)
		require.Less(t, len(fault.Error()), 2500)
		if i > 0 {
			require.LessOrEqual(t, faults[i-1].Line, fault.Line)
		}
	}
}

// FuzzVariableName checks that no name of a variable panics, and that an error names a place and never the value.
func FuzzVariableName(f *testing.F) {
	for _, name := range []string{"SWEEP_INTERVAL_MS", "WARN_AT\u200b", "STALL_", "\xff", "PORT", "warn-at", "ENABLE"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if c, _ := config.Load("", environment(variables{"WATCHDOG_" + name: canary})); c == nil {
			return // a variable of ours
		}
		variable := "WATCHDOG_" + name + "=" + canary
		_, err := config.Loader{Environment: []string{variable}}.Load("")
		if err == nil {
			return
		}
		require.NotContains(t, err.Error(), canary)
		require.NotEmpty(t, only(t, err).Variable)
	})
}

// FuzzSeconds compares the parsing of numbers with exact arithmetic.
func FuzzSeconds(f *testing.F) {
	fuzzNumber(f, wallClockVariable, naiveSeconds, func(c *config.Config) time.Duration { return c.Budget.WallClock },
		"0", "0.000", "14400", "0.5", "1.000000001", "9223372036.854775806", "9223372036.854775807", "-1", "1e3", "007",
		"0.0000000000")
}

// fuzzNumber compares what a variable sets with what a naive parser takes its text for.
func fuzzNumber[T any](
	f *testing.F, variable string, naive func(string) (T, bool), set func(*config.Config) T, texts ...string,
) {
	for _, text := range texts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := config.Load("", environment(variables{variable: text}))
		if strings.TrimSpace(text) == "" { // not set
			require.NoError(t, err)
			return
		}
		want, ok := naive(text)
		require.Equal(t, ok, err == nil, "%q: %v", text, err)
		if ok {
			require.Equal(t, want, set(c), "%q", text)
		}
	})
}

var plainSeconds = regexp.MustCompile(`^(0|[1-9][0-9]*)(\.[0-9]{1,9})?$`)

func naiveSeconds(text string) (time.Duration, bool) {
	if !plainSeconds.MatchString(text) {
		return 0, false
	}
	nanoseconds, fits := inUnits(text, int64(time.Second))
	if nanoseconds == 0 {
		return watchdog.NoLimit, fits
	}
	return time.Duration(nanoseconds), fits
}

// inUnits is a decimal number in a smaller unit, of which it has so many, and whether that can be counted.
func inUnits(number string, units int64) (n int64, fits bool) {
	exact, _ := new(big.Rat).SetString(number)
	whole := exact.Mul(exact, big.NewRat(units, 1)).Num()
	return whole.Int64(), whole.IsInt64() && whole.Int64() != math.MaxInt64
}

// FuzzLength compares the parsing of lengths with time.ParseDuration: every accepted text has the same value.
func FuzzLength(f *testing.F) {
	for _, text := range []string{
		"0", "0s", "5m", "90s", "1h30m", "1.5h", "0.1s", "1h2m3s4ms5us6ns", "5µs", "7μs",
		"2562047h47m16s854ms775us806ns", "2562047h47m16.854775807s",
		"9999999h", "5", "-5m", "+5m", "0.1ns", "0.0000000001s", "30m1h", "1h1h", "5 m", "5min", ".5s", "5.s", "1d",
		"true", "",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := config.Load("", environment(variables{"WATCHDOG_STALL_NO_OUTPUT_TIMEOUT": text}))
		if err != nil {
			require.Nil(t, c)
			return
		}
		if strings.TrimSpace(text) == "" { // not set
			require.Zero(t, c.Stall.NoOutput)
			return
		}
		want, err := time.ParseDuration(text)
		require.NoError(t, err, "%q", text)
		require.Equal(t, want, c.Stall.NoOutput, "%q", text)
	})
}

// FuzzPrintedLength checks that every duration is parsed back from its printed form.
func FuzzPrintedLength(f *testing.F) {
	for _, length := range []int64{0, 1, 1500, 90e9, 5400e9, math.MaxInt64 - 1} {
		f.Add(length)
	}
	f.Fuzz(func(t *testing.T, nanoseconds int64) {
		if nanoseconds < 0 || nanoseconds == math.MaxInt64 {
			return
		}
		want := time.Duration(nanoseconds)
		c := parse(t, "", variables{"WATCHDOG_STALL_NO_OUTPUT_TIMEOUT": want.String()})
		require.Equal(t, want, c.Stall.NoOutput)
	})
}
