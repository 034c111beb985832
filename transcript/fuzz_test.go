package transcript_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/transcript"
)

// FuzzReader reads anything: it ends, its counts agree with its turns, and its turns do not depend on how it is read.
func FuzzReader(f *testing.F) {
	for _, name := range samples(f) {
		data, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(check)
}

func check(t *testing.T, data []byte) {
	t.Helper()
	turns, counts, err := read(bytes.NewReader(data))
	if err != nil && !errors.Is(err, transcript.ErrFormat) {
		t.Fatal(err)
	}
	calls, persons := tally(t, turns)
	if calls != counts.Calls || persons != counts.Persons || counts.Unknown > counts.Lines {
		t.Fatalf("%d calls, %d persons, and %+v of %q", calls, persons, counts, data)
	}
	again, _, _ := read(io.MultiReader(bytes.NewReader(data[:len(data)/2]), bytes.NewReader(data[len(data)/2:])))
	if len(again) != len(turns) {
		t.Fatalf("%d turns, %d in two pieces of %q", len(turns), len(again), data)
	}
}

// tally counts what the turns are.
func tally(t *testing.T, turns []transcript.Turn) (calls, persons int) {
	t.Helper()
	for _, turn := range turns {
		if turn.First < 1 || turn.Line < 1 || turn.Conversation < 1 || len(turn.Steps) == 0 {
			t.Fatalf("turn %+v", turn)
		}
		if turn.Steps[0].Class == "" {
			calls += len(turn.Steps)
		} else {
			persons++
		}
	}
	return calls, persons
}

// TestMutations reads the samples with bytes that were changed, left out, doubled, and brought from elsewhere.
func TestMutations(t *testing.T) {
	t.Parallel()
	rounds := 300
	if testing.Short() {
		rounds = 30
	}
	for i, name := range samples(t) {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		random := rand.New(rand.NewPCG(27, uint64(i))) //nolint:gosec // it shall be the same each time
		for range rounds {
			check(t, mutated(random, data))
		}
	}
}

func mutated(random *rand.Rand, data []byte) []byte {
	data = bytes.Clone(data)
	for range 1 + random.IntN(4) {
		at := random.IntN(len(data))
		end := min(len(data), at+1+random.IntN(80))
		switch random.IntN(5) {
		case 0:
			data[at] = byte(random.UintN(256))
		case 1:
			data[at] = "{}[]\",:\\\n"[random.IntN(9)]
		case 2:
			data = append(data[:at], data[end:]...)
		case 3:
			data = append(data[:end], data[at:]...)
		default:
			from := random.IntN(len(data))
			copy(data[at:end], data[from:])
		}
		if len(data) == 0 {
			return data
		}
	}
	return data
}
