package verdict_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// TestTally compares a tally with a number that has no end.
func TestTally(t *testing.T) {
	most := big.NewInt(math.MaxInt64)
	numbers := []int64{0, 1, 2, 1 << 62, math.MaxInt64 - 1, math.MaxInt64, -1, -math.MaxInt64}
	for range 200 {
		var tally, other verdict.Tally
		sum, taken := new(big.Int), new(big.Int)
		for range 50 {
			n := numbers[rand.IntN(len(numbers))]
			if rand.IntN(2) == 0 {
				tally.Add(n)
				sum.Add(sum, big.NewInt(n))
			} else {
				tally.Sub(n)
				sum.Sub(sum, big.NewInt(n))
			}
			if rand.IntN(4) == 0 {
				other.Add(n)
				tally.SubAll(other)
				taken.Add(taken, big.NewInt(n))
				sum.Sub(sum, taken)
			}
			want := new(big.Int).Set(sum)
			if want.CmpAbs(most) > 0 {
				want.Mul(most, big.NewInt(int64(sum.Sign())))
			}
			require.Equal(t, want.Int64(), tally.Count())
		}
	}
}
