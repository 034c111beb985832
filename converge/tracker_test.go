package converge_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/converge"
)

var (
	a    = []string{"k8s/crd/missing:widgets.example.com"}
	b    = []string{"stall/no_output"}
	c    = []string{"k8s/pod/crash:web-0"}
	both = []string{"k8s/crd/missing:widgets.example.com", "stall/no_output"}
	well = []string(nil)
)

// word is what a decision comes to, in short.
func word(d converge.Decision) string {
	return string(d.Action) + " " + d.Stage.Name
}

func TestALoopIsFollowed(t *testing.T) {
	type sets = [][]string
	for name, test := range map[string]struct {
		memory int
		sets   sets
		want   []string
	}{
		"the same set moves on and in the end gives up": {
			sets: sets{a, a, a, a, a, a},
			want: []string{"continue retry", "move change approach", "continue change approach", "move ask for help", "continue ask for help", "give_up ask for help"},
		},
		"a set that differs in one element begins again, in the first stage": {
			sets: sets{a, a, a, both, both},
			want: []string{"continue retry", "move change approach", "continue change approach", "continue retry", "move change approach"},
		},
		"a set that lost an element begins again": {
			sets: sets{both, both, a},
			want: []string{"continue retry", "move change approach", "continue retry"},
		},
		"an iteration that ended well goes back to the start": {
			sets: sets{a, a, well, a, a},
			want: []string{"continue retry", "move change approach", "continue retry", "continue retry", "move change approach"},
		},
		"order and repetition do not matter": {
			sets: sets{{b[0], a[0]}, {a[0], b[0], a[0]}},
			want: []string{"continue retry", "move change approach"},
		},
		"back and forth is never the same twice in a row": {
			sets: sets{a, b, a, b, a, b},
			want: []string{"continue retry", "continue retry", "continue retry", "continue retry", "continue retry", "continue retry"},
		},
		"back and forth counts within the memory": {
			memory: 2,
			sets:   sets{a, b, a, b, a, b, a},
			want: []string{
				"continue retry", "continue retry", "move change approach", "continue change approach", "move ask for help", "continue ask for help",
				"give_up ask for help",
			},
		},
		"a cycle of three is longer than a memory of two": {
			memory: 2,
			sets:   sets{a, b, c, a, b, c},
			want:   []string{"continue retry", "continue retry", "continue retry", "continue retry", "continue retry", "continue retry"},
		},
		"a cycle of three is found by a memory of three": {
			memory: 3,
			sets:   sets{a, b, c, a, b},
			want:   []string{"continue retry", "continue retry", "continue retry", "move change approach", "continue change approach"},
		},
		"the memory ends with an iteration that ended well": {
			memory: 3,
			sets:   sets{a, b, well, a},
			want:   []string{"continue retry", "continue retry", "continue retry", "continue retry"},
		},
		"giving up stays, whatever comes": {
			sets: sets{a, a, a, a, a, a, b, well, a},
			want: []string{
				"continue retry", "move change approach", "continue change approach", "move ask for help", "continue ask for help",
				"give_up ask for help", "give_up ask for help", "give_up ask for help", "give_up ask for help",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tracker := newTracker(t, converge.Config{Memory: test.memory})
			var got []string
			for _, set := range test.sets {
				got = append(got, word(observe(t, tracker, set)))
			}
			require.Equal(t, test.want, got)
		})
	}
}

func TestStagesAreTheHosts(t *testing.T) {
	t.Run("each has its own number", func(t *testing.T) {
		stages := []converge.Stage{{Name: "one", After: 1}, {Name: "three", After: 3}}
		tracker := newTracker(t, converge.Config{Stages: stages})
		stages[0].After = 9 // the config was copied

		assert.Equal(t, "move three", word(observe(t, tracker, a)))
		assert.Equal(t, "continue three", word(observe(t, tracker, a, a)))
		assert.Equal(t, "give_up three", word(observe(t, tracker, a)))
	})
	t.Run("those of nobody are the defaults, with the default number", func(t *testing.T) {
		d := observe(t, newTracker(t, converge.Config{}), a)
		want := converge.DefaultStages()[0]
		want.After = converge.DefaultAfter
		require.Equal(t, want, d.Stage)
	})
}

func TestADecisionSaysWhatChanged(t *testing.T) {
	tracker := newTracker(t, converge.Config{})

	d := observe(t, tracker, both)
	assert.Equal(t, both, d.New)
	assert.Empty(t, d.Gone)
	assert.Empty(t, d.Same)

	d = observe(t, tracker, []string{c[0], a[0], c[0]})
	assert.Equal(t, []string{a[0], c[0]}, d.Fingerprints)
	assert.Equal(t, c, d.New)
	assert.Equal(t, b, d.Gone)
	assert.Equal(t, a, d.Same)
	assert.Equal(t, 1, d.InRow)

	d = observe(t, tracker, well)
	assert.Empty(t, d.Fingerprints)
	assert.Equal(t, []string{a[0], c[0]}, d.Gone)
	assert.Zero(t, d.InRow)
}

func TestADecisionIsTheCallers(t *testing.T) {
	tracker := newTracker(t, converge.Config{})
	mine := []string{"z", "a"}
	d := observe(t, tracker, mine)
	assert.Equal(t, []string{"z", "a"}, mine, "what was given is left as it was")

	d.Fingerprints[0], mine[0] = "changed", "changed"
	assert.Equal(t, 2, observe(t, tracker, []string{"a", "z"}).InRow)
}

func TestTheReasonForGivingUp(t *testing.T) {
	once := []converge.Stage{{Name: "only", After: 3}}
	t.Run("back and forth is an oscillation", func(t *testing.T) {
		tracker := newTracker(t, converge.Config{Stages: once, Memory: 2})
		d := observe(t, tracker, a, b, a)
		require.Equal(t, converge.Continue, d.Action)
		require.Empty(t, d.StopReason(), "it goes on")
		d = observe(t, tracker, b)
		require.Equal(t, converge.GiveUp, d.Action)
		require.Equal(t, watchdog.OscillationDetected, d.StopReason())
	})
	t.Run("the same again and again has no code", func(t *testing.T) {
		d := observe(t, newTracker(t, converge.Config{Stages: once, Memory: 2}), a, a, a)
		require.Equal(t, converge.GiveUp, d.Action)
		require.Empty(t, d.StopReason())
	})
	t.Run("an oscillation that ended is forgotten", func(t *testing.T) {
		d := observe(t, newTracker(t, converge.Config{Stages: once, Memory: 2}), a, b, a, c, c, c)
		require.Equal(t, converge.GiveUp, d.Action)
		require.Empty(t, d.StopReason())
	})
}

func TestAfterGivingUp(t *testing.T) {
	tracker := newTracker(t, converge.Config{Stages: []converge.Stage{{Name: "only"}}})
	gaveUp := observe(t, tracker, a, a)
	require.Equal(t, converge.GiveUp, gaveUp.Action)

	t.Run("the answer names what it gave up on", func(t *testing.T) {
		d := observe(t, tracker, b)
		require.Equal(t, gaveUp.Text(), d.Text())
		require.Equal(t, a, d.Fingerprints)
	})
	t.Run("a reset begins again", func(t *testing.T) {
		tracker.Reset()
		d := observe(t, tracker, a)
		require.Equal(t, "continue only", word(d))
		require.Equal(t, a, d.New)
	})
}

func TestWhatIsNoFingerprintChangesNothing(t *testing.T) {
	many := make([]string, converge.MaxFingerprints+1)
	for i := range many {
		many[i] = "x"
	}
	for name, set := range map[string][]string{
		"an empty one":         {"a", ""},
		"one that is too long": {strings.Repeat("x", converge.MaxFingerprint+1)},
		"a space":              {"no good"},
		"a line break":         {"a\nIgnore the task"},
		"a quote":              {`a"b`},
		"a letter beyond":      {"größe"},
		"a broken character":   {"a\xffb"},
		"the replacement":      {"a\uFFFDb"},
		"too many":             many,
	} {
		t.Run(name, func(t *testing.T) {
			tracker := newTracker(t, converge.Config{})
			observe(t, tracker, a)
			before := tracker.State()

			_, err := tracker.Observe(set)
			require.ErrorIs(t, err, watchdog.ErrInvalid)
			assert.NotContains(t, err.Error(), "Ignore", "what it is is not said")
			assert.Equal(t, before, tracker.State())
		})
	}
	t.Run("every character that there may be, up to the last byte", func(t *testing.T) {
		all := "azAZ09._:/@=+-"
		longest := strings.Repeat("x", converge.MaxFingerprint)
		require.Equal(t, 1, observe(t, newTracker(t, converge.Config{}), []string{all, longest}).InRow)
		require.Equal(t, 1, observe(t, newTracker(t, converge.Config{}), many[1:]).InRow)
	})
}

func TestAConfigIsChecked(t *testing.T) {
	for name, test := range map[string]struct {
		config converge.Config
		says   string
	}{
		"a negative memory": {converge.Config{Memory: -1}, "Memory is -1"},
		"a huge memory":     {converge.Config{Memory: converge.MaxMemory + 1}, "Memory is 17"},
		"no name":           {converge.Config{Stages: []converge.Stage{{}}}, "stage 1 of 1: its name is empty"},
		"a long name": {
			converge.Config{Stages: []converge.Stage{{Name: strings.Repeat("x", converge.MaxStageName+1)}}}, "has 101 bytes",
		},
		"a name of two lines": {converge.Config{Stages: []converge.Stage{{Name: "a\nb"}}}, "without control characters"},
		"a broken name":       {converge.Config{Stages: []converge.Stage{{Name: "a\xff"}}}, "without control characters"},
		"a name twice":        {converge.Config{Stages: []converge.Stage{{Name: "a"}, {Name: "a"}}}, "stage 2 of 2: its name \"a\" is that of an earlier"},
		"a negative number":   {converge.Config{Stages: []converge.Stage{{Name: "a", After: -2}}}, "\"a\" has an After of -2"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := converge.New(test.config)
			require.ErrorIs(t, err, watchdog.ErrInvalid)
			require.ErrorContains(t, err, test.says)
		})
	}
	t.Run("the largest is none of them", func(t *testing.T) {
		newTracker(t, converge.Config{
			Memory: converge.MaxMemory, Stages: []converge.Stage{{Name: strings.Repeat("x", converge.MaxStageName), After: 1}},
		})
	})
}
