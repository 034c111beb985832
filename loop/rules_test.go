package loop_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/loop"
)

// A past is turns of one call each, as letters, and says of the last what the documentation of the package says.
type past struct {
	turns     []int
	delivered int // how many turns there were
}

// sayTail looks for three rounds of one to eight turns each, and two more after the run was told of them.
func (p *past) sayTail() loop.Advice {
	told, asks := false, false
	for period := 1; period <= 8; period++ {
		now := p.inARow(len(p.turns), period)
		if now < 3*period {
			continue
		}
		since := len(p.turns) - p.delivered
		switch before := p.inARow(p.delivered, period); {
		case p.delivered == 0 || before < 3*period || now < before+since && now-since < 3*period:
			asks = true
		case since >= 2*period:
			return loop.End
		default:
			told = true
		}
	}
	if asks && !told {
		return loop.Ask
	}
	return loop.Go
}

// inARow is how many of the first turns, at their end, repeat with that period.
func (p *past) inARow(turns, period int) int {
	n := min(turns, period)
	for n < turns && p.turns[turns-1-n] == p.turns[turns-1-n+period] {
		n++
	}
	return n
}

// Letters: what is from 0 to 9 is a look at one of five things, that gets one of two outcomes. From 100 on it is a
// change.
func letterStep(letter int) loop.Step {
	if letter >= 100 {
		return edit(fmt.Sprint(letter), "done")
	}
	return look(fmt.Sprint(letter/2), fmt.Sprint("it is ", letter%2))
}

// sayPair looks for the same pair in 4 of 32 turns, since the last new change and the last other outcome, and in two
// more after the run was told.
func (p *past) sayPair() loop.Advice {
	last, now := p.turns[len(p.turns)-1], len(p.turns)
	since := p.since(last)
	count := func(from, to int) (n int) {
		for i := max(from, since, 0); i < to; i++ {
			if p.turns[i] == last {
				n++
			}
		}
		return n
	}
	told := p.delivered > since && now-p.delivered <= 32 && count(p.delivered-32, p.delivered) >= 4
	switch {
	case told && count(p.delivered, now) >= 2:
		return loop.End
	case !told && count(now-32, now) >= 4:
		return loop.Ask
	}
	return loop.Go
}

// since is how many turns there were when the count of the last one began.
func (p *past) since(last int) int {
	for i := len(p.turns) - 1; i >= 0 && i >= len(p.turns)-70; i-- {
		switch t := p.turns[i]; {
		case last < 100 && t < 100 && t/2 == last/2 && t != last:
			return i + 1
		case t >= 100 && !p.had(t, i):
			return i // a change counts itself
		}
	}
	return 0
}

func (p *past) had(t, before int) bool {
	for i := max(0, before-256); i < before; i++ {
		if p.turns[i] == t {
			return true
		}
	}
	return false
}

// next is a letter of a few, or that of some turns before, or now and then a change.
func (p *past) next(random *rand.Rand, variety, period, left int) int {
	n := len(p.turns)
	switch again := random.IntN(3) > 0 && n >= period; {
	case again && (left%3 > 0 || period < 5):
		return p.turns[n-period]
	case random.IntN(12) == 0:
		return 103 + n/20 - random.IntN(3)
	}
	return random.IntN(variety)
}

// TestRulesAsDocumented gives long histories to one detector for each rule alone.
func TestRulesAsDocumented(t *testing.T) {
	const all = loop.TheTail | loop.ThePair | loop.TheFutile | loop.ThePoll | loop.TheRedo
	for _, c := range []struct {
		rule  loop.Rule
		piece loop.Pieces
		say   func(*past) loop.Advice
	}{
		{loop.Tail, loop.TheTail, (*past).sayTail},
		{loop.Pair, loop.ThePair, (*past).sayPair},
	} {
		t.Run(string(c.rule), func(t *testing.T) {
			random := rand.New(rand.NewPCG(27, 1))
			d, p := newDetector(t, loop.Config{}).Without(all&^c.piece), &past{}
			said := map[loop.Advice]int{}
			variety, period, left := 4, 1, 0
			for n := range racing.Rounds(10_000, 1_000_000) {
				if left == 0 {
					variety, period, left = 2+random.IntN(9), 1+random.IntN(9), random.IntN(50)
				}
				left--
				letter := p.next(random, variety, period, left)
				p.turns = append(p.turns, letter)
				v, want := d.Step(letterStep(letter)), c.say(p)
				require.Equal(t, want, v.Advice, "turn %d, told after %d: %v", n+1, p.delivered, p.turns[max(0, n-40):])
				said[want]++
				if v.Advice == loop.Ask && random.IntN(2) == 0 || random.IntN(60) == 0 {
					d.Delivered()
					p.delivered = n + 1
				}
			}
			t.Log(said)
			require.Len(t, said, 3)
		})
	}
}
