package storeflow_test

import (
	"errors"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/storeflow"
)

var (
	errRefused = errors.New("the host's trigger refuses it")
	errDown    = errors.New("no server listens there")
)

func TestWriteEach(t *testing.T) {
	writeEach := func(n int, refuses func(int) bool, down func(calls int) bool) (written, refused []int, calls int, err error) {
		batch := make([]int, n)
		for i := range batch {
			batch[i] = i
		}
		found, err := storeflow.WriteEach(batch, strconv.Itoa, func(part []int) error {
			calls++
			switch {
			case down(calls):
				return errDown
			case slices.ContainsFunc(part, refuses):
				return errRefused
			}
			written = append(written, part...)
			return nil
		}, func(err error) bool { return errors.Is(err, errRefused) })
		for runID, why := range found {
			require.EqualError(t, why, "run "+runID+": the host's trigger refuses it")
			i, _ := strconv.Atoi(runID)
			refused = append(refused, i)
		}
		slices.Sort(refused)
		return written, refused, calls, err
	}
	never := func(int) bool { return false }
	t.Run("all but the refused rows are written, each once", func(t *testing.T) {
		for _, bad := range [][]int{nil, {0}, {999}, {0, 1, 2}, {17, 500, 501, 998}} {
			written, refused, calls, err := writeEach(1000, func(i int) bool { return slices.Contains(bad, i) }, never)
			require.NoError(t, err)
			require.Equal(t, bad, refused)
			slices.Sort(written)
			require.Len(t, slices.Compact(written), 1000-len(bad))
			require.LessOrEqual(t, calls, 1+20*len(bad), "two for each halving")
		}
	})
	t.Run("one refusal too many is an error, and the rest is not tried", func(t *testing.T) {
		_, refused, calls, err := writeEach(10_000, func(int) bool { return true }, never)
		require.ErrorIs(t, err, errRefused)
		require.ErrorContains(t, err, "more than 16 rows are refused, such as run 16: ")
		require.Len(t, refused, 17)
		require.Less(t, calls, 100)
	})
	t.Run("another error ends it", func(t *testing.T) {
		_, refused, calls, err := writeEach(1000, func(i int) bool { return i == 0 }, func(calls int) bool { return calls > 3 })
		require.ErrorIs(t, err, errDown)
		require.Empty(t, refused)
		require.Equal(t, 4, calls)
	})
	t.Run("an empty batch is written, too", func(t *testing.T) {
		_, _, calls, err := writeEach(0, never, never)
		require.NoError(t, err)
		require.Equal(t, 1, calls)
	})
}
