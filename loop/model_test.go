package loop_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/loop"
)

// A model says by definition, from all turns there ever were, what a detector says from its memory. Its calls are of
// three tools: "look", "find", a look that searches, and "edit", a change. The outcome "" is nothing, "error" a failure.
type model struct {
	turns     [][]modelCall
	delivered int // how many turns there were then
}

type modelCall struct{ tool, input, outcome string }

func (c modelCall) step() loop.Step {
	class := loop.Look
	if c.tool == "edit" {
		class = loop.Change
	}
	return loop.Step{Tool: c.tool, Input: []byte(c.input), Outcome: []byte(c.outcome), Class: class}
}

// kind names what a futile call has in common with others. It is empty for a useful one. All calls are alike: their
// inputs have no words.
func (c modelCall) kind() string {
	if c.outcome == "error" || c.tool == "find" && c.outcome == "" {
		return c.tool
	}
	return ""
}

func (m *model) step(turn []modelCall) loop.Verdict {
	turn = slices.Clone(turn)
	slices.SortFunc(turn, func(a, b modelCall) int { return strings.Compare(a.tool+a.input+a.outcome, b.tool+b.input+b.outcome) })
	m.turns = append(m.turns, turn)
	best := loop.Verdict{Advice: loop.Go, New: slices.ContainsFunc(turn, func(c modelCall) bool { return !m.seen(c, len(m.turns)-1) })}
	for _, v := range slices.Concat(m.tails(), m.pairs(), m.streak(), m.futile()) {
		if rank(v) > rank(best) || rank(v) == rank(best) && v.Rule == best.Rule && v.Rounds > best.Rounds {
			v.New = best.New
			best = v
		}
	}
	return best
}

func rank(v loop.Verdict) int {
	switch told := v.Advice == loop.Go; {
	case v.Advice == loop.End:
		return 4
	case told && (v.Rule == loop.Tail || v.Rule == loop.Pair):
		return 3
	case v.Advice == loop.Ask:
		return 2
	case v.Rule != "":
		return 1
	}
	return 0
}

// seen reports whether a call is in one of the first turns.
func (m *model) seen(c modelCall, turns int) bool {
	return slices.ContainsFunc(m.turns[:turns], func(t []modelCall) bool { return slices.Contains(t, c) })
}

// changed is the number of the last of the first turns, counted from 1, with a new successful change.
func (m *model) changed(turns int) int {
	for n := turns; n > 0; n-- {
		for _, c := range m.turns[n-1] {
			if c.tool == "edit" && c.outcome != "error" && !m.seen(c, n-1) {
				return n
			}
		}
	}
	return 0
}

func advice(asked, ends bool) loop.Advice {
	switch {
	case asked && ends:
		return loop.End
	case asked:
		return loop.Go
	}
	return loop.Ask
}

func (m *model) tails() (all []loop.Verdict) {
	rounds := func(turns, period int) int { // turns at the end that repeat with that period
		n := min(period, turns)
		for n < turns && slices.Equal(m.turns[turns-1-n], m.turns[turns-1-n+period]) {
			n++
		}
		return n
	}
	now := len(m.turns)
	for period := 1; period <= 8; period++ {
		needed := 3 * period
		length := rounds(now, period)
		if length < needed {
			continue
		}
		after := now - m.delivered
		asked := m.delivered > 0 && rounds(m.delivered, period) >= needed && length >= after+needed
		all = append(all, loop.Verdict{
			Advice: advice(asked, after >= 2*period), Rule: loop.Tail, Period: period, Rounds: length / period,
		})
	}
	return all
}

// count returns in how many of the turns after first, up to last, a call is.
func (m *model) count(c modelCall, first, last int) (n int) {
	for i := max(first, 0); i < last; i++ {
		if slices.Contains(m.turns[i], c) {
			n++
		}
	}
	return n
}

// broken is the last turn in which the input of a call got something else.
func (m *model) broken(c modelCall, turns int) int {
	for n := turns; n > 0; n-- {
		for _, other := range m.turns[n-1] {
			if other.tool == c.tool && other.input == c.input && other.outcome != c.outcome {
				return n
			}
		}
	}
	return 0
}

func (m *model) pairs() (all []loop.Verdict) {
	now := len(m.turns)
	for _, c := range m.turns[now-1] {
		since := max(m.changed(now)-1, m.broken(c, now))
		n := m.count(c, max(since, now-32), now)
		asked := m.delivered > since && now-m.delivered <= 32 && m.delivered > 0 &&
			m.count(c, max(since, m.delivered-32), m.delivered) >= 4
		if n >= 4 || asked {
			ends := m.count(c, m.delivered, now) >= 2
			all = append(all, loop.Verdict{Advice: advice(asked, ends), Rule: loop.Pair, Rounds: n})
		}
	}
	return all
}

func (m *model) futile() (all []loop.Verdict) {
	now := len(m.turns)
	for _, last := range m.turns[now-1] {
		kind := last.kind()
		if kind == "" {
			continue
		}
		count, before, previous := 0, 0, 0
		for n := m.changed(now); n <= now; n++ {
			if n == 0 {
				continue
			}
			if useful := func(c modelCall) bool { return c.tool == kind && c.kind() == "" }; slices.ContainsFunc(m.turns[n-1], useful) ||
				n-previous > 32 {
				count, before = 0, 0
			}
			if slices.ContainsFunc(m.turns[n-1], func(c modelCall) bool { return c.kind() == kind }) {
				count++
				previous = n
			}
			if n == m.delivered {
				before = count
			}
		}
		if count >= 8 {
			asked := before >= 8
			ends := count-before >= 8*2
			all = append(all, loop.Verdict{Advice: advice(asked, ends), Rule: loop.Futile, Rounds: count})
		}
	}
	return all
}

// streak counts the turns in which something fails, since one in which something was got. A search does not begin it.
func (m *model) streak() (all []loop.Verdict) {
	count, before, previous := 0, 0, 0
	for n := max(m.changed(len(m.turns)), 1); n <= len(m.turns); n++ {
		useful := func(c modelCall) bool { return c.kind() == "" }
		if slices.ContainsFunc(m.turns[n-1], useful) || n-previous > 32 {
			count, before = 0, 0
		}
		fails := func(c modelCall) bool { return c.outcome == "error" && (c.tool != "find" || count > 0) }
		if slices.ContainsFunc(m.turns[n-1], fails) {
			count++
			previous = n
		}
		if n == m.delivered {
			before = count
		}
	}
	if count >= 12 && previous == len(m.turns) {
		all = append(all, loop.Verdict{Advice: advice(before >= 12, false), Rule: loop.Streak, Rounds: count})
	}
	return all
}

// TestModel gives random histories to a detector and to the model. They are short enough for the detector to remember
// all pairs, and are restarted at random.
func TestModel(t *testing.T) {
	advices := map[loop.Advice]map[loop.Rule]int{loop.Go: {}, loop.Ask: {}, loop.End: {}}
	for seed := range max(300, racing.Rounds[uint64](300, 1500)) {
		random := rand.New(rand.NewPCG(seed, 14))
		m, d := &model{}, newDetector(t, loop.Config{})
		likely, variety := random.Float64(), 1+random.IntN(5)
		for n := range 85 {
			turn := randomTurn(random, m.turns, likely, variety)
			var steps []loop.Step
			for _, c := range turn {
				steps = append(steps, c.step())
			}
			random.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
			if random.IntN(10) == 0 {
				d = restart(t, d, loop.Config{})
			}
			got, want := d.Step(steps...), m.step(turn)
			require.Equal(t, want.Rule == "", got.Pattern == "", "seed %d, turn %d", seed, n+1)
			got.Pattern, got.Tool, got.Since = "", "", 0
			require.Equal(t, want, got, "seed %d, turn %d: %v", seed, n+1, m.turns)
			advices[got.Advice][got.Rule]++
			if got.Advice == loop.Ask && random.IntN(2) == 0 || random.IntN(30) == 0 {
				d.Delivered()
				m.delivered = len(m.turns)
			}
		}
	}
	for _, rule := range []loop.Rule{loop.Tail, loop.Pair, loop.Futile} {
		require.NotZero(t, advices[loop.Ask][rule], "no history asks by %s", rule)
		require.NotZero(t, advices[loop.End][rule], "no history ends by %s", rule)
	}
	require.NotZero(t, advices[loop.Ask][loop.Streak], "no history asks by it")
}

// randomTurn repeats an earlier turn, or makes up a new one.
func randomTurn(random *rand.Rand, turns [][]modelCall, likely float64, variety int) (turn []modelCall) {
	if back := 1 + random.IntN(5); back <= len(turns) && random.Float64() < likely {
		return turns[len(turns)-back]
	}
	tools, outcomes := []string{"look", "look", "find", "edit"}, []string{"", "error", "a", "b"}
	for range 1 + random.IntN(3) {
		turn = append(turn, modelCall{
			tools[random.IntN(len(tools))], string(rune('a' + random.IntN(variety))), outcomes[random.IntN(len(outcomes))],
		})
	}
	return turn
}
