package transcript_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/loop"
	"github.com/seed62658d38/watchdog/transcript"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// read reads all turns, and returns the error that came instead of io.EOF.
func read(in io.Reader) (turns []transcript.Turn, counts transcript.Coverage, err error) {
	r := transcript.NewReader(in)
	for {
		turn, err := r.Next()
		if errors.Is(err, io.EOF) {
			return turns, r.Coverage(), nil
		}
		if err != nil {
			return turns, r.Coverage(), err
		}
		turns = append(turns, turn)
	}
}

// text says what was read, a line for each call.
func text(turns []transcript.Turn, counts transcript.Coverage) string {
	var b strings.Builder
	for _, turn := range turns {
		fmt.Fprintf(&b, "turn of %q in conversation %d, line %d\n", turn.Agent, turn.Conversation, turn.Line)
		for i, s := range turn.Steps {
			if s.Class == loop.Person {
				fmt.Fprintf(&b, "  a person, before call %d\n", turn.First)
				continue
			}
			fmt.Fprintf(&b, "  %d %s %s -> %q", turn.First+i, s.Tool, s.Input, s.Outcome)
			for _, flag := range []struct {
				set  bool
				says string
			}{{s.Failed, " failed"}, {s.Refused, " refused"}, {s.Gap > 0, fmt.Sprint(" after ", s.Gap)}} {
				if flag.set {
					b.WriteString(flag.says)
				}
			}
			b.WriteString("\n")
		}
	}
	fmt.Fprintf(&b, "%+v\n", counts)
	return b.String()
}

func samples(tb testing.TB) (names []string) {
	tb.Helper()
	for _, form := range []string{"*.json", "*.jsonl", "*.traj"} {
		found, err := filepath.Glob(filepath.Join("testdata", form))
		require.NoError(tb, err)
		names = append(names, found...)
	}
	require.Len(tb, names, 10)
	return names
}

func TestSamples(t *testing.T) {
	t.Parallel()
	for _, name := range samples(t) {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			turns, counts, err := read(bytes.NewReader(data))
			require.NoError(t, err)
			got := text(turns, counts)
			if *update {
				require.NoError(t, os.WriteFile(name+".golden", []byte(got), 0o600))
			}
			want, err := os.ReadFile(name + ".golden")
			require.NoError(t, err)
			assert.Equal(t, string(want), got)

			again := func(what string, in io.Reader) {
				turns, counts, err := read(in)
				require.NoError(t, err, what)
				assert.Equal(t, got, text(turns, counts), what)
			}
			again("a byte at a time", iotest.OneByteReader(bytes.NewReader(data)))
			again("with the mark of UTF-8", io.MultiReader(strings.NewReader("\ufeff"), bytes.NewReader(data)))
			again("with CRLF", bytes.NewReader(bytes.ReplaceAll(data, []byte("\n"), []byte("\r\n"))))
			again("without the last line feed", bytes.NewReader(bytes.TrimRight(data, "\n")))
		})
	}
}
