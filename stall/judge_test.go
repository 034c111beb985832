package stall_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

const (
	second = time.Second
	limit  = 10 * second
)

var silent = stall.Config{NoOutput: limit}

func TestJudgeSilence(t *testing.T) {
	t.Run("of exactly the limit is not exceeded, and a nanosecond later is", func(t *testing.T) {
		j := stall.NewJudge(silent)
		f, wait := j.Silence(limit, 0, false)
		require.Nil(t, f)
		require.Equal(t, time.Nanosecond, wait)
		f, _ = j.Silence(limit+1, 0, false)
		require.NotNil(t, f)
		require.Equal(t, stall.KindNoOutput, f.Kind)
		require.Equal(t, watchdog.CommandNoOutput, f.Code)
		require.Equal(t, limit+1, f.Used)
		require.Equal(t, limit, f.Allowed)
	})
	t.Run("from the start has a fingerprint of its own", func(t *testing.T) {
		never, _ := stall.NewJudge(silent).Silence(limit+1, 0, false)
		require.Equal(t, []string{"stall/no_output:never"}, never.Fingerprints)
		require.Equal(t, "no output at all for 10.0 s of 10 s", never.Reason)
		some, _ := stall.NewJudge(silent).Silence(limit+2, 1, false)
		require.Equal(t, []string{"stall/no_output"}, some.Fingerprints)
		require.Equal(t, "no output for 10.0 s of 10 s", some.Reason)
	})
	t.Run("without a limit never trips", func(t *testing.T) {
		f, _ := stall.NewJudge(stall.Config{}).Silence(1e6*time.Hour, 0, false)
		require.Nil(t, f)
	})
}

// TestJudgeOnce checks that an ignored trip is reported once for each kind.
func TestJudgeOnce(t *testing.T) {
	cfg := silent
	cfg.Probe = &stall.Probe{StallThreshold: 2}
	cfg.Terminal = []*regexp.Regexp{regexp.MustCompile("a"), regexp.MustCompile("b")}
	j := stall.NewJudge(cfg)
	count := map[stall.TripKind]int{}
	note := func(f *stall.Found) {
		if f != nil {
			count[f.Kind]++
		}
	}
	for i := range 100 {
		f, wait := j.Silence(time.Duration(i)*limit, 0, false)
		require.LessOrEqual(t, time.Duration(0), wait)
		note(f)
		note(j.Probed(stall.Look{Digest: "same"}, 0))
		note(j.Pattern(i % 2))
	}
	require.Equal(t, map[stall.TripKind]int{stall.KindNoOutput: 1, stall.KindNoProgress: 1, stall.KindTerminal: 1}, count)

	note(j.Probed(stall.Look{Digest: "other"}, 0))
	note(j.Probed(stall.Look{Digest: "other"}, 0))
	note(j.Probed(stall.Look{Digest: "other", Class: "terminal"}, 0))
	require.Equal(t, 2, count[stall.KindNoProgress], "one after progress is another")
	require.Equal(t, 1, count[stall.KindTerminal])
}

func TestJudgeProbes(t *testing.T) {
	const digest, timedOut = "0123456789abcdef", "the probe did not end within its timeout"
	same, blind := stall.Look{Digest: digest}, stall.Look{Blind: "timeout"}
	terminal := stall.Look{Class: "terminal", Digest: digest}
	missing := stall.Look{Digest: digest, Fingerprints: []string{"k8s/crd/missing:x"}}
	var names []string
	for n := range 32 {
		names = append(names, fmt.Sprintf("a/%02d", n))
	}
	many := stall.Look{Digest: digest, Fingerprints: names}
	looks := func(all ...stall.Look) []stall.Look { return all }
	for _, c := range []struct {
		name   string
		probe  stall.Probe
		looks  []stall.Look
		kind   stall.TripKind // of the last look; the others find nothing
		reason string
		prints string
	}{
		{
			"three equal ones are no progress", stall.Probe{}, looks(same, same, same),
			stall.KindNoProgress, "3 probes in a row saw the same", "ci/stall/no_progress:0123456789ab ci/stall/no-progress",
		},
		{
			"a terminal one trips at once", stall.Probe{}, looks(terminal),
			stall.KindTerminal, "the probe says that the state is terminal", "ci/stall/terminal:probe",
		},
		{"blind ones mean nothing by default", stall.Probe{}, looks(blind, blind, blind, blind, blind), "", "", ""},
		{
			"blind ones can mean a stall", stall.Probe{OnError: stall.ErrorStall}, looks(blind, blind, blind),
			stall.KindNoProgress, "3 probes in a row saw nothing: " + timedOut,
			"ci/stall/probe_blind:timeout ci/stall/no-progress",
		},
		{
			"blind ones can mean a terminal state", stall.Probe{OnError: stall.ErrorTerminal, ErrorThreshold: 1}, looks(blind),
			stall.KindTerminal, "the probe saw nothing: " + timedOut, "ci/stall/probe_blind:timeout",
		},
		{
			"the fingerprints of a probe have no prefix", stall.Probe{},
			looks(stall.Look{Class: "terminal", Fingerprints: []string{"k8s/crd/missing:x"}}),
			stall.KindTerminal, "the probe says that the state is terminal", "k8s/crd/missing:x",
		},
		{
			"no progress has one for all states beside those of a probe", stall.Probe{}, looks(missing, missing, missing),
			stall.KindNoProgress, "3 probes in a row saw the same", "k8s/crd/missing:x ci/stall/no-progress",
		},
		{
			"also if the probe has as many as it may", stall.Probe{}, looks(many, many, many),
			stall.KindNoProgress, "3 probes in a row saw the same", strings.Join(names[:31], " ") + " ci/stall/no-progress",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := stall.NewJudge(stall.Config{Probe: &c.probe, FingerprintPrefix: "ci"})
			var f *stall.Found
			for i, look := range c.looks {
				require.Nil(t, f, "before look %d", i)
				f = j.Probed(look, second)
			}
			if c.kind == "" {
				require.Nil(t, f)
				return
			}
			require.NotNil(t, f)
			require.Equal(t, []string{string(c.kind), c.reason}, []string{string(f.Kind), f.Reason})
			require.Equal(t, c.prints, strings.Join(f.Fingerprints, " "))
			require.Equal(t, second, f.Used)
			require.Empty(t, f.Reasons, "the probe's texts for people are not published")
			require.Empty(t, f.Summary)
		})
	}
	t.Run("the texts of a probe for people are published on request", func(t *testing.T) {
		f := stall.NewJudge(stall.Config{Probe: &stall.Probe{Publish: true}}).Probed(stall.Look{Class: "terminal"}, 0)
		require.Equal(t, []string{"reason"}, f.Reasons)
		require.Equal(t, "summary", f.Summary)
	})
}

func TestJudgePattern(t *testing.T) {
	f := stall.NewJudge(stall.Config{FingerprintPrefix: "ci/nightly"}).Pattern(2)
	require.Equal(t, []string{"ci/nightly/stall/terminal:pattern-3"}, f.Fingerprints)
	require.Equal(t, watchdog.CommandTerminal, f.Code)
	require.Equal(t, "the output has a line of terminal pattern 3", f.Reason)
}

// TestJudgeLate protects that a pause of the guard is not the command's silence.
func TestJudgeLate(t *testing.T) {
	t.Parallel()
	judge := stall.NewJudge(stall.Config{NoOutput: 4 * time.Second})
	found, wait := judge.Late(4*time.Second, 9*time.Second, time.Second)
	require.Nil(t, found)
	require.Equal(t, time.Second, wait)
	found, _ = judge.Silence(10*time.Second, time.Second, false)
	require.Equal(t, 9*time.Second, found.Used)

	judge = stall.NewJudge(stall.Config{NoOutput: 4 * time.Second})
	judge.Late(4*time.Second, 9*time.Second, time.Second)
	found, wait = judge.Silence(10*time.Second, 9500*time.Millisecond, false)
	require.Nil(t, found)
	require.Equal(t, 3500*time.Millisecond+1, wait)
}

// TestJudgeResumed protects that a process that is stopped again and again does not keep a hung command alive.
func TestJudgeResumed(t *testing.T) {
	t.Parallel()
	judge := stall.NewJudge(stall.Config{NoOutput: 4 * time.Second})
	last := time.Second
	judge.Silence(last, last, false)
	for range 2 { // output lets it begin anew
		for n := range 5 {
			require.Equal(t, n < 3, judge.Resumed(last+time.Duration(n+1)*time.Second))
		}
		found, wait := judge.Silence(last+7*time.Second, last, false)
		require.Nil(t, found)
		require.Equal(t, time.Duration(1), wait, "its silence began with the third")
		found, _ = judge.Silence(last+7*time.Second+1, last, false)
		require.NotNil(t, found)
		last += 10 * time.Second
		judge.Silence(last, last, false)
	}
}

// TestJudgeSilenceModel compares the judge with a model that keeps one time.
func TestJudgeSilenceModel(t *testing.T) {
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 1))
		j := stall.NewJudge(silent)
		var now, last, since time.Duration
		var reported time.Duration = -1 // the start of the last silence that was
		was := false
		for range 60 {
			before := now
			now += time.Duration(random.Int64N(int64(limit))) + 1
			if random.IntN(3) == 0 {
				last = before + time.Duration(random.Int64N(int64(now-before))) + 1
			}
			blocked := random.IntN(4) == 0
			since = max(since, last)
			if was && !blocked {
				since = now
			}
			was = blocked
			want := !blocked && reported != since && now-since > limit
			f, _ := j.Silence(now, last, blocked)
			require.Equal(t, want, f != nil, "seed %d at %v", seed, now)
			if want {
				reported = since
			}
		}
	}
}

// maxLine is how many bytes of a line are matched.
const maxLine = 64 << 10

func TestPatterns(t *testing.T) {
	long := strings.Repeat("x", maxLine)
	tests := []struct {
		name    string
		pattern string
		pieces  []string
		found   bool
	}{
		{"a line after a long line and a carriage return", `^fatal$`, []string{long + long + "\r", "fatal\r"}, true},
		{"binary output", `fatal`, []string{"\xff\xfe\x00\n\x80fatal\xc3\n"}, true},
		{"a match within the first 64 KiB", `fatal$`, []string{long[:maxLine-5] + "fatal" + "more\n"}, true},
		{"a match that ends after 64 KiB", `fatal`, []string{long[:maxLine-4] + "fatal\n"}, false},
		{
			"a match within the first 64 KiB, in pieces", `fatal$`,
			[]string{long[:100], long[:maxLine-105], "fat", "almore\n"}, true,
		},
		{
			"a match that ends after 64 KiB, in pieces", `fatal`,
			[]string{long[:100], long[:maxLine-104], "fat", "al\n"}, false,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var found []int
			s := stall.NewMatcher(compile(test.pattern), func(p int) { found = append(found, p) })
			for _, piece := range test.pieces {
				stall.Match(s, []byte(piece))
			}
			stall.EndMatch(s)
			require.Equal(t, test.found, len(found) == 1, "found: %v", found)
		})
	}
	t.Run("each pattern is found once, under its index", func(t *testing.T) {
		var found []int
		s := stall.NewMatcher(compile("one", "never", "two", "one|two"), func(p int) { found = append(found, p) })
		stall.Match(s, []byte("two\ntwo\none\ntwo one\n"))
		require.Equal(t, []int{2, 3, 0}, found)
	})
	t.Run("a long line is matched before it ends", func(t *testing.T) {
		found := 0
		s := stall.NewMatcher(compile("^fatal"), func(int) { found++ })
		stall.Match(s, []byte("fatal"+long[:maxLine-6]))
		require.Zero(t, found)
		stall.Match(s, []byte("x"))
		require.Equal(t, 1, found)
	})
	t.Run("the start of a line is matched when nothing more comes, and the whole line later", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			found := make(chan int, 9)
			s := stall.NewMatcher(compile(`^Password: $`, `^Password: none$`, `^$`), func(p int) { found <- p })
			stall.Match(s, []byte("a\nPassw"))
			stall.Match(s, []byte("ord: "))
			time.Sleep(499 * time.Millisecond)
			require.Empty(t, found)
			time.Sleep(2 * time.Millisecond)
			require.Zero(t, <-found)
			stall.Match(s, []byte("none\n"))
			require.Equal(t, 1, <-found)
			time.Sleep(time.Second)
			require.Empty(t, found, "nothing is not a line")
		})
	})
	t.Run("a piece is not kept", func(t *testing.T) {
		found := 0
		s := stall.NewMatcher(compile("^fatal$"), func(int) { found++ })
		piece := []byte("fat")
		stall.Match(s, piece)
		copy(piece, "xxx")
		stall.Match(s, []byte("al\n"))
		require.Equal(t, 1, found)
	})
}

// compile compiles the patterns.
func compile(texts ...string) (patterns []*regexp.Regexp) {
	for _, text := range texts {
		patterns = append(patterns, regexp.MustCompile(text))
	}
	return patterns
}

// TestPatternsModel compares a matcher with a model that splits the whole output, cuts each line and matches it.
func TestPatternsModel(t *testing.T) { synctest.Test(t, testPatternsModel) }

func testPatternsModel(t *testing.T) {
	patterns := compile(`^ab?a$`, `bb\x00`, `^$`, `a\r$`, `\r`, `a\s+b`, `^a{70}`, `b$`)
	for seed := range uint64(1000) {
		random := rand.New(rand.NewPCG(seed, 1))
		output := make([]byte, random.IntN(200))
		for i := range output {
			output[i] = "aaab\x00\r\n"[random.IntN(7)]
		}
		if seed%50 == 0 {
			long := bytes.Repeat([]byte{'a'}, maxLine-random.IntN(100))
			output = slices.Insert(output, random.IntN(len(output)+1), long...)
		}
		found := []int{}
		s := stall.NewMatcher(patterns, func(p int) { found = append(found, p) })
		for rest := output; len(rest) > 0; {
			n := 1 + random.IntN(min(len(rest), 1+random.IntN(1<<random.IntN(18))))
			stall.Match(s, rest[:n])
			rest = rest[n:]
		}
		stall.EndMatch(s)
		slices.Sort(found)
		require.Equal(t, matching(patterns, output), found, "seed %d: %.200q", seed, output)
	}
}

func matching(patterns []*regexp.Regexp, output []byte) []int {
	output = bytes.ReplaceAll(bytes.ReplaceAll(output, []byte("\r\n"), []byte{'\n'}), []byte{'\r'}, []byte{'\n'})
	split := bytes.Split(output, []byte{'\n'})
	if len(split[len(split)-1]) == 0 {
		split = split[:len(split)-1]
	}
	found := []int{}
	for i, p := range patterns {
		if slices.ContainsFunc(split, func(line []byte) bool { return p.Match(line[:min(len(line), maxLine)]) }) {
			found = append(found, i)
		}
	}
	return found
}

func TestPatternsMemory(t *testing.T) {
	t.Run("a line of 1 GB costs no more than one of 64 KiB", func(t *testing.T) {
		s := stall.NewMatcher(compile("fatal"), func(int) { t.Error("found") })
		piece := bytes.Repeat([]byte{'x'}, 100_000)
		before := allocated()
		for range 10_000 {
			stall.Match(s, piece)
		}
		stall.EndMatch(s)
		require.Less(t, allocated()-before, uint64(256<<10))
	})
	t.Run("nor do many lines in pieces", func(t *testing.T) {
		s := stall.NewMatcher(compile("fatal"), func(int) { t.Error("found") })
		piece := []byte(strings.Repeat("x", 40_000) + "\n" + strings.Repeat("y", 40_000))
		before := allocated()
		for range 1000 {
			stall.Match(s, piece)
		}
		require.Less(t, allocated()-before, uint64(8<<20), "of 80 MB; some of it is the regexp's own")
	})
}

// allocated returns how much was ever allocated, which bounds how much is held.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

func BenchmarkPatterns(b *testing.B) {
	piece := []byte(strings.Repeat("a line of output as programs write it, with a number 12345\n", 4000))
	s := stall.NewMatcher(compile(`^fatal: .*denied`), func(int) {})
	b.SetBytes(int64(len(piece)))
	for b.Loop() {
		stall.Match(s, piece)
	}
}

// tailOf returns what a tail must keep of a whole text.
func tailOf(text []byte, n int) []byte {
	if len(text) <= n {
		return text
	}
	before, kept := text[len(text)-n-1], text[len(text)-n:]
	if _, rest, found := bytes.Cut(kept, []byte("\n")); found && before != '\n' && len(rest) > 0 {
		return rest
	}
	return kept
}

// TestTailModel compares a tail with the naive rule, however the text is cut into writes.
func TestTailModel(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		n, all := 1+random.IntN(20), []byte{}
		b := stall.NewTail(n)
		for range random.IntN(12) {
			text := make([]byte, random.IntN(30))
			for i := range text {
				text[i] = "a\r\xff\n"[random.IntN(4)]
			}
			stall.KeepTail(b, text)
			all = append(all, text...)
			clear(text) // the caller may use it again
			require.Equal(t, string(tailOf(all, n)), string(stall.TailBytes(b)), "the last %d of %q", n, all)
		}
	}
}

// TestTailAllocs checks that a tail allocates nothing for what it looks at, however much that is.
func TestTailAllocs(t *testing.T) {
	b, text := stall.NewTail(1<<20), bytes.Repeat([]byte("x"), 1000)
	before := allocated()
	require.Zero(t, testing.AllocsPerRun(5000, func() { stall.KeepTail(b, text) }))
	require.Less(t, allocated()-before, uint64(256<<10), "of 5 MB")
}

// TestOutputPipe checks what a pipe holds for a host that does not read.
func TestOutputPipe(t *testing.T) {
	t.Parallel()
	const held, last = 64 << 10, 2 << 20
	t.Run("after the end of the command 2 MiB in all, and the writer is told that the rest is dropped", func(t *testing.T) {
		t.Parallel()
		p := stall.NewOutputPipe()
		n, err := stall.WriteToPipe(p, make([]byte, held))
		require.NoError(t, err)
		require.Equal(t, held, n)
		stall.EndPipe(p)
		n, err = stall.WriteToPipe(p, make([]byte, last))
		require.ErrorIs(t, err, io.ErrShortWrite)
		require.Equal(t, last-held, n)
		stall.FinishPipe(p)
		_, err = stall.WriteToPipe(p, []byte("x"))
		require.ErrorIs(t, err, io.ErrClosedPipe)
		text, err := io.ReadAll(p)
		require.NoError(t, err)
		require.Len(t, text, last)
	})
	for name, end := range map[string]func(*stall.OutputPipe){
		"the command": stall.EndPipe, "the output": stall.FinishPipe,
		"the host's use": func(p *stall.OutputPipe) { _ = p.Close() },
	} {
		t.Run("a write that waits ends with "+name, func(t *testing.T) {
			untilEnd(t, end, func(p *stall.OutputPipe) {
				_, _ = stall.WriteToPipe(p, make([]byte, held))
				_, _ = stall.WriteToPipe(p, []byte("x"))
			})
		})
		if name != "the command" { // of which more output can be on its way
			t.Run("a read that waits ends with "+name, func(t *testing.T) {
				untilEnd(t, end, func(p *stall.OutputPipe) { _, _ = p.Read(make([]byte, 1)) })
			})
		}
	}
}

// untilEnd checks that a call waits, and returns after the end.
func untilEnd(t *testing.T, end, call func(*stall.OutputPipe)) {
	synctest.Test(t, func(t *testing.T) {
		p := stall.NewOutputPipe()
		returned := make(chan struct{})
		go func() {
			defer close(returned)
			call(p)
		}()
		synctest.Wait()
		select {
		case <-returned:
			require.Fail(t, "it did not wait")
		default:
		}
		end(p)
		<-returned
	})
}

// TestLookIntervals checks that a silence is found an eighth too late at most.
func TestLookIntervals(t *testing.T) {
	for _, c := range []struct{ noOutput, around, output, files time.Duration }{
		{0, 0, time.Second, 10 * time.Second},
		{0, 4 * time.Second, 100 * time.Millisecond, 500 * time.Millisecond},
		{time.Hour, 0, time.Second, 10 * time.Second},
		{4 * time.Second, 0, 500 * time.Millisecond, 500 * time.Millisecond},
		{4 * time.Second, time.Second, 100 * time.Millisecond, 125 * time.Millisecond},
		{time.Millisecond, 0, 10 * time.Millisecond, 10 * time.Millisecond},
	} {
		output, files := stall.LookIntervals(c.noOutput, c.around)
		require.Equal(t, [2]time.Duration{c.output, c.files}, [2]time.Duration{output, files}, "%+v", c)
	}
}
