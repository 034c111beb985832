package loop_test

import (
	"encoding"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
