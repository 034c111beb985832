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
			d := newDetector(t, loop.Config{})
			require.Equal(t, loop.Go, turns(d, strings.Repeat(round, 3)[:3*period-1]).Advice)
			asked := turns(d, round[period-1:])
			require.Equal(t, loop.Verdict{
				Advice: loop.Ask, Rule: loop.Tail, Tool: "read", Period: period, Rounds: 3, Since: 3 * period, Pattern: asked.Pattern,
			}, asked)
			require.Len(t, asked.Pattern, 16)
			d.Delivered()
			v := turns(d, strings.Repeat(round, 2)[:2*period-1])
			require.Equal(t, loop.Go, v.Advice)
			require.Equal(t, loop.Tail, v.Rule, "it was told, and goes on")
			v = turns(d, round[period-1:])
			require.Equal(t, loop.Verdict{
				Advice: loop.End, Rule: loop.Tail, Tool: "read", Period: period, Rounds: 5, Since: 5 * period, Pattern: asked.Pattern,
			}, v)
		})
	}
	t.Run("a longer round is not looked for", func(t *testing.T) {
		d := newDetector(t, loop.Config{})
		require.NotEqual(t, loop.Tail, turns(d, strings.Repeat("abcdefghi", 9)).Rule)
	})
}

func TestPair(t *testing.T) {
	d := newDetector(t, loop.Config{})
	require.Empty(t, turns(d, "a12a34a56").Rule)
	asked := turns(d, "a")
	require.Equal(t, loop.Verdict{
		Advice: loop.Ask, Rule: loop.Pair, Tool: "read", Rounds: 4, Since: 10, Pattern: asked.Pattern,
	}, asked)
	d.Delivered()
	require.Equal(t, loop.Go, turns(d, "7a").Advice)
	require.Equal(t, loop.End, turns(d, "89a").Advice)

	for name, change := range map[string]loop.Step{
		"a change that was made before":          edit("1", "ok"),
		"a change that failed":                   {Tool: "edit", Class: loop.Change, Failed: true},
		"a change whose outcome is an error":     edit("1", "Error: old_string not found"),
		"a change whose outcome is a JSON error": edit("1", `{"ok":false}`),
		"a refused change":                       {Tool: "edit", Class: loop.Change, Refused: true},
	} {
		t.Run(name+" is none", func(t *testing.T) {
			d := newDetector(t, loop.Config{})
			d.Step(edit("1", "ok"))
			for _, other := range "123" {
				require.Empty(t, turns(d, "a").Rule)
				d.Step(change)
				turns(d, string(other))
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
				require.Equal(t, loop.Verdict{
					Advice: loop.Ask, Rule: loop.Futile, Tool: "web_search", Rounds: 8, Since: 8, Pattern: v.Pattern, New: true,
				}, v)
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
		{"any name, at the speed of a model", loop.Step{Tool: "x", Gap: 29 * time.Second}, true},
		{"any name, slow", loop.Step{Tool: "x", Gap: 30 * time.Second}, false},
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
			v := d.Step(loop.Step{Tool: "x", Gap: 40 * time.Second})
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
			v := d.Step(loop.Step{Tool: "x", Gap: 40 * time.Second, Outcome: fmt.Append(nil, n/20)})
			require.Equal(t, loop.Go, v.Advice)
			require.Equal(t, n%20 == 0, v.New, n)
		}
	})
}

func TestConfig(t *testing.T) {
	for _, c := range []struct {
		config loop.Config
		text   string
	}{
		{loop.Config{Mode: "maybe"}, `invalid loop config: Mode is "maybe"; use On, Off or Strict`},
		{loop.Config{Classes: map[string]loop.Class{"ask": "human"}}, `Classes has "human" for "ask"; use a class`},
		{loop.Config{Volatile: []string{"a", ""}}, "Volatile 2 of 2 is empty"},
		{loop.Config{Waits: "stop"}, `Waits is "stop"; use Ask, End, or Go`},
	} {
		_, err := loop.New(c.config)
		require.ErrorIs(t, err, loop.ErrInvalid)
		require.ErrorContains(t, err, c.text)
	}
	t.Run("what is off asks nothing, and says what is new", func(t *testing.T) {
		d := newDetector(t, loop.Config{Mode: loop.Off, Waits: loop.End})
		for n := range 200 {
			v := d.Step(loop.Step{Tool: "search"}, loop.Step{Tool: "x", Gap: time.Minute}, loop.Step{Tool: "sleep"})
			require.Equal(t, loop.Verdict{Advice: loop.Go, New: n == 0}, v)
		}
	})
	t.Run("the class of a tool is that of its steps without one", func(t *testing.T) {
		d := newDetector(t, loop.Config{Classes: map[string]loop.Class{"peek": loop.Wait, "nap": loop.Look}})
		for range 9 {
			require.Empty(t, d.Step(loop.Step{Tool: "peek"}).Rule)
		}
		d.Step(loop.Step{Tool: "nap", Class: loop.Wait})
		turn, _ := asked(t, d, 9, loop.Step{Tool: "nap"})
		require.Equal(t, 3, turn)
	})
}

// TestPerson protects a run in which a person asks for the same again.
func TestPerson(t *testing.T) {
	for name, heard := range map[string]loop.Step{
		"a person says something":   {Class: loop.Person},
		"a tool that asks a person": {Tool: "ask_user", Outcome: []byte("go on")},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDetector(t, loop.Config{Classes: map[string]loop.Class{"ask_user": loop.Person}})
			for range 50 {
				require.Equal(t, loop.Go, turns(d, "aa").Advice)
				require.Equal(t, loop.Verdict{Advice: loop.Go, New: true}, d.Step(heard))
			}
			require.Equal(t, loop.Ask, turns(d, "aaa").Advice)
			d.Delivered()
			d.Step(look("a", "got a"), heard)
			require.Equal(t, loop.Go, turns(d, "a").Advice)
			require.Equal(t, loop.Ask, turns(d, "a").Advice, "the call of that turn is the first of three")
		})
	}
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
		steps = append(steps, loop.Step{Tool: "read_file", Class: loop.Look, Input: text, Outcome: text},
			bash(fmt.Sprintf("go build ./part%d", n), fmt.Sprintf("-rw-r--r-- 12 root 2026-11-22 17:00:%02d 1.5e a%d\n", n%60, n)),
			bash(fmt.Sprintf("edit %d", n), fmt.Sprintf("Error: no such text in file %d\nString: %d", n, n)),
			loop.Step{Tool: "get_rows", Outcome: fmt.Appendf(nil, `[{"id":%d,"score":0.%d5,"at":-1.5e3}]`, n, n)})
	}
	n := 0
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		d.Step(steps[n%len(steps)])
		n++
	}))
}
