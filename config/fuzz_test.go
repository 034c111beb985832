package config_test

import (
	"cmp"
	"log/slog"
	"math"
	"math/big"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/config"
)

// FuzzParse holds what is true of every text: no panic, a Config or an error and never both, a budget that the
// watchdog takes, and errors that say something.
func FuzzParse(f *testing.F) {
	for _, test := range rejectedFiles {
		if len(test.text) < 1<<12 {
			f.Add([]byte(test.text))
		}
	}
	f.Add([]byte("runtime_controls:\n  session_wall_clock_seconds: 60\n  warn_at: [0.5]\n  reserve_seconds: 0.5\n"))
	f.Add([]byte(everySetting))
	for _, test := range contradictions {
		f.Add([]byte("runtime_controls:\n  " + test.text + "\n"))
	}
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
	})
}

// requireUsable checks that a watchdog takes all that was read, and that a tick is one.
func requireUsable(t *testing.T, c *config.Config) {
	t.Helper()
	wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
		Store: &watchdog.Memory{}, Budget: c.Budget, Kinds: c.Kinds, PollOnly: true, Logger: slog.New(slog.DiscardHandler),
	})
	require.NotErrorIs(t, err, watchdog.ErrInvalidBudget)
	require.NotErrorIs(t, err, watchdog.ErrInvalidKinds)
	if err == nil {
		require.NoError(t, wd.Close())
	}
	limit := cmp.Or(c.Tick.Limit, watchdog.DefaultTick)
	require.GreaterOrEqual(t, limit, watchdog.MinTick)
	require.LessOrEqual(t, limit, watchdog.MaxTick)
	require.LessOrEqual(t, cmp.Or(c.Tick.Grace, watchdog.DefaultGrace), limit)
}

// requireSensible checks that errors come in the order of their lines and that none is empty.
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

// FuzzSeconds checks the reading of a number against exact arithmetic.
func FuzzSeconds(f *testing.F) {
	for _, text := range []string{"0", "14400", "0.5", "1.000000001", "9223372036.854775806", "9223372036.854775807", "-1", "1e3", "007", "0.0000000000"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := config.Load("", environment(map[string]string{"WATCHDOG_SESSION_WALL_CLOCK_SECONDS": text}))
		want, ok := naiveSeconds(text)
		require.Equal(t, ok, err == nil, "%q: %v", text, err)
		if ok {
			require.Equal(t, want, c.Budget.WallClock, "%q", text)
		}
	})
}

var plainSeconds = regexp.MustCompile(`^(0|[1-9][0-9]*)(\.[0-9]{1,9})?$`)

func naiveSeconds(text string) (time.Duration, bool) {
	if !plainSeconds.MatchString(text) {
		return 0, false
	}
	exact, _ := new(big.Rat).SetString(text)
	nanoseconds := exact.Mul(exact, big.NewRat(int64(time.Second), 1)).Num()
	switch {
	case !nanoseconds.IsInt64() || nanoseconds.Int64() == math.MaxInt64:
		return 0, false
	case nanoseconds.Sign() == 0:
		return watchdog.NoLimit, true
	}
	return time.Duration(nanoseconds.Int64()), true
}
