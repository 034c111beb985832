package storerows_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/storerows"
)

func TestPlace(t *testing.T) {
	t.Run("is read as it was written", func(t *testing.T) {
		for _, p := range []storerows.Place{{}, {Due: -1, RunID: "a b"}, {Due: 1 << 60, RunID: " "}, {Due: 5}} {
			got, err := storerows.ParsePlace(p.String())
			require.NoError(t, err)
			require.Equal(t, p, got)
		}
	})
	t.Run("without a text is before all others", func(t *testing.T) {
		first, err := storerows.ParsePlace("")
		require.NoError(t, err)
		require.Negative(t, first.Compare(storerows.Place{Due: -1 << 62}))
	})
	t.Run("in another form is an error", func(t *testing.T) {
		for _, text := range []string{"12", " run", "x run", "run 12", "99999999999999999999 run"} {
			_, err := storerows.ParsePlace(text)
			require.ErrorContains(t, err, "is not the end of a page")
		}
	})
}

func FuzzParsePlace(f *testing.F) {
	f.Add("12 run")
	f.Add("-1  ")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := storerows.ParsePlace(text)
		if err != nil {
			return
		}
		if again, err := storerows.ParsePlace(p.String()); err != nil || again != p {
			t.Fatalf("%q is read as %v, and that as %v, %v", text, p, again, err)
		}
	})
}

func TestRoundUp(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		0: 0, 1: 1, time.Microsecond: 1, time.Microsecond + 1: 2, time.Second - 1: 1_000_000,
		math.MaxInt64: math.MaxInt64/1000 + 1,
	} {
		require.Equal(t, want, storerows.RoundUp(d), d)
	}
}
