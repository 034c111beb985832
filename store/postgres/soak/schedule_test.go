//go:build linux

package soak_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/racing"
)

// A kind is a kind of fault.
type kind struct {
	name        string
	least, most time.Duration // how long it lasts
	count       int           // how many of it come before all kinds of its group come again
}

// The kinds by what they hit. A host that is hit for at most two promises stays live: it has the third to write in.
var (
	hostKinds = []kind{
		{stopped, promise / 5, 2 * promise, 1}, {stopped, death + promise, 2 * death, 1},
		{killed, promise / 5, 2 * death, 1},
		{delayed, promise, 3 * promise, 1},
		{cut, promise / 5, 2 * promise, 1}, {cut, death + promise, 2 * death, 1},
		{withheld, promise / 5, 2 * promise, 1}, {withheld, death + promise, 2 * death, 1},
		{halfOpen, promise / 5, 2 * promise, 1},
		{losing, promise / 5, promise, 1},
	}
	sweeperKinds = []kind{
		{stopped, promise / 5, 2 * death, 1}, {killed, promise / 5, 2 * promise, 1},
		{delayed, promise, 3 * promise, 1}, {cut, promise / 5, 2 * promise, 1}, {withheld, promise / 5, 2 * death, 1},
		{halfOpen, promise / 5, 2 * promise, 1}, {losing, promise, 3 * promise, 3},
	}
	serverKinds = []kind{
		{fastStop, 0, 2 * promise, 1}, {immediateStop, 0, 2 * promise, 1}, {promotion, 0, 1, 1},
		{standbyAway, promise / 5, 2 * promise, 1}, {splitBrain, promise / 5, 2 * death, 1},
	}
	lockKinds = []kind{
		{rowsLocked, promise, threshold + 2*promise, 1},
		{tableLocked, promise, threshold / 2, 1}, {tableLocked, threshold + promise, threshold + 2*promise, 1},
	}
	clockKinds = []kind{
		{clockForward, threshold, 2 * threshold, 2}, {clockForward, time.Minute, 10 * time.Minute, 1},
		{clockBack, promise, threshold, 2},
	}
)

// The names of the faults.
const (
	stopped       = "SIGSTOP"
	killed        = "SIGKILL"
	delayed       = "network slow"
	cut           = "network cut"
	withheld      = "network holds all back and then delivers"
	halfOpen      = "connections half-open"
	losing        = "network loses answers after commit"
	fastStop      = "server stopped"
	immediateStop = "server stopped at once"
	promotion     = "primary killed, standby promoted"
	standbyAway   = "synchronous standby away"
	splitBrain    = "two primaries"
	rowsLocked    = "rows locked by a stranger"
	tableLocked   = "table locked by a stranger"
	clockForward  = "clock of the servers set forward"
	clockBack     = "clock of the servers set back"
)

// A fault is an entry of the schedule. Its length is how far a clock steps.
type fault struct {
	name       string
	at, length time.Duration // since the start of the soak
	target     int           // the index of the host or sweeper
	must       bool          // it comes also if a busy machine is late
}

func (f fault) String() string {
	return fmt.Sprintf("%v %s %d for %v", f.at.Round(time.Millisecond), f.name, f.target, f.length.Round(time.Millisecond))
}

// instant reports whether the fault is over at once.
func (f fault) instant() bool { return f.name == clockForward || f.name == clockBack }

// end returns when the fault is over.
func (f fault) end() time.Duration {
	if f.instant() {
		return f.at
	}
	return f.at + f.length
}

// A group is what faults of some kinds hit: each target has one at a time.
type group struct {
	name    string
	kinds   []kind
	targets int
	pause   time.Duration // at least, between two faults of a target; three times as long at most
}

var groups = []group{
	{"host", hostKinds, hostCount, promise + promise/2},
	{"sweeper", sweeperKinds, sweeperCount, promise},
	{"server", serverKinds, 1, promise},
	{"lock", lockKinds, 1, promise / 2},
	{"clock", clockKinds, 1, promise},
}

// draw returns the faults of a group in order. Each kind comes at least once, also if that takes longer.
func (g group) draw(random *rand.Rand, length time.Duration) (all []fault) {
	free := make([]time.Duration, g.targets)
	for first := true; first || slices.Min(free) < length; first = false {
		for _, k := range g.deal(random) {
			target := slices.Index(free, slices.Min(free))
			f := fault{name: k.name, target: target, length: between(random, k.least, k.most), must: first}
			f.at = free[target] + between(random, g.pause, 3*g.pause)
			if !first && f.end() > length {
				return sorted(all)
			}
			free[target] = f.end()
			all = append(all, f)
		}
	}
	return sorted(all)
}

// deal returns all kinds of the group, each as often as it says, in random order.
func (g group) deal(random *rand.Rand) (deck []kind) {
	for _, k := range g.kinds {
		deck = append(deck, slices.Repeat([]kind{k}, k.count)...)
	}
	random.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
	return deck
}

func sorted(all []fault) []fault {
	slices.SortStableFunc(all, func(a, b fault) int { return cmp.Compare(a.at, b.at) })
	return all
}

func between(random *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(random.Int64N(int64(most-least)))
}

// setBack returns how far the clocks go back in the last minute of the faults.
func setBack(all []fault) (sum time.Duration) {
	for _, f := range all {
		if f.name == clockBack && all[len(all)-1].at-f.at < time.Minute {
			sum += f.length
		}
	}
	return sum
}

func TestSchedule(t *testing.T) {
	draw := func(g group, seed uint64, length time.Duration) []fault {
		return g.draw(rand.New(rand.NewPCG(seed, 0)), length)
	}
	for _, g := range groups {
		for seed := range uint64(20) {
			short, long := draw(g, seed, 0), draw(g, seed, time.Minute)
			require.Equal(t, short, draw(g, seed, 0), "a seed gives one schedule")
			require.Greater(t, len(long), len(short))
			checkApart(t, long)
			times := map[string]int{}
			for _, f := range short {
				times[f.name]++
			}
			for _, k := range g.kinds {
				require.GreaterOrEqual(t, times[k.name], k.count, "%s comes in the shortest soak", k.name)
			}
		}
	}
}

// checkApart checks that each target has one fault at a time.
func checkApart(t *testing.T, faults []fault) {
	t.Helper()
	over := map[int]time.Duration{}
	for _, f := range faults {
		require.Greater(t, f.at, over[f.target], "%v comes after the one before", f)
		over[f.target] = f.end()
	}
}

// A host that stays live is never away for more than two promises, and a dead one for more than three.
func TestScheduleOfHosts(t *testing.T) {
	for _, k := range hostKinds {
		switch k.name {
		case killed, delayed, halfOpen:
		default:
			require.True(t, k.most <= 2*promise || k.least > death, "%+v leaves open whether the host is live", k)
		}
	}
	require.Greater(t, threshold, death, "a host that is away and live is not silent for too long")
}

// lock holds locks of a fault for its length, by a connection of its own. It reports whether it held them for a while.
func (c *cluster) lock(ctx context.Context, f fault) (held bool, err error) {
	conn, err := pgx.Connect(ctx, c.dsn())
	if err != nil {
		return false, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	tables, err := ownTables(ctx, conn)
	if err != nil {
		return false, err
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		return false, err
	}
	for _, table := range tables {
		statement := "LOCK TABLE " + table + " IN ACCESS EXCLUSIVE MODE"
		if f.name == rowsLocked {
			statement = "SELECT FROM " + table + " WHERE random() < 0.1 FOR UPDATE SKIP LOCKED"
		} else if table != "watchdog_sessions" {
			continue
		}
		if _, err := tx.Exec(ctx, statement); err != nil {
			return false, err
		}
	}
	time.Sleep(f.length) // how long the locks are held
	return true, tx.Rollback(ctx)
}

// ownTables returns the store's tables whose rows change.
func ownTables(ctx context.Context, conn *pgx.Conn) ([]string, error) {
	rows, _ := conn.Query(ctx, "SELECT tablename::text FROM pg_tables "+ // rows have the error
		"WHERE schemaname = 'public' AND tablename LIKE 'watchdog%' AND tablename <> 'watchdog_schema'")
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

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
