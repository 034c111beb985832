package storerows_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/storerows"
)

func TestRoundUp(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		0: 0, 1: 1, time.Microsecond: 1, time.Microsecond + 1: 2, time.Second - 1: 1_000_000,
		math.MaxInt64: math.MaxInt64/1000 + 1,
	} {
		require.Equal(t, want, storerows.RoundUp(d), d)
	}
}
