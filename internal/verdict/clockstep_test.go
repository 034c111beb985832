package verdict_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

func TestClockStep(t *testing.T) {
	const s, hour = time.Second, time.Hour
	type reading = verdict.ClockReading
	for name, c := range map[string]struct {
		before, after reading
		want          time.Duration
	}{
		"it goes on":                          {reading{0, 0, 0}, reading{hour, hour, hour}, 0},
		"it is set forward":                   {reading{0, 0, 0}, reading{10 * s, 10 * s, hour}, hour - 10*s},
		"it is set back":                      {reading{0, 0, 0}, reading{10 * s, 10 * s, -hour}, -hour - 10*s},
		"five seconds and the drift are none": {reading{0, 0, 0}, reading{1000 * s, 1000 * s, 1006 * s}, 0},
		"a nanosecond more is one":            {reading{0, 0, 0}, reading{1000 * s, 1000 * s, 1006*s + 1}, 6*s + 1},
		"five seconds back are none":          {reading{0, 0, 0}, reading{1000 * s, 1000 * s, 994 * s}, 0},
		"a nanosecond more back is one":       {reading{0, 0, 0}, reading{1000 * s, 1000 * s, 994*s - 1}, -6*s - 1},
		"a slow first answer is none":         {reading{0, 60 * s, 60 * s}, reading{61 * s, 61 * s, 61 * s}, 0},
		"shown early in it, neither":          {reading{0, 60 * s, 0}, reading{61 * s, 61 * s, 61 * s}, 0},
		"a slow second answer is none":        {reading{0, 0, 0}, reading{0, 60 * s, 60 * s}, 0},
		"shown early in that, neither":        {reading{0, 0, 0}, reading{0, 60 * s, 0}, 0},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, verdict.ClockStep(c.before, c.after)) })
	}
}
