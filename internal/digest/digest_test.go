package digest_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/digest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestMemory compares a memory with a list of the last 1,024 digests that were new.
func TestMemory(t *testing.T) {
	for _, kinds := range []int{10, 1024, 1025, 1500} {
		t.Run(fmt.Sprint(kinds, " digests"), func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(kinds), 0)) //nolint:gosec // a seed that gives the same history again
			var m digest.Memory
			var known []int
			for range 10_000 {
				n := random.IntN(kinds)
				require.Equal(t, !slices.Contains(known, n), m.Add(strconv.Itoa(n)))
				if !slices.Contains(known, n) {
					known = append(known, n)
					known = known[max(len(known)-1024, 0):]
				}
			}
		})
	}
}

// TestAtOnce protects that a digest which several give at once is new to one of them, the first one too.
func TestAtOnce(t *testing.T) {
	for range 3000 {
		var m digest.Memory
		var fresh atomic.Int32
		var all sync.WaitGroup
		begin := make(chan struct{})
		for range 4 {
			all.Go(func() {
				<-begin
				if m.Add("same") {
					fresh.Add(1)
				}
			})
		}
		close(begin)
		all.Wait()
		require.EqualValues(t, 1, fresh.Load())
	}
}
