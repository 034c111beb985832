//go:build linux

package histories_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/racing"
)

// TestLinearizable has processes call each database while some of them are killed, stopped and cut off, and has the judge
// look at the history of each run. WATCHDOG_LONG=1 makes it ten times longer.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	for name, newDatabase := range map[string]func(*testing.T) database{"SQLite": newFile, "PostgreSQL": newServer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const fewest = 12 // in fewer, some of what is wanted below happens not at all
			slots := max(fewest, racing.Rounds[int64](fewest, 10*fewest))
			missing := wantedOfSession
			for rounds := 0; rounds == 0 || rounds < mostRounds && len(missing) > 0; rounds++ {
				c := start(t, newDatabase(t), slots*callsOfSlot, everySlot)
				c.disturb()
				missing = judge(t, sessions.histories(t, c.journals()), missing...)
			}
			require.Empty(t, missing, "no call came to that")
		})
	}
}

// mostRounds is how often a test is repeated at most while something has not happened yet that has to: some of it happens
// ten times in most rounds, and not at all in one of hundreds.
const mostRounds = 5

// wantedOfSession are ends of what calls about runs come to in every test.
var wantedOfSession = []string{
	"attach", "attach expired", "read", "freshen", "freshen gone", "freshen expired", "end", "warn done", "warn changed", "claim done",
	"cancel done", "cancel all done", "cancel all changed", " taken", " end_stored", "complete finished",
	"complete cancelled", "renew lease", "expire lease", "expire lease expired", "ask lease", "ask lease told",
}

// everySlot has each slot its own objects.
const everySlot = math.MaxInt64

// judge has each history judged. It returns which of the wanted ends no outcome has: what never
// happens proves nothing.
func judge(t *testing.T, all []history, wanted ...string) (missing []string) {
	t.Helper()
	counts, calls, open := map[string]int{}, 0, 0
	for _, h := range all {
		for _, c := range h.calls {
			if calls++; c.Return == never {
				open++
				continue
			}
			counts[outcomeOf(c.Input, c.Output)]++
		}
	}
	t.Logf("%d histories with %d calls, of which %d have no answer: %v", len(all), calls, open, counts)
	illegal := sessions.check(t, all)
	for _, h := range illegal[:min(len(illegal), 3)] {
		t.Errorf("this history is not linearizable; times are in microseconds: %s", sessions.shortest(h))
	}
	for _, end := range wanted {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(counts)), func(o string) bool { return strings.HasSuffix(o, end) }) {
			missing = append(missing, end)
		}
	}
	return missing
}

// outcomeOf says what a call about a run came to.
func outcomeOf(in, out any) string {
	c, a := in.(sessionCall), out.(*sessionAnswer)
	switch {
	case a.Undone:
		return c.Do + " undone"
	case a.Expired:
		return c.Do + " expired"
	case a.Gone:
		return c.Do + " gone"
	case a.Ended != 0:
		return c.Do + " told"
	case a.Outcome != "":
		return c.Do + " " + string(a.Outcome)
	case a.End.Status != "":
		return c.Do + " " + string(a.End.Status)
	}
	return c.Do
}

// never is when a call returns that got no answer: it may happen at any moment until then.
const never = math.MaxInt64

// checkLimit is how long the judge may take for one history. It is done in milliseconds, but for one in two thousand.
const checkLimit = 20 * time.Second

// A history is the calls about one object, in the order in which they began.
type history struct {
	object string
	calls  []porcupine.Operation
}

// An object is what histories are about: it knows its calls and its answers, and how they are judged.
type object struct {
	prefix string // of the names of such objects
	model  porcupine.Model
	decode func(l line) (any, error)
}

// objectOf makes an object of a state, its calls and their answers. The answer of a call that got none is a nil
// pointer.
func objectOf[State comparable, Call, Answer any](
	prefix string, step func(s State, c Call, a *Answer) (bool, State),
) object {
	return object{
		prefix: prefix,
		model: porcupine.Model{
			Init: func() any { return *new(State) },
			Step: func(s, in, out any) (bool, any) {
				answer, _ := out.(*Answer)
				return step(s.(State), in.(Call), answer)
			},
		},
		decode: func(l line) (any, error) {
			if l.Out == nil {
				var c Call
				err := json.Unmarshal(l.In, &c)
				return c, err
			}
			a := new(Answer)
			err := json.Unmarshal(l.Out, a)
			return a, err
		},
	}
}

// histories returns the calls in the journals about such objects, by object.
func (o object) histories(t *testing.T, journals [][]line) (all []history) {
	t.Helper()
	byName := map[string]*history{}
	for process, lines := range journals {
		answers := map[int]line{}
		for _, l := range lines {
			if l.Out != nil {
				answers[l.ID] = l
			}
		}
		for _, l := range lines {
			if l.Out != nil || !strings.HasPrefix(l.Object, o.prefix) {
				continue
			}
			call, err := o.operation(l, answers)
			require.NoError(t, err)
			call.ClientId = process
			if byName[l.Object] == nil {
				byName[l.Object] = &history{object: l.Object}
			}
			h := byName[l.Object]
			h.calls = append(h.calls, call)
		}
	}
	for _, h := range byName {
		slices.SortFunc(h.calls, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
		all = append(all, *h)
	}
	slices.SortFunc(all, func(a, b history) int { return cmp.Compare(a.object, b.object) })
	return all
}

func (o object) operation(l line, answers map[int]line) (call porcupine.Operation, err error) {
	call.Call, call.Return = int64(l.At), never
	if call.Input, err = o.decode(l); err != nil {
		return call, err
	}
	if answer, ok := answers[l.ID]; ok {
		call.Return = int64(answer.At)
		call.Output, err = o.decode(answer)
	}
	return call, err
}

// The judge may leave one history undecided, and one of so many: with many calls that have no answer it can take longer
// than any limit.
const undecidedOf = 100

// check returns the histories that are not linearizable. If the judge cannot decide about more than a few, the test
// fails.
func (o object) check(t *testing.T, all []history) (illegal []history) {
	t.Helper()
	undecided := 0
	for _, h := range all {
		switch porcupine.CheckOperationsTimeout(o.model, h.calls, checkLimit) {
		case porcupine.Illegal:
			illegal = append(illegal, h)
		case porcupine.Unknown:
			undecided++
			t.Logf("%s: no answer from the judge about %d calls", h.object, len(h.calls))
		case porcupine.Ok:
		}
	}
	require.LessOrEqual(t, undecided, 1+len(all)/undecidedOf, "undecided of %d histories", len(all))
	return illegal
}

// shortest returns the history up to the first answer that makes it illegal. What began before and has no answer then
// is open, so that a beginning of a linearizable history is linearizable, too.
func (o object) shortest(h history) history {
	ends := make([]int64, 0, len(h.calls))
	for _, c := range h.calls {
		ends = append(ends, c.Return)
	}
	slices.Sort(ends)
	for _, end := range ends {
		begun := history{object: h.object}
		for _, c := range h.calls {
			if c.Call > end {
				continue
			}
			if c.Return > end {
				c.Return, c.Output = never, nil
			}
			begun.calls = append(begun.calls, c)
		}
		if porcupine.CheckOperationsTimeout(o.model, begun.calls, checkLimit) == porcupine.Illegal {
			return begun
		}
	}
	return h
}

// String lists the calls with the microseconds since the first at which they began and were answered.
func (h history) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d calls\n", h.object, len(h.calls))
	for _, c := range h.calls {
		began := (c.Call - h.calls[0].Call) / 1000
		in, _ := json.Marshal(c.Input) // they came from JSON
		if c.Return == never {
			fmt.Fprintf(&b, "%8d          process %d: %s no answer\n", began, c.ClientId, in)
			continue
		}
		out, _ := json.Marshal(c.Output)
		fmt.Fprintf(&b, "%8d %8d process %d: %s %s\n", began, (c.Return-h.calls[0].Call)/1000, c.ClientId, in, out)
	}
	return b.String()
}

// A tally counts the calls of all processes, in a file that they have in memory: what they call about depends on how
// many calls there were, and not on how fast the machine is.
type tally struct {
	*atomic.Int64
	memory []byte
}

const sizeOfTally = 8

// openTally opens a tally, and makes one of 0 if there is none.
func openTally(path string) (*tally, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if err := file.Truncate(sizeOfTally); err != nil {
		return nil, err
	}
	memory, err := syscall.Mmap(int(file.Fd()), 0, sizeOfTally, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(errors.New("map the tally"), err)
	}
	return &tally{(*atomic.Int64)(unsafe.Pointer(&memory[0])), memory}, nil
}

func (t *tally) close() error { return syscall.Munmap(t.memory) }
