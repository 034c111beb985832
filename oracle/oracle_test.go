// Package oracle_test drives the live root package and a frozen copy of it through the same random histories, and
// compares what a host, or another program that reads the same store, can see of them. It is for a time in which the
// inside of the root is built anew: whatever differs has to be a decision.
//
//	make oracle ORACLE_N=200000
//	go test . -oracle.n=2000 -oracle.from=7000                # others
//	go test . -v -oracle.seed=42                              # one, with all that both show
//	go test . -oracle.without=took,charged -oracle.counted=0  # but for these topics of package history
//	go test . -oracle.calls                                   # and how often which method of the store is called
//
// A history is drawn from its seed, see package history. Package drive has it happen in a bubble of testing/synctest,
// on the machine's clock or a mock clock, with timers or PollOnly, and package frozendrive, which is the same text, in
// another one. A difference is shown with the fewest steps that still differ.
//
// If a goroutine of one of the packages panics, the test ends there: with -oracle.v the last seeds printed are those of
// the histories that were under way.
//
// # Decided differences
//
// Eleven places of the frozen package are changed, each marked with "differs", for what the live one does on purpose.
// Checkpoints, which only the live one writes, are left out of what is stored. They keep what Step remembers, which the
// frozen package forgets when it restarts: that is taken out of them on their way to the store, and where the store is
// the watchdog's own, nobody calls Step. The pauses in them are read as they are. Of traces what both packages tell is
// compared, see history.TracedByBoth.
//
// What still differs, in about three of a thousand histories of ORACLE_TIMERS=1 ORACLE_PROMPT=1 -oracle.without=took
// -oracle.counted=0, has been looked at, most frequent first:
//
//   - A session has one timer, set from its runs. On a clock that is set it comes earlier than that of a layer did, or
//     later, and what elapsed is counted from then on.
//   - A look that only finds how far a shared limit is used comes with the timer, and that is set otherwise.
//   - In a bubble a session and its layers share the tries for a store that was away; each had its own. When it comes
//     back, it has the events of some of them earlier, and of others later.
//   - Two processes that trip at one instant, or whose stores come back at one: the other one is first, and its note,
//     its elapsed time or the rest of its budget is in the event.
//   - With a SpendStore that hangs, what a closed run did not spend is given back in another order, and nothing is
//     logged of a scope of which nothing is left.
//   - What is owed to a shared limit is tried again by the timer and at polls, not where a hold opens or closes.
//   - A session and its layer that trip at one instant: the layer has a stop of its own. Layers, and calls, of one
//     instant are in another order.
//   - Of two signs of life within a millisecond it is left open which one counts.
//   - Pauses that were over for an hour are one in a trace, called merged, if they come from a checkpoint.
//
// With PollOnly the release of a hold around a layer that has ended is recorded at the next poll of the run around it,
// and by no other call; a call that finds a silence asks Busy, where only polls did; and the hosts of runs that are
// recorded one after the other are told once all are.
//
// With stores that are slow or hang more differs, in about three of a hundred histories, and in nine with PollOnly:
// what waits for the store has one line for each run, and a call does not wait for the record that another one carries.
// ORACLE_TIMERS leaves out PollOnly, ORACLE_PROMPT stores that take their time.
//
// # Chance
//
// The frozen package is not the same twice. What chance it has is taken out or avoided, in package drive:
//
//   - Random IDs, and those that are derived from them, are the numbers in which they appear first. The events of a
//     step are sorted by what they say without them. IDs in "resets" come in the order of a map, and are sorted.
//   - Callbacks, log records and traces of one moment are sorted by their run.
//   - Half of the wait for the next try is left to chance: both packages wait for three quarters.
//   - Two timers of one moment race: the wall clock of a layer ends before that of its run, but with PollOnly, and the
//     other process has other limits in three of four histories.
//   - An answer at the moment at which nobody waits for it any more races: a store that hangs does so for a millisecond
//     more, and a SpendStore not at all with PollOnly. No Sync is made with a context that has ended already.
//   - Whichever of many calls that wait for one store is first: they are not made at once.
//   - Events of one moment are folded in the order of their random IDs: nearly every step begins a microsecond later.
//
// What is left, in about two of a thousand histories, is found by living through a history again and again. If the
// frozen package differs from itself where it differs from the live one, or before, that is chance, and is counted.
// So is a history in which only the live package differs from itself; look at those.
//
// Not in bubbles, and so not here, is what runs of the machine's clock do together: one timer, and shared exchanges.
package oracle_test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed62658d38/watchdog/oracle/drive"
	frozenInside "github.com/seed62658d38/watchdog/oracle/frozen/inside"
	frozen "github.com/seed62658d38/watchdog/oracle/frozendrive"
	"github.com/seed62658d38/watchdog/oracle/history"
	"github.com/seed62658d38/watchdog/oracle/inside"
)

var (
	count   = flag.Uint64("oracle.n", 500, "how many histories")
	from    = flag.Uint64("oracle.from", 0, "the seed of the first history")
	one     = flag.Int64("oracle.seed", -1, "the seed of the one history to live through, and to show")
	counted = flag.Bool("oracle.counted", true, "with faults of the store that last for a number of calls")
	without = flag.String("oracle.without", "", "topics that are not compared, such as took,traced")
	calls   = flag.Bool("oracle.calls", false, "compare the calls of the stores, too")
	show    = flag.Bool("oracle.v", false, "print each seed before its history")
	most    = flag.Int("oracle.most", 5, "how many differences to look for")
	again   = flag.Int("oracle.again", 12, "how often both live through a history again that differs")
)

// TestMain takes chance out of both packages: half of the time until a try is left to it.
func TestMain(m *testing.M) {
	half := func(most time.Duration) time.Duration { return most / 2 }
	inside.SetSpread(half)
	frozenInside.SetSpread(half)
	flag.Parse()
	debug.SetGCPercent(800)
	os.Exit(m.Run())
}

type lives func(*history.Script) history.Transcript

// live has a history happen in a bubble of its own. If something in it never ends, the transcript says so.
func live(t *testing.T, h *history.Script, by lives) (result history.Transcript) {
	t.Helper()
	stuck := time.AfterFunc(time.Minute, func() { panic(fmt.Sprintf("seed %d does not end", h.Seed)) })
	defer stuck.Stop()
	defer func() {
		if p := recover(); p != nil {
			result = append(result, history.Entry{Step: len(h.Steps) + 3, Text: fmt.Sprint("the bubble: ", p)})
		}
	}()
	synctest.Test(t, func(*testing.T) { result = by(h) })
	return result
}

// A comparison is of all histories.
type comparison struct {
	out     history.TopicSet
	next    atomic.Uint64
	lived   atomic.Uint64
	steps   [history.Classes]atomic.Uint64
	mu      sync.Mutex
	judged  [3][]uint64 // seeds, by verdict
	slowest time.Duration
	slow    uint64
	began   time.Time
}

// TestOracle compares the live package with the frozen one.
func TestOracle(t *testing.T) {
	c := &comparison{began: time.Now()}
	var err error
	if c.out, err = history.ParseTopics(*without); err != nil {
		t.Fatal(err)
	}
	if *one >= 0 {
		c.showOne(t, uint64(*one))
		return
	}
	t.Run("shards", func(t *testing.T) {
		for shard := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(shard), func(t *testing.T) {
				t.Parallel()
				c.shard(t)
			})
		}
	})
	c.report(t)
}

func (c *comparison) history(seed uint64) *history.Script {
	h := history.New(seed, *counted)
	h.Calls = *calls
	return &h
}

// shard lives through histories until there are no more.
func (c *comparison) shard(t *testing.T) {
	for seed := c.next.Add(1) - 1; seed < *count; seed = c.next.Add(1) - 1 {
		h := c.history(*from + seed)
		if *show {
			fmt.Fprintln(os.Stderr, "seed", h.Seed)
		}
		began := time.Now()
		c.compare(t, h)
		c.note(h.Seed, time.Since(began))
		if c.enough() {
			return
		}
	}
}

// note keeps which history took longest.
func (c *comparison) note(seed uint64, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if took > c.slowest {
		c.slowest, c.slow = took, seed
	}
}

func (c *comparison) enough() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.judged[differs]) >= *most
}

// compare lives through one history.
func (c *comparison) compare(t *testing.T, h *history.Script) {
	c.lived.Add(1)
	for _, s := range h.Steps {
		c.steps[s.Op.Class()].Add(1)
	}
	a, b := live(t, h, drive.Live), live(t, h, frozen.Live)
	if x, _ := history.Differ(a, b, c.out); x < 0 {
		return
	}
	flaw, nth, judged := "", c.lived.Load(), c.judge(t, h, a, b)
	if judged == differs {
		flaw = c.minimal(t, h, a, b)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.judged[judged] = append(c.judged[judged], h.Seed)
	if judged == differs {
		t.Errorf("seed %d (history %d; see it with -oracle.seed=%d):\n%s", h.Seed, nth, h.Seed, flaw)
	}
}

// A verdict is what a difference comes to.
type verdict int

const (
	differs  verdict = iota // the live package shows what the frozen one never does
	chance                  // the frozen one differs from itself, no later than the live one from it
	flickers                // the live one differs from itself and the frozen one does not
)

// judge lives through a history that differs again and again, to find out whether it differs from itself.
func (c *comparison) judge(t *testing.T, h *history.Script, a, b history.Transcript) verdict {
	as, bs := []history.Transcript{a}, []history.Transcript{b}
	for range *again {
		as, bs = append(as, live(t, h, drive.Live)), append(bs, live(t, h, frozen.Live))
	}
	nearest, common := bs[0], c.common(a, bs[0])
	for _, one := range bs {
		if n := c.common(a, one); n > common {
			nearest, common = one, n
		}
	}
	for _, one := range bs {
		if c.common(one, nearest) <= common {
			return chance
		}
	}
	for _, one := range as {
		if c.common(one, nearest) > common {
			return flickers
		}
	}
	return differs
}

// common is how many lines two transcripts have in common.
func (c *comparison) common(a, b history.Transcript) int {
	x, _ := history.Differ(a, b, c.out)
	if x < 0 {
		return len(a) + 1
	}
	return x
}

// report says how many histories there were, and how long they took.
func (c *comparison) report(t *testing.T) {
	took := time.Since(c.began)
	n := c.lived.Load()
	sum := uint64(0)
	for class := range c.steps {
		sum += c.steps[class].Load()
	}
	text := fmt.Sprintf("%d histories of %.1f steps in %v, %.0f a second;", n, float64(sum)/float64(max(n, 1)),
		took.Round(time.Millisecond), float64(n)/took.Seconds())
	for class := range c.steps {
		text += fmt.Sprintf(" %v %.1f %%", history.Class(class), 100*float64(c.steps[class].Load())/float64(max(sum, 1)))
	}
	t.Logf("%s; seed %d took longest, %v", text, c.slow, c.slowest.Round(time.Millisecond))
	t.Logf("%d differ; chance has a part in %d of the frozen package, %v, and in %d of the live one alone, %v",
		len(c.judged[differs]), len(c.judged[chance]), c.judged[chance], len(c.judged[flickers]), c.judged[flickers])
}
