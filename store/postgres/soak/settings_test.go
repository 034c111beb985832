//go:build linux

package soak_test

import (
	"flag"
	"time"

	"github.com/seed62658d38/watchdog/internal/racing"
)

// The form of the soak. Without flags it is the short one of long tests, and none in the others.
var (
	lengthFlag = flag.Duration("length", racing.Rounds(0, 12*time.Second), "how long there are faults; 0 is no soak")
	runsFlag   = flag.Int("runs", 120, "the runs of each host")
	seedFlag   = flag.Uint64("seed", 0, "the seed of the faults; 0 draws one")
	onlyFlag   = flag.String("only", "", "a regular expression for the faults; empty is all")
	keepFlag   = flag.String("keep", "", "a folder for the journals and logs, which are then kept")
)

const (
	hostCount    = 5
	sweeperCount = 3
)

const (
	// promise is that of the keepers. A host that could not write for three promises is dead.
	promise = time.Second
	death   = 3 * promise
	// threshold is how long a run may be silent. It is longer than a host can be away and live.
	threshold = 4 * promise
	// sweepInterval is the time from one pass of a sweeper to the next.
	sweepInterval = 300 * time.Millisecond
	// recordTimeout bounds each call of the store by runs and sweepers.
	recordTimeout = 2 * promise
	// notices is how long a host takes to notice that its connection is half-open, and then hears of all cancels
	// meanwhile: it asks after two seconds without a word, and waits for the answer for five.
	notices = 7 * time.Second
	// slack is what a busy machine adds to what has to be done within a time.
	slack = 2 * time.Second
)

// worst is the longest time from the last sign of life of a run until a sweeper has written its end, if the database
// works: the row has to be silent for the threshold, and the lease of a dead host is observed for three promises from
// the next look on. All rows can be due at once. Clocks that go back can delay it by as much.
func worst(setBack time.Duration) time.Duration {
	const perRow = 10 * time.Millisecond
	rows := time.Duration(hostCount * *runsFlag)
	return threshold + death + promise + sweepInterval + rows*perRow + setBack + 2*slack
}
