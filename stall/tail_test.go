package stall_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/stall"
)

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
