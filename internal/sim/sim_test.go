package sim_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/racing"
)

func TestMain(m *testing.M) {
	clocks.Spread = spread
	goleak.VerifyTestMain(m)
}

// spread depends on the time only, which is fake, and so on the seed.
func spread(most time.Duration) time.Duration {
	return time.Duration(rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 2)).Int64N(int64(most)))
}

// The environment: the first seed, how many run twice, and whether to keep all that happens.
var (
	first   = number("SIM_FIRST", 1)
	same    = number("SIM_SAME", racing.Rounds[uint64](8, 20))
	keepLog = number("SIM_LOG", 0) > 0
	brief   = number("SIM_BRIEF", 0) > 0
)

func number(name string, otherwise uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return otherwise
}

// How long things may take.
const (
	sweeperThreshold = 8 * time.Second
	maxFault         = 20 * time.Second
	observing        = 10 * promise

	mostNew      = 6 * recordTimeout
	mostResume   = 8 * recordTimeout
	mostClose    = 2*recordTimeout + time.Millisecond
	mostComplete = 2*recordTimeout + time.Millisecond

	mostTrip    = 2 * recordTimeout
	mostTold    = 2 * promise
	mostHealing = 13 * promise
	mostEnding  = 6 * promise
)

// chunk is how many seeds run one after the other, beside other chunks.
const chunk = 50

// TestSimulation runs SIM_SEEDS seeds from SIM_FIRST on: 200 if it is not set, 2,000 with WATCHDOG_LONG, and fewer
// under the race detector. In every one of them the invariants hold after every step.
func TestSimulation(t *testing.T) {
	n := number("SIM_SEEDS", seeds())
	for from := first; from < first+n; from += chunk {
		t.Run(fmt.Sprint("from ", from), func(t *testing.T) {
			t.Parallel()
			for seed := from; seed < min(from+chunk, first+n); seed++ {
				simulate(t, seed).report(t)
			}
		})
	}
}

func seeds() uint64 {
	switch {
	case racing.Long:
		return 2000
	case testing.Short() || racing.Enabled:
		return chunk
	default:
		return 4 * chunk
	}
}

// TestSameSeed: a seed gives the same run again. It does so for nearly all, each time: see the package comment.
func TestSameSeed(t *testing.T) {
	var others []uint64
	for seed := first; seed < first+same; seed++ {
		if once, again := simulate(t, seed), simulate(t, seed); !slices.Equal(once.steps, again.steps) {
			others = append(others, seed)
		}
	}
	assert.LessOrEqual(t, len(others), 1, "seeds with two runs: %d", others)
}
