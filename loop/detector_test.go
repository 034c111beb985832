package loop_test

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/loop"
)

// look is a look that gets that.
func look(input, outcome string) loop.Step {
	return loop.Step{Tool: "read", Class: loop.Look, Input: []byte(input), Outcome: []byte(outcome)}
}

// edit is a change that gets that.
func edit(input, outcome string) loop.Step {
	return loop.Step{Tool: "edit", Class: loop.Change, Input: []byte(input), Outcome: []byte(outcome)}
}

// turns gives a detector turns of one step, one for each letter, and returns the last verdict.
func turns(d *loop.Detector, letters string) (v loop.Verdict) {
	for _, letter := range letters {
		v = d.Step(look(string(letter), "got "+string(letter)))
	}
	return v
}

func TestTail(t *testing.T) {
	for period := 1; period <= 8; period++ {
		round := "abcdefgh"[:period]
		t.Run(fmt.Sprintf("period %d is asked in the third round and ended two rounds after", period), func(t *testing.T) {
			d := newDetector(t, loop.Config{Pairs: loop.NoLimit, Fuse: loop.NoLimit})
			require.Equal(t, loop.Go, turns(d, strings.Repeat(round, 3)[:3*period-1]).Advice)
			asked := turns(d, round[period-1:])
			require.Equal(t, loop.Verdict{Advice: loop.Ask, Rule: loop.Tail, Period: period, Rounds: 3, Pattern: asked.Pattern}, asked)
			require.Len(t, asked.Pattern, 16)
			d.Delivered()
			v := turns(d, strings.Repeat(round, 2)[:2*period-1])
			require.Equal(t, loop.Go, v.Advice)
			require.Equal(t, loop.Tail, v.Rule, "it was told, and goes on")
			v = turns(d, round[period-1:])
			require.Equal(t, loop.Verdict{Advice: loop.End, Rule: loop.Tail, Period: period, Rounds: 5, Pattern: asked.Pattern}, v)
		})
	}
	t.Run("a longer round is not looked for", func(t *testing.T) {
		d := newDetector(t, loop.Config{Pairs: loop.NoLimit, Fuse: loop.NoLimit})
		require.Empty(t, turns(d, strings.Repeat("abcdefghi", 9)).Rule)
	})
	t.Run("as long as nobody delivers, it asks and does not end", func(t *testing.T) {
		d := newDetector(t, loop.Config{Fuse: loop.NoLimit})
		require.Equal(t, loop.Ask, turns(d, strings.Repeat("a", 50)).Advice)
	})
	t.Run("another loop after the UNSTUCK is asked again", func(t *testing.T) {
		d := newDetector(t, loop.Config{})
		require.Equal(t, loop.Ask, turns(d, "aaa").Advice)
		d.Delivered()
		require.Equal(t, loop.Ask, turns(d, "bbb").Advice)
		require.Equal(t, loop.Ask, turns(d, "bbb").Advice)
	})
	t.Run("an UNSTUCK for something else ends nothing", func(t *testing.T) {
		d := newDetector(t, loop.Config{})
		turns(d, "a")
		d.Delivered()
		require.Equal(t, loop.Ask, turns(d, "aa").Advice)
		require.Equal(t, loop.Ask, turns(d, "aaa").Advice)
	})
	t.Run("the same with another outcome is not the same", func(t *testing.T) {
		d := newDetector(t, loop.Config{})
		for n := range 100 {
			v := d.Step(look("a", fmt.Sprint("line ", n)))
			require.Equal(t, loop.Verdict{Advice: loop.Go, New: true}, v)
		}
	})
	t.Run("parallel calls are one turn in any order", func(t *testing.T) {
		d := newDetector(t, loop.Config{})
		a, b := look("a", "1"), look("b", "2")
		d.Step(a, b)
		d.Step(b, a)
		require.Equal(t, loop.Ask, d.Step(a, b).Advice)
	})
	t.Run("a call twice in a turn is another turn", func(t *testing.T) {
		d := newDetector(t, loop.Config{Pairs: loop.NoLimit})
		for range 3 {
			a := look("a", "1")
			require.Empty(t, d.Step(a).Rule)
			require.Empty(t, d.Step(a, a).Rule)
			require.Empty(t, d.Step(a, a, a).Rule)
			turns(d, "xyzuvw")
		}
	})
}

func TestPair(t *testing.T) {
	d := newDetector(t, loop.Config{})
	require.Empty(t, turns(d, "a12a34a56").Rule)
	asked := turns(d, "a")
	require.Equal(t, loop.Verdict{Advice: loop.Ask, Rule: loop.Pair, Rounds: 4, Pattern: asked.Pattern}, asked)
	d.Delivered()
	require.Equal(t, loop.Go, turns(d, "7a").Advice)
	require.Equal(t, loop.End, turns(d, "89a").Advice)

	t.Run("a new successful change in between is progress", func(t *testing.T) {
		d := newDetector(t, loop.Config{})
		for n := range 50 {
			require.Empty(t, d.Step(edit(fmt.Sprint(n), "ok")).Rule)
			require.Empty(t, turns(d, "a").Rule)
		}
	})
	for name, change := range map[string]loop.Step{
		"a change that was made before":          edit("1", "ok"),
		"a change that failed":                   {Tool: "edit", Class: loop.Change, Failed: true},
		"a change whose outcome is an error":     edit("1", "Error: old_string not found"),
		"a change whose outcome is a JSON error": edit("1", `{"ok":false}`),
		"a refused change":                       {Tool: "edit", Class: loop.Change, Refused: true},
	} {
		t.Run(name+" is none", func(t *testing.T) {
			d := newDetector(t, loop.Config{Rounds: loop.MaxCount, Futile: loop.NoLimit})
			d.Step(edit("1", "ok"))
			for range 3 {
				require.Empty(t, turns(d, "a").Rule)
				d.Step(change)
			}
			require.Equal(t, 4, turns(d, "a").Rounds)
		})
	}
	t.Run("the fourth outside of the window does not count", func(t *testing.T) {
		letters := "a" + "bcdefghijklmnopqrstuvwxyzABC" + "aDa" // 32 turns
		d := newDetector(t, loop.Config{})
		require.Empty(t, turns(d, letters+"Ea").Rule)
		d = newDetector(t, loop.Config{})
		require.Equal(t, loop.Ask, turns(d, "a"+letters[2:30]+"aaa").Advice)
	})
	t.Run("another outcome of the input starts the count again", func(t *testing.T) {
		d := newDetector(t, loop.Config{Rounds: loop.MaxCount, Fuse: loop.NoLimit})
		for n := range 40 {
			require.Empty(t, d.Step(look("a", "same")).Rule)
			if n%3 == 2 {
				d.Step(look("a", fmt.Sprint("other ", n)))
			}
		}
	})
}

func TestFutile(t *testing.T) {
	search := func(n int, outcome string) loop.Step {
		return loop.Step{Tool: "web_search", Class: loop.Look, Input: fmt.Appendf(nil, `{"q":"q%d"}`, n), Outcome: []byte(outcome)}
	}
	nothing := []string{"", "No results found for it.", `{"results":[],"query":"q"}`, "[]", "null", `[{"type":"text","text":"No matches"}]`, "0 results", `{"content":""}`}
	t.Run("eight searches without a result are asked, sixteen more ended", func(t *testing.T) {
		d := newDetector(t, loop.Config{})
		for n := range 24 {
			v := d.Step(search(n, nothing[n%8]))
			switch n + 1 {
			case 8:
				require.Equal(t, loop.Verdict{Advice: loop.Ask, Rule: loop.Futile, Rounds: 8, Pattern: v.Pattern, New: true}, v)
				d.Delivered()
			case 24:
				require.Equal(t, loop.End, v.Advice)
			default:
				require.Equal(t, loop.Go, v.Advice, n)
			}
		}
	})
	t.Run("a result in between is progress", func(t *testing.T) {
		for _, something := range []string{"a.go:1", `{"results":[{"id":1}]}`, `["x"]`, `[{"type":"text","text":"a.go:1"}]`, `{"name":"Bob","tags":[]}`} {
			d := newDetector(t, loop.Config{})
			for n := range 14 {
				require.Empty(t, d.Step(search(n, map[bool]string{true: something}[n == 7])).Rule, something)
			}
		}
	})
	t.Run("offsets behind the end", func(t *testing.T) {
		d := newDetector(t, loop.Config{})
		for n := range 8 {
			v := d.Step(look(fmt.Sprintf(`{"path":"a","offset":%d}`, n), "offset exceeds the file"), look(fmt.Sprintf(`{"path":"b","offset":%d}`, n), "text"))
			require.Equal(t, n == 7, v.Advice == loop.Ask, n)
		}
	})
	t.Run("the same everywhere is no failure", func(t *testing.T) {
		d := newDetector(t, loop.Config{})
		for n := range 100 {
			require.Empty(t, d.Step(look(fmt.Sprintf(`{"path":"f%d","offset":0}`, n), "")).Rule)
			require.Empty(t, d.Step(look(fmt.Sprintf(`{"number":%d}`, n), `{"errors":[]}`)).Rule)
			require.Empty(t, d.Step(edit(fmt.Sprint(n), "ok")).Rule)
		}
	})
}

func TestFuse(t *testing.T) {
	d := newDetector(t, loop.Config{Pairs: loop.NoLimit, Period: loop.NoLimit})
	turns(d, "0123456789")
	require.Equal(t, loop.Go, turns(d, strings.Repeat("3141592650789", 3)[:29]).Advice)
	require.Equal(t, loop.Verdict{Advice: loop.End, Rule: loop.Fuse, Rounds: 30}, turns(d, "0"))
}

func TestFuseOfMany(t *testing.T) {
	d := newDetector(t, loop.Config{Pairs: loop.NoLimit, Period: loop.NoLimit, Fuse: 90, FuseOf: 100})
	require.Equal(t, loop.Go, turns(d, strings.Repeat("a", 90)).Advice)
	require.Equal(t, loop.Verdict{Advice: loop.End, Rule: loop.Fuse, Rounds: 90}, turns(d, "a"))
	require.Equal(t, loop.End, turns(d, "0123456789").Advice)
	require.Equal(t, loop.Go, turns(d, "b").Advice, "eleven of the last hundred are new")
}

func TestClass(t *testing.T) {
	for _, class := range []loop.Class{loop.Wait, loop.Drive} {
		t.Run(string(class)+" is never asked, and does not hide a loop around it", func(t *testing.T) {
			d := newDetector(t, loop.Config{})
			step := loop.Step{Tool: "x", Class: class, Gap: time.Second}
			for range 500 {
				require.Equal(t, loop.Verdict{Advice: loop.Go}, d.Step(step))
			}
			turns(d, "a")
			d.Step(step)
			turns(d, "a")
			d.Step(step, step)
			require.Equal(t, loop.Ask, d.Step(step, look("a", "got a")).Advice)
		})
	}
	t.Run("a retry is none of it", func(t *testing.T) {
		d := newDetector(t, loop.Config{})
		for range 500 {
			require.Equal(t, loop.Verdict{Advice: loop.Go}, d.Step(loop.Step{Tool: "x", Class: loop.Look, Retry: true}))
		}
	})
	t.Run("a refused call is a step, and not the same as one that is carried out", func(t *testing.T) {
		d := newDetector(t, loop.Config{})
		refused := loop.Step{Tool: "x", Class: loop.Look, Refused: true}
		d.Step(loop.Step{Tool: "x", Class: loop.Look})
		d.Step(refused)
		require.Equal(t, loop.Go, d.Step(refused).Advice)
		require.Equal(t, loop.Ask, d.Step(refused).Advice)
	})
	t.Run("a turn without calls changes nothing", func(t *testing.T) {
		d := newDetector(t, loop.Config{})
		turns(d, "aa")
		require.Equal(t, loop.Verdict{Advice: loop.Go}, d.Step())
		require.Equal(t, loop.Ask, turns(d, "a").Advice)
	})
}

func TestGuess(t *testing.T) {
	for _, c := range []struct {
		name    string
		step    loop.Step
		repeats bool // it is asked about like a look
	}{
		{"a search by name", loop.Step{Tool: "grepFiles"}, true},
		{"any name", loop.Step{Tool: "x"}, true},
		{"a search that is slow", loop.Step{Tool: "grep", Gap: 30 * time.Second}, true},
		{"a search that is very slow", loop.Step{Tool: "grep", Gap: time.Minute}, false},
		{"any name, slow", loop.Step{Tool: "x", Gap: 5 * time.Second}, false},
		{"any name, slow and refused", loop.Step{Tool: "x", Gap: 5 * time.Second, Refused: true}, true},
		{"an edit, slow", loop.Step{Tool: "apply_patch", Gap: time.Hour}, true},
		{"a status that is pending", loop.Step{Tool: "x", Outcome: []byte(`{"status":"Pending"}`)}, false},
		{"a text that something runs", loop.Step{Tool: "get_it", Outcome: []byte("Still running ...")}, false},
		{"a sleep by name", loop.Step{Tool: "sleep"}, false},
		{"a poll by name", loop.Step{Tool: "pollJob"}, false},
		{"keys by name", loop.Step{Tool: "send_keys"}, false},
		{"standard input by name", loop.Step{Tool: "write_stdin"}, false},
		{"an action that scrolls", loop.Step{Tool: "computer", Input: []byte(`{"action":"scroll"}`)}, false},
		{"a key in a field", loop.Step{Tool: "ui", Input: []byte(`{"text":"Tab"}`)}, false},
		{"y in a field", loop.Step{Tool: "terminal", Input: []byte(`{"input":"y\n"}`)}, false},
		{"a sleep in a shell", loop.Step{Tool: "bash", Input: []byte(`{"command":"cd /x && sleep 5"}`)}, false},
		{"a search in a shell", loop.Step{Tool: "bash", Gap: 20 * time.Second, Input: []byte(`{"command":"grep -r a ."}`)}, true},
		{"a declared look that is slow", loop.Step{Tool: "x", Class: loop.Look, Gap: 59 * time.Second}, true},
		{"a declared look after a long pause", loop.Step{Tool: "x", Class: loop.Look, Gap: time.Minute}, false},
		{"a declared look at what is pending", loop.Step{Tool: "x", Class: loop.Look, Outcome: []byte("pending")}, true},
		{"the same after a pause", loop.Step{Tool: "x", Class: loop.Look, Outcome: []byte("pending"), Gap: 5 * time.Second}, false},
		{"a class that there is not", loop.Step{Tool: "sleep", Class: "nap"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDetector(t, loop.Config{})
			d.Step(c.step)
			d.Step(c.step)
			require.Equal(t, c.repeats, d.Step(c.step).Advice == loop.Ask)
		})
	}
	t.Run("what may be a poll is asked about in the end, and not ended", func(t *testing.T) {
		d := newDetector(t, loop.Config{})
		for n := range 500 {
			v := d.Step(loop.Step{Tool: "x", Gap: 8 * time.Second})
			require.Equal(t, n == 20, v.Advice == loop.Ask, n)
			if n == 20 {
				require.Equal(t, loop.Poll, v.Rule)
				require.Equal(t, 20, v.Rounds)
				d.Delivered()
			}
			require.NotEqual(t, loop.End, v.Advice)
		}
	})
	t.Run("a poll that gets something else starts again", func(t *testing.T) {
		d := newDetector(t, loop.Config{})
		for n := range 500 {
			v := d.Step(loop.Step{Tool: "x", Gap: 8 * time.Second, Outcome: fmt.Append(nil, n/20)})
			require.Equal(t, loop.Go, v.Advice)
			require.Equal(t, n%20 == 0, v.New, n)
		}
	})
}

func TestZero(t *testing.T) {
	var d loop.Detector
	require.Equal(t, loop.Go, turns(&d, "aa").Advice)
	require.Equal(t, loop.Ask, turns(&d, "a").Advice)
}

func TestConfig(t *testing.T) {
	for _, c := range []struct {
		config loop.Config
		text   string
	}{
		{loop.Config{Rounds: 1}, "invalid loop config: Rounds is 1; use 2 to 64, or 0 for 3"},
		{loop.Config{Rounds: loop.NoLimit}, "Rounds is 9223372036854775807"},
		{loop.Config{Period: 33}, "Period is 33; use 1 to 32, NoLimit, or 0 for 8"},
		{loop.Config{Pairs: -1}, "Pairs is -1"},
		{loop.Config{Pairs: 33}, "Pairs is 33, but a Window of 32 turns"},
		{loop.Config{Window: 129}, "Window is 129"},
		{loop.Config{Futile: 1}, "Futile is 1"},
		{loop.Config{Polls: 1}, "Polls is 1"},
		{loop.Config{After: -2}, "After is -2"},
		{loop.Config{Fuse: 41}, "Fuse is 41; use 1 to 40"},
		{loop.Config{FuseOf: 200}, "FuseOf is 200"},
		{loop.Config{Poll: -1}, "Poll is -1ns"},
		{loop.Config{Volatile: []string{"a", ""}}, "Volatile 2 of 2 is empty"},
	} {
		_, err := loop.New(c.config)
		require.ErrorIs(t, err, loop.ErrInvalid)
		require.ErrorContains(t, err, c.text)
	}
	t.Run("every rule can be switched off", func(t *testing.T) {
		no := loop.NoLimit
		d := newDetector(t, loop.Config{Period: no, Pairs: no, Futile: no, Polls: no, Fuse: no})
		for range 200 {
			require.Empty(t, d.Step(loop.Step{Tool: "search"}, loop.Step{Tool: "x", Gap: time.Minute}).Rule)
		}
	})
	t.Run("a small FuseOf lowers the default of Fuse", func(t *testing.T) {
		d := newDetector(t, loop.Config{FuseOf: 5, Period: loop.NoLimit, Pairs: loop.NoLimit})
		require.Equal(t, loop.Fuse, turns(d, "aaaaaa").Rule)
	})
}

// TestLarge protects hosts with large outcomes: they are compared whole, and their memory is not kept.
func TestLarge(t *testing.T) {
	heap := func() int {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return int(stats.HeapAlloc) //nolint:gosec // a heap is not that large
	}
	before := heap()
	d := newDetector(t, loop.Config{})
	large := bytes.Repeat([]byte("0123456789"), 1<<20)
	step := loop.Step{Tool: "x", Class: loop.Look, Outcome: large}
	d.Step(step)
	d.Step(step)
	large[len(large)-1] = 'x'
	require.Equal(t, loop.Go, d.Step(step).Advice)
	require.Less(t, heap()-before, 11<<20, "the outcome itself")
	runtime.KeepAlive(step)
	runtime.KeepAlive(d)
}

// TestAllocations protects the hot path of hosts: a step that repeats nothing costs no memory.
func TestAllocations(t *testing.T) {
	var d loop.Detector
	var steps []loop.Step
	for n := range 100 {
		text := fmt.Appendf(nil, `{"path":"src/f%d.go","line":%d,"a":"x\ny"}`, n, n)
		steps = append(steps, loop.Step{Tool: "read_file", Class: loop.Look, Input: text, Outcome: text})
	}
	n := 0
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		d.Step(steps[n%100])
		n++
	}))
}
