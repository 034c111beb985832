package loop_test

import (
	"encoding"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/loop"
)

// TestVerdictString protects what a model reads: what was the same, how often and since when.
func TestVerdictString(t *testing.T) {
	const instead = "; do something else, or say what is missing."
	var d loop.Detector
	require.Empty(t, turns(&d, "aa").String())
	require.Equal(t, `"read" was called with the same input and got the same result 3 times in a row`+instead,
		turns(&d, "a").String())
	require.Equal(t, `The last 6 turns are 3 rounds of the same 2 calls with the same results, the last one of "read"`+instead,
		turns(&d, "bababa").String())
	require.Equal(t, `"read" was called with the same input and got the same result 4 times in the last 9 turns`+instead,
		turns(&d, "xcxcdxefx").String())
	for n := range 8 {
		v := d.Step(loop.Step{Tool: "look_up", Class: loop.Look, Input: fmt.Appendf(nil, `{"offset":%d}`, n)})
		if n == 7 {
			require.Equal(t, `"look_up" was called 8 times in the last 8 turns and found nothing, got the same or failed in the same `+
				`way, however it was put`+instead, v.String())
		}
	}
	for range 20 {
		d.Step(loop.Step{Tool: "status", Class: loop.Wait})
	}
	waits := newDetector(t, loop.Config{Waits: loop.Ask})
	var v loop.Verdict
	for range 20 {
		v = waits.Step(loop.Step{Tool: "status", Class: loop.Wait})
	}
	require.Equal(t, `"status" was called with the same input 20 times, and nothing has changed`+instead,
		v.String())
}

// TestTailOfAnyHistory protects that what a detector says depends on what is in its reach and on nothing before: each
// history in testdata is judged by itself, and after others. It is restarted at a random turn each time.
func TestTailOfAnyHistory(t *testing.T) {
	random := rand.New(rand.NewPCG(27, 10))
	var all [][][]loop.Step
	for _, set := range []string{"loops", "productive", "heldout-loops", "heldout-work"} {
		for _, read := range traces(t, set) {
			for _, classes := range []bool{true, false} {
				var turns [][]loop.Step
				for _, turn := range read.turns {
					turns = append(turns, turn.steps(classes))
				}
				all = append(all, turns)
			}
		}
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	// play judges the turns, and returns all verdicts.
	play := func(d *loop.Detector, turns [][]loop.Step) (said []loop.Verdict) {
		at := random.IntN(len(turns))
		for i, turn := range turns {
			if i == at {
				d = restart(t, d, loop.Config{})
			}
			v := d.Step(turn...)
			if v.Advice == loop.Ask {
				d.Delivered()
			}
			said = append(said, v)
		}
		return said
	}
	person := loop.Step{Class: loop.Person}
	for i, turns := range all[:racing.Rounds(len(all)/10, len(all))] {
		want := play(newDetector(t, loop.Config{}), turns)

		d := newDetector(t, loop.Config{})
		play(d, all[random.IntN(len(all))])
		d.Step(person)
		require.Equal(t, want, play(d, turns), "history %d after another one and a person", i)

		d = newDetector(t, loop.Config{})
		for n := range 300 {
			s := look(fmt.Sprint("before ", n), fmt.Sprint("text ", n))
			if n%3 == 0 {
				s = edit(fmt.Sprint("edit ", n), "ok")
			}
			require.Empty(t, d.Step(s).Rule)
		}
		require.Equal(t, want, play(d, turns), "history %d after work that is out of reach", i)
	}
}

var (
	_ encoding.BinaryAppender    = (*loop.Detector)(nil)
	_ encoding.BinaryMarshaler   = (*loop.Detector)(nil)
	_ encoding.BinaryUnmarshaler = (*loop.Detector)(nil)
)

func state(t *testing.T, d *loop.Detector) []byte {
	t.Helper()
	text, err := d.MarshalBinary()
	require.NoError(t, err)
	return text
}

// TestState protects a run whose host restarts before every turn: it is judged as if the host had not.
func TestState(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	config := loop.Config{}
	lasting, restarted := newDetector(t, config), newDetector(t, config)
	advices := map[loop.Advice]bool{}
	var turn []loop.Step
	for range 1000 {
		if random.IntN(3) == 0 {
			turn = nil
		}
		for range random.IntN(4 - min(3, len(turn))) {
			turn = append(turn, loop.Step{
				Tool: []string{"search", "edit", "bash", "sleep"}[random.IntN(4)], Input: []byte([]string{"", "one two", "two one", "three"}[random.IntN(4)]),
				Outcome: []byte([]string{"", "ok", "running", "error"}[random.IntN(4)]),
				Gap:     []time.Duration{0, time.Second, 9 * time.Second, time.Minute}[random.IntN(4)], Refused: random.IntN(9) == 0,
			})
		}
		restarted = restart(t, restarted, config)
		want, got := lasting.Step(turn...), restarted.Step(turn...)
		require.Equal(t, want, got)
		advices[got.Advice] = true
		if random.IntN(5) == 0 {
			lasting.Delivered()
			restarted.Delivered()
		}
		require.Equal(t, state(t, lasting), state(t, restarted))
		require.LessOrEqual(t, len(state(t, lasting)), loop.MaxState)
	}
	require.Len(t, advices, 3)
}

// TestNoText protects what a run reads and writes: but for the name of a tool, it is not in a state or a verdict, in any form a search would find.
func TestNoText(t *testing.T) {
	const canary = "canary-7f3a9c"
	d := newDetector(t, loop.Config{Volatile: []string{canary}})
	step := loop.Step{
		Tool: "search", Class: loop.Look, Input: []byte(`{"` + canary + `":"` + canary + `","offset":3}`),
		Outcome: []byte("no results for " + canary),
	}
	for range 12 {
		v := d.Step(step, loop.Step{Tool: "x", Input: []byte(canary), Outcome: []byte(canary), Gap: 9e9})
		require.NotContains(t, fmt.Sprintf("%+v %#v", v, v), "canary")
		require.NotContains(t, fmt.Sprintf("%+v", v), "7f3a9c")
	}
	require.NotContains(t, string(state(t, d)), "canary")
	require.NotContains(t, string(state(t, d)), "7f3a9c")
	for range 3 {
		step.Tool += canary
		err := newDetector(t, loop.Config{}).UnmarshalBinary([]byte(step.Tool))
		require.ErrorIs(t, err, loop.ErrState)
		require.NotContains(t, err.Error(), "canary")
	}
}

func TestStateDamaged(t *testing.T) {
	d := newDetector(t, loop.Config{})
	turns(d, "ababcab")
	whole := state(t, d)
	sum := func(text []byte) []byte {
		return binary.LittleEndian.AppendUint32(text[:len(text)-4:len(text)-4], crc32.ChecksumIEEE(text[:len(text)-4]))
	}
	refuse := func(text []byte, says string) {
		t.Helper()
		err := d.UnmarshalBinary(text)
		require.ErrorIs(t, err, loop.ErrState)
		require.ErrorContains(t, err, says)
		require.Equal(t, whole, state(t, d), "nothing has changed")
	}
	refuse(nil, "0 bytes are not what MarshalBinary returned")
	refuse(whole[:len(whole)-1], "bytes are not what")
	refuse(append(append([]byte(nil), whole...), 0), "bytes are not what")
	newer := append([]byte(nil), whole...)
	newer[4] = 4
	refuse(newer, "its version is 4; this library reads version 3")
	older := append([]byte(nil), whole...)
	older[4] = 2
	refuse(older[:7369], "its version is 2; this library reads version 3")
	for _, word := range []int{1, 2, 3, 4, 5 + 8, 5 + 9, 5 + 10 + 5, 5 + 19 + 8, 5 + 38 + 512, 5 + 38 + 768} {
		wrong := append([]byte(nil), whole...)
		wrong[5+8*word+2] = 0xff
		refuse(sum(wrong), "invalid loop state: it")
	}
}

// FuzzState looks for a state that is taken and then breaks the detector.
func FuzzState(f *testing.F) {
	d := &loop.Detector{}
	for n := range 40 {
		whole, err := d.MarshalBinary()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(whole)
		d.Step(look(fmt.Sprint(n%7), "x"), edit(fmt.Sprint(n), "error"))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 4 { // let the fuzzer get behind the checksum
			text = binary.LittleEndian.AppendUint32(text[:len(text)-4:len(text)-4], crc32.ChecksumIEEE(text[:len(text)-4]))
		}
		d := newDetector(t, loop.Config{})
		if err := d.UnmarshalBinary(text); err != nil {
			require.ErrorIs(t, err, loop.ErrState)
			return
		}
		require.Equal(t, text, state(t, d))
		for range 5 {
			v := d.Step(look("a", "x"), edit("b", "error"))
			require.GreaterOrEqual(t, v.Rounds, 0)
			d.Delivered()
			restart(t, d, loop.Config{})
		}
	})
}

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

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newDetector(t *testing.T, config loop.Config) *loop.Detector {
	t.Helper()
	d, err := loop.New(config)
	require.NoError(t, err)
	return d
}
