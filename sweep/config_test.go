package sweep_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

func TestConfigDefaults(t *testing.T) {
	require.Equal(t, sweep.Config{
		Interval: 5 * time.Minute, StalledThreshold: 10 * time.Minute, MinAge: 2 * time.Minute,
		StartupDelay: 30 * time.Second, MaxCancellationsPerRun: 10, StopTimeout: 30 * time.Second,
		RecordTimeout: 5 * time.Second,
	}, sweep.Config{}.WithDefaults())
	t.Run("a setting stays as it is", func(t *testing.T) {
		set := sweep.Config{
			Disabled: true, Interval: 1, StalledThreshold: 2, MinAge: watchdog.None, StartupDelay: watchdog.None,
			MaxCancellationsPerRun: watchdog.NoLimit, Grace: 3, StopTimeout: 4, RecordTimeout: 5, DryRun: true,
		}
		require.Equal(t, set, set.WithDefaults())
	})
	t.Run("New fills in the defaults before it checks the config", func(t *testing.T) {
		for _, part := range []sweep.Config{
			{}, {Interval: time.Minute}, {StalledThreshold: time.Nanosecond}, {StalledThreshold: watchdog.NoLimit},
			{MinAge: watchdog.None}, {StartupDelay: watchdog.None}, {MaxCancellationsPerRun: 1},
			{MaxCancellationsPerRun: watchdog.NoLimit}, {Grace: time.Second}, {StopTimeout: 1}, {RecordTimeout: 1},
			{DryRun: true},
		} {
			_, err := sweep.New(&session.Memory{}, &session.Memory{}, part)
			require.NoError(t, err)
		}
	})
}

// noAppend is a canceller that cannot warn.
type noAppend struct{ sweep.Canceller }

func TestConfigInvalid(t *testing.T) {
	start := func(context.Context, session.Session) error { return nil }
	alert := func(context.Context, int) {}
	for says, cfg := range map[string]sweep.Config{
		"Interval is -1ns":                          {Interval: -1},
		"StalledThreshold is -1ns":                  {StalledThreshold: watchdog.None},
		"MinAge is -2ns":                            {MinAge: -2},
		"MinAge is without limit":                   {MinAge: watchdog.NoLimit},
		"StartupDelay is -1s":                       {StartupDelay: -time.Second},
		"Grace is -1ns":                             {Grace: watchdog.None},
		"StopTimeout is -1ns":                       {StopTimeout: -1},
		"RecordTimeout is -2562047h47m16.854775808": {RecordTimeout: math.MinInt64},
		"MaxCancellationsPerRun is -1":              {MaxCancellationsPerRun: -1},
		"Resume.Max is -1":                          {Resume: sweep.ResumePolicy{Max: -1}},
		"of Resume only":                            {Resume: sweep.ResumePolicy{Max: 1}},
		"only one of Max and Start":                 {Resume: sweep.ResumePolicy{Start: start}},
		"Alert.Count is -1":                         {Alert: sweep.Alert{Count: -1}},
		"Alert.Within is -1ns":                      {Alert: sweep.Alert{Within: -1, Func: alert}},
		"of Alert only":                             {Alert: sweep.Alert{Func: alert}},
		"only one of Within and Func":               {Alert: sweep.Alert{Within: 1}},
		"Alert.Count is set without":                {Alert: sweep.Alert{Count: 1}},
	} {
		t.Run(says, func(t *testing.T) {
			_, err := sweep.New(&session.Memory{}, &session.Memory{}, cfg)
			require.ErrorIs(t, err, watchdog.ErrInvalid)
			require.ErrorContains(t, err, says)
		})
	}
	t.Run("without a finder or a canceller", func(t *testing.T) {
		_, err := sweep.New(nil, &session.Memory{}, sweep.Config{})
		require.ErrorIs(t, err, watchdog.ErrInvalid)
		_, err = sweep.New(&session.Memory{}, nil, sweep.Config{})
		require.ErrorContains(t, err, "pass both")
	})
	t.Run("with a grace and a canceller that cannot warn", func(t *testing.T) {
		_, err := sweep.New(&session.Memory{}, noAppend{&session.Memory{}}, sweep.Config{Grace: 1})
		require.ErrorIs(t, err, watchdog.ErrInvalid)
		require.ErrorContains(t, err, "no method Warn or Append")
		_, err = sweep.New(&session.Memory{}, noAppend{&session.Memory{}}, sweep.Config{})
		require.NoError(t, err)
	})
}
