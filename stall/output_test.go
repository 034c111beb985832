package stall_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/stall"
)

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
		{"a line in three pieces", `^fatal: b$`, []string{"a\nfa", "tal", ": b\nc\n"}, true},
		{"a pattern that needs two lines", `a\s+b`, []string{"a\nb\n"}, false},
		{"a line after a carriage return", `^fatal$`, []string{"10%\r20%\rfatal\n"}, true},
		{"a carriage return and a newline end one line", `^$`, []string{"a\r\nb\r", "\nc\r\n"}, false},
		{"a carriage return is not part of a line", `\r`, []string{"a\rb\r\n"}, false},
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
				s.Look([]byte(piece))
			}
			s.End()
			assert.Equal(t, test.found, len(found) == 1, "found: %v", found)
		})
	}
	t.Run("each pattern is found once, under its index", func(t *testing.T) {
		var found []int
		s := stall.NewMatcher(compile("one", "never", "two", "one|two"), func(p int) { found = append(found, p) })
		s.Look([]byte("two\ntwo\none\ntwo one\n"))
		assert.Equal(t, []int{2, 3, 0}, found)
	})
	t.Run("a long line is matched before it ends", func(t *testing.T) {
		found := 0
		s := stall.NewMatcher(compile("^fatal"), func(int) { found++ })
		s.Look([]byte("fatal" + long[:maxLine-6]))
		require.Zero(t, found)
		s.Look([]byte("x"))
		assert.Equal(t, 1, found)
	})
	t.Run("the start of a line is matched when nothing more comes, and the whole line later", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			found := make(chan int, 9)
			s := stall.NewMatcher(compile(`^Password: $`, `^Password: none$`, `^$`), func(p int) { found <- p })
			s.Look([]byte("a\nPassw"))
			s.Look([]byte("ord: "))
			time.Sleep(499 * time.Millisecond)
			require.Empty(t, found)
			time.Sleep(2 * time.Millisecond)
			require.Zero(t, <-found)
			s.Look([]byte("none\n"))
			require.Equal(t, 1, <-found)
			time.Sleep(time.Second)
			require.Empty(t, found, "nothing is not a line")
		})
	})
	t.Run("a piece is not kept", func(t *testing.T) {
		found := 0
		s := stall.NewMatcher(compile("^fatal$"), func(int) { found++ })
		piece := []byte("fat")
		s.Look(piece)
		copy(piece, "xxx")
		s.Look([]byte("al\n"))
		assert.Equal(t, 1, found)
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
	patterns := compile(`^ab?a$`, `bb\x00`, `^$`, `a\r$`, `^a{70}`, `b$`)
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
			s.Look(rest[:n])
			rest = rest[n:]
		}
		s.End()
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
			s.Look(piece)
		}
		s.End()
		assert.Less(t, allocated()-before, uint64(256<<10))
	})
	t.Run("nor do many lines in pieces", func(t *testing.T) {
		s := stall.NewMatcher(compile("fatal"), func(int) { t.Error("found") })
		piece := []byte(strings.Repeat("x", 40_000) + "\n" + strings.Repeat("y", 40_000))
		before := allocated()
		for range 1000 {
			s.Look(piece)
		}
		assert.Less(t, allocated()-before, uint64(8<<20), "of 80 MB; some of it is the regexp's own")
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
		s.Look(piece)
	}
}

// TestTailKeeps checks which bytes are kept.
func TestTailKeeps(t *testing.T) {
	for name, c := range map[string]struct {
		n       int
		written []string
		want    string
	}{
		"less than fits":                               {8, []string{"a\n", "b"}, "a\nb"},
		"as much as fits":                              {4, []string{"a\nb\n"}, "a\nb\n"},
		"a line that lost its start is left out":       {8, []string{"first\nlast\n"}, "last\n"},
		"a line that was not cut stays":                {5, []string{"first\nlast\n"}, "last\n"},
		"a giant line stays as it is":                  {4, []string{"abcdefgh"}, "efgh"},
		"a giant line is dropped for a short one":      {4, []string{"abcdef\nh"}, "h"},
		"carriage returns are part of their line":      {7, []string{"one\r\ntwo\r\n"}, "two\r\n"},
		"bytes that are not text are kept as they are": {3, []string{"\xff\x00\xfe"}, "\xff\x00\xfe"},
	} {
		t.Run(name, func(t *testing.T) {
			b := stall.NewTail(c.n)
			for _, text := range c.written {
				b.Look([]byte(text))
			}
			require.Equal(t, c.want, string(b.Bytes()))
		})
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
				text[i] = "abc\n"[random.IntN(4)]
			}
			b.Look(text)
			all = append(all, text...)
			clear(text) // the caller may use it again
			require.Equal(t, string(tailOf(all, n)), string(b.Bytes()), "the last %d of %q", n, all)
		}
	}
}

func TestTailAllocs(t *testing.T) {
	b, text := stall.NewTail(1<<20), bytes.Repeat([]byte("x"), 1000)
	require.Zero(t, testing.AllocsPerRun(5000, func() { b.Look(text) }))
}

// TestOutputPipe checks what a pipe holds for a host that does not read.
func TestOutputPipe(t *testing.T) {
	t.Parallel()
	const held, last = 64 << 10, 2 << 20
	t.Run("after the end of the command 2 MiB in all, and the writer is told that the rest is dropped", func(t *testing.T) {
		t.Parallel()
		p := stall.NewOutputPipe()
		n, err := p.Write(make([]byte, held))
		require.NoError(t, err)
		require.Equal(t, held, n)
		p.End()
		n, err = p.Write(make([]byte, last))
		require.ErrorIs(t, err, io.ErrShortWrite)
		require.Equal(t, last-held, n)
		p.Finish()
		_, err = p.Write([]byte("x"))
		require.ErrorIs(t, err, io.ErrClosedPipe)
		text, err := io.ReadAll(p)
		require.NoError(t, err)
		require.Len(t, text, last)
	})
	for name, end := range map[string]func(stall.OutputPipe){
		"the command": stall.OutputPipe.End, "the output": stall.OutputPipe.Finish,
		"the host's use": func(p stall.OutputPipe) { _ = p.Close() },
	} {
		t.Run("a write that waits ends with "+name, func(t *testing.T) {
			untilEnd(t, end, func(p stall.OutputPipe) {
				_, _ = p.Write(make([]byte, held))
				_, _ = p.Write([]byte("x"))
			})
		})
		if name != "the command" { // of which more output can be on its way
			t.Run("a read that waits ends with "+name, func(t *testing.T) {
				untilEnd(t, end, func(p stall.OutputPipe) { _, _ = p.Read(make([]byte, 1)) })
			})
		}
	}
}

// untilEnd checks that a call waits, and returns after the end.
func untilEnd(t *testing.T, end, call func(stall.OutputPipe)) {
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
