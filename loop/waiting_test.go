package loop_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/loop"
)

// sleep is a wait that takes that long.
func sleep(gap time.Duration) loop.Step { return loop.Step{Tool: "sleep", Class: loop.Wait, Gap: gap} }

// asked gives a detector steps again and again, each a turn, and returns the first turn that is asked about. The run is
// never told, so that none is ended but by the fuse.
func asked(t *testing.T, d *loop.Detector, rounds int, steps ...loop.Step) (turn int, rule loop.Rule) {
	t.Helper()
	for range rounds {
		for _, s := range steps {
			turn++
			if v := d.Step(s); v.Advice != loop.Go {
				require.Equal(t, loop.Ask, v.Advice)
				return turn, v.Rule
			}
		}
	}
	return 0, ""
}

// TestWaiting protects whoever waits for something: a look between waits is a poll.
func TestWaiting(t *testing.T) {
	ls, cat := look("ls", "a"), look("cat", "b")
	for _, c := range []struct {
		name  string
		steps []loop.Step
		turn  int
		rule  loop.Rule
	}{
		{"a look after a long wait is a poll", []loop.Step{sleep(time.Minute), ls}, 42, loop.Poll},
		{"so is one after a wait of which no time is known", []loop.Step{sleep(0), ls}, 42, loop.Poll},
		{"and one after two shorter waits", []loop.Step{sleep(8 * time.Second), sleep(8 * time.Second), ls}, 63, loop.Poll},
		{"and two looks at different things", []loop.Step{sleep(time.Minute), ls, cat}, 62, loop.Poll},
		{"a look after a short wait is a look", []loop.Step{sleep(time.Second), ls}, 6, loop.Tail},
		{"a look that is made again after one wait is none", []loop.Step{sleep(time.Minute), ls, ls}, 6, loop.Tail},
		{"a change after a wait is a change", []loop.Step{sleep(time.Minute), edit("a", "ok")}, 6, loop.Tail},
		{"a refused call after a wait is a step", []loop.Step{sleep(time.Minute), {Tool: "x", Refused: true}}, 6, loop.Tail},
		{"what moves something along is no wait", []loop.Step{{Tool: "x", Class: loop.Drive, Gap: time.Minute}, ls}, 6, loop.Tail},
	} {
		t.Run(c.name, func(t *testing.T) {
			turn, rule := asked(t, newDetector(t, loop.Config{}), 30, c.steps...)
			require.Equal(t, c.rule, rule)
			require.Equal(t, c.turn, turn)
		})
	}
	t.Run("it is never ended, however often it is told", func(t *testing.T) {
		d := newDetector(t, loop.Config{})
		for range 500 {
			d.Step(sleep(time.Minute))
			require.NotEqual(t, loop.End, d.Step(ls).Advice)
			d.Delivered()
		}
	})
	t.Run("a wait in the same turn comes first", func(t *testing.T) {
		d := newDetector(t, loop.Config{})
		for range 15 {
			require.Empty(t, d.Step(ls, sleep(time.Minute)).Rule)
		}
	})
	t.Run("a wait before another step does not count", func(t *testing.T) {
		d := newDetector(t, loop.Config{})
		d.Step(ls)
		d.Step(sleep(time.Minute))
		turns(d, "x")
		d.Step(ls)
		require.Equal(t, loop.Ask, turnsOf(d, ls, ls).Advice)
	})
	t.Run("one long wait is none for those after", func(t *testing.T) {
		d := newDetector(t, loop.Config{})
		d.Step(ls)
		turnsOf(d, sleep(time.Minute), ls)
		turn, _ := asked(t, d, 9, sleep(time.Second), ls)
		require.Equal(t, 4, turn)
	})
	t.Run("a call of no class needs five seconds, with its own", func(t *testing.T) {
		for _, gap := range []time.Duration{3, 5, 7} {
			x := loop.Step{Tool: "x", Gap: gap * time.Second}
			for _, tool := range []string{"x", "read_inbox"} {
				waited := loop.Step{Tool: tool, Gap: x.Gap}
				turn, rule := asked(t, newDetector(t, loop.Config{}), 30, sleep(2*time.Second), waited)
				require.Equal(t, loop.Poll, rule, "%s, %v: turn %d", tool, x.Gap, turn)
			}
			turn, _ := asked(t, newDetector(t, loop.Config{}), 30, x)
			require.Equal(t, 3, turn, "%v without a wait", x.Gap)
		}
	})
}

// turnsOf gives a detector turns of one step each, and returns the last verdict.
func turnsOf(d *loop.Detector, steps ...loop.Step) (v loop.Verdict) {
	for _, s := range steps {
		v = d.Step(s)
	}
	return v
}

// TestWaitsOfCommands protects hosts that declare no classes.
func TestWaitsOfCommands(t *testing.T) {
	for command, waits := range map[string]bool{
		"pg_isready -h db":                                true,
		"cd /srv && nc -z db 5432":                        true,
		"nc -vz -w 1 db 5432":                             true,
		"curl -sf http://localhost:8080/health":           true,
		"curl --retry 9 http://a/readyz":                  true,
		"kubectl wait --for=condition=ready pod/a":        true,
		"kubectl rollout status deploy/a":                 true,
		"docker inspect -f '{{.State.Health.Status}}' db": true,
		"gh run watch 17":                                 true,
		"gh pr checks 88":                                 true,
		"systemctl is-active nginx":                       true,
		"nc db 5432":                                      false,
		"curl http://localhost/health":                    false,
		"curl -f http://localhost/users":                  false,
		"kubectl rollout restart a":                       false,
		"docker inspect db":                               false,
		"gh pr view 88":                                   false,
		"systemctl restart nginx":                         false,
		"pg_isready_or_not":                               false,
	} {
		t.Run(command, func(t *testing.T) {
			d := newDetector(t, loop.Config{})
			input := []byte(`{"command":"` + strings.ReplaceAll(command, `"`, `\"`) + `"}`)
			turn, _ := asked(t, d, 30, loop.Step{Tool: "bash", Input: input, Outcome: []byte("no")})
			require.Equal(t, waits, turn == 0)
		})
	}
}

// TestFailureIsNoPoll protects runs without classes: who gets the same failure again is stuck, however long it takes.
func TestFailureIsNoPoll(t *testing.T) {
	for _, c := range []struct {
		name, tool, command, outcome string
		rule                         loop.Rule
	}{
		{"a call that fails", "x", "", "ValidationError: 'total' is required", loop.Tail},
		{"a field that says so", "x", "", `{"accepted":false}`, loop.Tail},
		{"a test that fails", "bash", "pytest -q", "F..\n1 failed, 2 passed", loop.Tail},
		{"a test that passes may be flaky", "bash", "pytest -q", "3 passed", loop.Poll},
		{"what cannot be reached may come up", "x", "", "Error: connection refused", loop.Poll},
		{"what is not there may come", "x", "", "Error: not found", loop.Poll},
		{"a mailbox that is empty may get a mail", "mail_search", "", "[]", loop.Poll},
		{"a memory that is empty gets nothing by itself", "memory_search", "", "[]", loop.Tail},
		{"git does nothing by itself", "git_status", "", "clean", loop.Tail},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := loop.Step{Tool: c.tool, Outcome: []byte(c.outcome), Gap: 8 * time.Second}
			if c.command != "" {
				s.Input = []byte(`{"command":"` + c.command + `"}`)
			}
			_, rule := asked(t, newDetector(t, loop.Config{}), 30, s)
			require.Equal(t, c.rule, rule)
		})
	}
}

// TestWording tells searches that are put in other words from those for one thing after the other. Both find nothing.
func TestWording(t *testing.T) {
	for name, c := range map[string]struct {
		inputs   []string
		rephrase bool
	}{
		"one word each": {[]string{"chalk", "debug", "express", "glob", "helmet", "jose", "koa", "lodash", "mocha", "nock"}, false},
		"two words each": {[]string{
			"Ada Berg", "Nils Aas", "Ola Moe", "Kari Lund", "Per Vik", "Eva Dahl", "Jon Bakke", "Siri Haug", "Tor Holm", "Liv Strand",
		}, false},
		"one name within the same words": {[]string{
			"CVE of chalk in 2026", "CVE of debug in 2026", "CVE of glob in 2026", "CVE of got in 2026", "CVE of helmet in 2026",
			"CVE of ini in 2026", "CVE of joi in 2026", "CVE of jose in 2026", "CVE of kleur in 2026",
		}, false},
		"numbers of many digits": {[]string{
			"order 10032", "order 10441", "order 10771", "order 10800", "order 10912", "order 11003", "order 11118", "order 11230", "order 11400",
		}, false},
		"spellings of one name": {[]string{
			"fooBar", "foo_bar", "FooBar", "foo-bar", "foobar", "FOO_BAR", "Foo_Bar", "_fooBar",
		}, true},
		"other words around a word": {[]string{
			"lag alert", "alert for slot lag", "slot lag threshold", "replication lag limit", "max lag slots", "lag", "postgres lag warning",
			"alert when lag grows",
		}, true},
		"words in another order":   {[]string{"one two three", "two three one", "three one two", "one three two", "two one three", "three two one", "one two three", "two one three"}, true},
		"words that are too short": {[]string{"a", "b", "c", "d", "e", "f", "g", "h"}, true},
		"words added and left out": {[]string{"retry policy", "retry", "retry policy http", "retry policy", "policy", "policy retry", "retry", "http retry"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDetector(t, loop.Config{})
			turn := 0
			for n, input := range c.inputs {
				v := d.Step(loop.Step{Tool: "search", Class: loop.Look, Input: fmt.Appendf(nil, `{"q":%q,"in":"all"}`, input), Outcome: []byte("[]")})
				if v.Advice == loop.Ask && turn == 0 {
					require.Equal(t, loop.Futile, v.Rule)
					turn = n + 1
				}
				d = restart(t, d, loop.Config{})
			}
			require.Equal(t, map[bool]int{true: 8}[c.rephrase], turn)
		})
	}
	t.Run("a hundred names that are not on a list are never asked", func(t *testing.T) {
		d := newDetector(t, loop.Config{})
		for n := range 100 {
			name := strings.Repeat(string(rune('a'+n%26)), 3+n/26)
			v := d.Step(loop.Step{Tool: "lookup", Class: loop.Look, Input: fmt.Appendf(nil, `{"name":%q}`, name), Outcome: []byte("null")})
			require.Empty(t, v.Rule, n)
		}
	})
}

// TestSameAnswer protects runs in which other inputs get one and the same answer.
func TestSameAnswer(t *testing.T) {
	text := strings.Repeat("12 def index(): return render()\n", 9)
	words := []string{"alpha beta", "beta alpha", "alpha gamma", "gamma beta", "alpha delta", "delta beta", "alpha", "gamma alpha"}
	for _, c := range []struct {
		name, tool, field, outcome string
		futile                     bool
	}{
		{"searches in other words with the same hits", "search", "q", text, true},
		{"searches in other words with the same number", "search", "q", "3", false},
		{"reads at other places with the same text", "read_file", "offset", text, true},
		{"reads at other places with a short text", "read_file", "offset", "}", false},
		{"reads of other files with the same text", "read_file", "path", text, false},
		{"a call that fails in the same way", "task", "prompt", "Error: the token lacks the scope repo", true},
		{"a call that works in the same way", "task", "prompt", "done", false},
		{"a tool that there is not", "list_it", "", "Invalid tool: list_it.", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDetector(t, loop.Config{})
			for n, word := range words {
				input := fmt.Appendf(nil, `{%q:%q}`, c.field, word)
				if c.field == "offset" || c.field == "" {
					input = fmt.Appendf(nil, `{"path":"a","n":"alpha","offset":%d}`, 100*n)
				}
				v := d.Step(loop.Step{Tool: c.tool, Input: input, Outcome: []byte(c.outcome)})
				require.Equal(t, c.futile && n == 7, v.Rule == loop.Futile, n)
			}
		})
	}
	t.Run("another text in between is progress", func(t *testing.T) {
		d := newDetector(t, loop.Config{})
		for n := range 14 {
			v := d.Step(look(fmt.Sprintf(`{"path":"a","offset":%d}`, n), text+strings.Repeat("x", n/7)))
			require.Empty(t, v.Rule)
		}
	})
}

// bash is a command of no declared class, as a host has it.
func bash(command, outcome string) loop.Step {
	return loop.Step{Tool: "bash", Input: fmt.Appendf(nil, `{"command":%q}`, command), Outcome: []byte(outcome)}
}

// history is the steps, each a turn, again and again.
func history(rounds int, steps ...loop.Step) (all [][]loop.Step) {
	for _, s := range slices.Repeat(steps, rounds) {
		all = append(all, []loop.Step{s})
	}
	return all
}

// tracesIn returns the turns of the traces of a set of testdata.
func tracesIn(t *testing.T, set string) map[string][][]loop.Step {
	t.Helper()
	all := map[string][][]loop.Step{}
	for _, read := range traces(t, set) {
		for _, turn := range read.turns {
			all[read.Name] = append(all[read.Name], turn.steps(true))
		}
	}
	return all
}

// first returns the first turn after which Check says something else than Go, as a hook finds it.
func first(t *testing.T, turns [][]loop.Step, cfg loop.Config) (turn int, v loop.Verdict) {
	t.Helper()
	for turn = range turns {
		v, err := loop.Check(turns[:turn+1], cfg)
		require.NoError(t, err)
		if v.Advice != loop.Go {
			return turn + 1, v
		}
	}
	return 0, loop.Verdict{Advice: loop.Go}
}

func TestCheck(t *testing.T) {
	t.Run("it says what a detector says that is told at each ask, of every history here", func(t *testing.T) {
		for _, set := range []string{"loops", "productive", "heldout-loops", "heldout-work"} {
			for name, turns := range tracesIn(t, set) {
				var d loop.Detector
				var want loop.Verdict
				for _, turn := range turns {
					if want = d.Step(turn...); want.Advice == loop.Ask {
						d.Delivered()
					}
				}
				got, err := loop.Check(turns, loop.Config{})
				require.NoError(t, err)
				require.Equal(t, want, got, name)
			}
		}
	})
	t.Run("nothing is no loop", func(t *testing.T) {
		for _, turns := range [][][]loop.Step{nil, {}, {nil, {}}} {
			v, err := loop.Check(turns, loop.Config{})
			require.NoError(t, err)
			require.Equal(t, loop.Verdict{Advice: loop.Go}, v)
		}
	})
	t.Run("a config that is wrong is an error, and stops nothing", func(t *testing.T) {
		v, err := loop.Check(history(9, look("ls", "a")), loop.Config{Mode: "maybe"})
		require.ErrorIs(t, err, loop.ErrInvalid)
		require.Equal(t, loop.Go, v.Advice)
	})
}

// TestWaits checks what is done about waits and polls for a host that wants them ended.
func TestWaits(t *testing.T) {
	nap, status := bash("sleep 1", ""), bash("gh run view 7", "in_progress")
	status.Gap = 10 * time.Second
	work := func(n int) (all [][]loop.Step) {
		for i := range n {
			all = append(all, []loop.Step{nap}, []loop.Step{look("cat", fmt.Sprint("line ", i))})
		}
		return all
	}
	for _, c := range []struct {
		name   string
		turns  [][]loop.Step
		cfg    loop.Config
		turn   int
		advice loop.Advice
	}{
		{"ten sleeps are never ended", history(100, nap), loop.Config{}, 0, loop.Go},
		{"nor with Go", history(100, nap), loop.Config{Waits: loop.Go}, 0, loop.Go},
		{"with End they are, at the tenth", history(100, nap), loop.Config{Waits: loop.End}, 10, loop.End},
		{"with Ask they are asked about, at the twentieth", history(100, nap), loop.Config{Waits: loop.Ask}, 20, loop.Ask},
		{"polls are asked about", history(30, status), loop.Config{}, 21, loop.Ask},
		{"with End they are ended", history(30, status), loop.Config{Waits: loop.End}, 11, loop.End},
		{"and so is who sleeps and polls in turn", history(30, nap, status), loop.Config{Waits: loop.End}, 21, loop.End},
		{"two sleeps in turn are ended when one came ten times", history(30, nap, bash("sleep 2", "")),
			loop.Config{Waits: loop.End}, 19, loop.End},
		{"sleeps between other work are not", work(100), loop.Config{Waits: loop.End}, 0, loop.Go},
		{"nor is a wait that gets something else",
			history(30, bash("sleep 9; gh run view", "1 of 9"), bash("sleep 9; gh run view", "2 of 9")),
			loop.Config{Waits: loop.End}, 0, loop.Go},
		{"nor what moves something along", history(50, loop.Step{Tool: "x", Class: loop.Drive}),
			loop.Config{Waits: loop.End}, 0, loop.Go},
		{"nor a retry", history(50, loop.Step{Tool: "x", Class: loop.Wait, Retry: true}),
			loop.Config{Waits: loop.End}, 0, loop.Go},
		{"a declared wait is one", history(50, sleep(time.Minute)), loop.Config{Waits: loop.End}, 10, loop.End},
	} {
		t.Run(c.name, func(t *testing.T) {
			turn, v := first(t, c.turns, c.cfg)
			require.Equal(t, c.turn, turn)
			require.Equal(t, c.advice, v.Advice)
			if turn > 0 {
				require.Equal(t, loop.Poll, v.Rule)
				require.NotEmpty(t, v.Pattern)
				require.False(t, v.New)
			}
		})
	}
	t.Run("waits that count change no verdict about anything else", func(t *testing.T) {
		for name, turns := range tracesIn(t, "loops") {
			waits := loop.Config{Waits: loop.Ask}
			require.Equal(t, withoutPolls(t, turns, loop.Config{}), withoutPolls(t, turns, waits), name)
		}
	})
	t.Run("what it ends of the work in testdata is what the documentation says", func(t *testing.T) {
		all, ended := 0, 0
		for _, set := range []string{"productive", "heldout-work"} {
			for _, turns := range tracesIn(t, set) {
				all++
				d := newDetector(t, loop.Config{Waits: loop.End})
				for _, turn := range turns {
					if v := d.Step(turn...); v.Advice == loop.End && v.Rule == loop.Poll {
						ended++
						break
					}
				}
			}
		}
		require.Equal(t, []int{424, 26}, []int{all, ended})
	})
}

// withoutPolls returns the last verdict about a run that is told at each ask, without the rule of polls.
func withoutPolls(t *testing.T, turns [][]loop.Step, cfg loop.Config) (last loop.Verdict) {
	t.Helper()
	d := newDetector(t, cfg)
	for _, turn := range turns {
		if last = d.Step(turn...); last.Advice == loop.Ask {
			d.Delivered()
		}
	}
	return last
}

// TestStates protects runs without classes that poll a service: its state is known by the key, in any language.
func TestStates(t *testing.T) {
	for outcome, polls := range map[string]bool{
		`{"done":false}`: true,
		`{"id":7,"ready":false,"logs":"see there"}`:       true,
		`{"job":{"status":"wird ausgerollt"}}`:            true,
		`{"state":"処理中"}`:                                 true,
		`{"phase":"en attente"}`:                          true,
		`{"status":"incomplete"}`:                         true,
		`{"status":"Stage 2","percent":40}`:               true,
		`{"done":true}`:                                   false,
		`{"status":"COMPLETED"}`:                          false,
		`{"state":"up","port":80}`:                        false,
		`{"status":""}`:                                   false,
		`{"issues":[{"status":"in review","title":"a"}]}`: false,
	} {
		t.Run(outcome, func(t *testing.T) {
			job := loop.Step{Tool: "job_info", Input: []byte(`{"id":7}`), Outcome: []byte(outcome), Gap: 2 * time.Second}
			turn, rule := asked(t, newDetector(t, loop.Config{}), 30, job)
			require.Equal(t, polls, rule != loop.Tail, "turn %d: %s", turn, rule)
		})
	}
}

// TestTwoMovingParts protects a list that has an end and of which each entry differs from the one before in more than
// one word, as its tool finds nothing for any: without classes it is asked about at most.
func TestTwoMovingParts(t *testing.T) {
	titles := []string{"red river", "river stone", "stone garden", "garden of red", "the red wall", "wall and river"}
	for name, of := range map[string]func(n int) (tool, input, outcome string){
		"windows": func(n int) (string, string, string) {
			return "query_logs", fmt.Sprintf(`{"from":%d,"to":%d}`, 1000*n, 1000*n+1000), "no results"
		},
		"pairs of dates": func(n int) (string, string, string) {
			return "search", fmt.Sprintf(`{"q":"due 2026-%02d-01..2026-%02d-01"}`, n%12+1, (n+1)%12+1), "[]"
		},
		"addresses": func(n int) (string, string, string) {
			return "find_user", fmt.Sprintf(`{"mail":"u%d@example.com","name":"user%d"}`, n, n), "not found"
		},
		"addresses that are invited": func(n int) (string, string, string) {
			return "send_invite", fmt.Sprintf(`{"mail":"u%d@example.com"}`, n), "Error: the user is a member already"
		},
		"titles": func(n int) (string, string, string) {
			return "lookup", fmt.Sprintf(`{"title":"%s %s %d"}`, titles[n%6], titles[(n+n/6)%6], 1990+n), "no match"
		},
	} {
		t.Run(name, func(t *testing.T) {
			steps := times(60, func(n int) loop.Step {
				tool, input, outcome := of(n)
				return loop.Step{Tool: tool, Input: []byte(input), Outcome: []byte(outcome), Gap: 3 * time.Second}
			})
			_, ended := told(newDetector(t, loop.Config{}), steps...)
			require.Zero(t, ended)
		})
	}
	t.Run("one whose tool has a class is ended", func(t *testing.T) {
		steps := times(60, func(n int) loop.Step {
			return loop.Step{Tool: "send_invite", Class: loop.Change, Input: []byte(fmt.Sprint("u", n)), Outcome: []byte("Error: no such tenant")}
		})
		_, ended := told(newDetector(t, loop.Config{}), steps...)
		require.NotZero(t, ended)
	})
}
