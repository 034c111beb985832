package stall_test

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

const (
	second = time.Second
	limit  = 10 * second
)

var silent = stall.Config{NoOutput: limit}

func TestSilence(t *testing.T) {
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
	t.Run("begins at the last output, and the next look is when the limit can be exceeded", func(t *testing.T) {
		j := stall.NewJudge(silent)
		f, wait := j.Silence(4*second, 3*second, false)
		require.Nil(t, f)
		require.Equal(t, 9*second+1, wait)
		f, _ = j.Silence(13*second, 3*second, false)
		require.Nil(t, f)
		f, _ = j.Silence(13*second+1, 3*second, false)
		require.NotNil(t, f)
	})
	t.Run("from the beginning has a fingerprint of its own", func(t *testing.T) {
		never, _ := stall.NewJudge(silent).Silence(limit+1, 0, false)
		require.Equal(t, []string{"stall/no_output:never"}, never.Fingerprints)
		require.Equal(t, "no output at all in 10s", never.Reason)
		some, _ := stall.NewJudge(silent).Silence(limit+2, 1, false)
		require.Equal(t, []string{"stall/no_output"}, some.Fingerprints)
		require.Equal(t, "no output for 10s", some.Reason)
	})
	t.Run("without a limit never trips", func(t *testing.T) {
		f, _ := stall.NewJudge(stall.Config{}).Silence(1e6*time.Hour, 0, false)
		require.Nil(t, f)
	})
	t.Run("while a reader takes nothing is the reader's, and begins again after it", func(t *testing.T) {
		j := stall.NewJudge(silent)
		f, _ := j.Silence(second, 1, true)
		require.Nil(t, f)
		f, _ = j.Silence(100*second, 1, true)
		require.Nil(t, f)
		f, _ = j.Silence(101*second, 1, false)
		require.Nil(t, f)
		f, _ = j.Silence(111*second, 1, false)
		require.Nil(t, f)
		f, _ = j.Silence(111*second+1, 1, false)
		require.NotNil(t, f)
	})
}

func TestATripThatIsIgnoredIsToldOnceForEachKind(t *testing.T) {
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
}

func TestProbes(t *testing.T) {
	const digest = "0123456789abcdef"
	same, blind := stall.Look{Digest: digest}, stall.Look{Blind: "timeout"}
	for _, c := range []struct {
		name   string
		probe  stall.Probe
		looks  []stall.Look
		kind   stall.TripKind // of the last look; none before it
		reason string
		print  string
	}{
		{"three equal ones are no progress", stall.Probe{}, []stall.Look{same, same, same}, stall.KindNoProgress, "3 probes in a row saw the same", "ci/stall/no_progress:0123456789ab"},
		{"two are not", stall.Probe{}, []stall.Look{same, same}, "", "", ""},
		{"two are where that is the threshold", stall.Probe{StallThreshold: 2}, []stall.Look{same, same}, stall.KindNoProgress, "2 probes in a row saw the same", "ci/stall/no_progress:0123456789ab"},
		{"progressing begins anew", stall.Probe{}, []stall.Look{same, same, {Class: "progressing", Digest: digest}, same, same}, "", "", ""},
		{"a change begins anew", stall.Probe{}, []stall.Look{same, same, {Digest: "other"}, same, same}, "", "", ""},
		{"a blind one is no change and breaks the series", stall.Probe{}, []stall.Look{same, same, blind, same, same}, "", "", ""},
		{"a terminal one trips at once", stall.Probe{}, []stall.Look{{Class: "terminal", Digest: digest}}, stall.KindTerminal, "the probe says that the state is terminal", "ci/stall/terminal:probe"},
		{"blind ones alone mean nothing", stall.Probe{}, []stall.Look{blind, blind, blind, blind, blind}, "", "", ""},
		{"blind ones can mean a stall", stall.Probe{OnError: stall.ErrorStall}, []stall.Look{blind, blind, blind}, stall.KindNoProgress, "3 probes in a row saw nothing: the probe did not end within its timeout", "ci/stall/probe_blind:timeout"},
		{"blind ones can mean the end", stall.Probe{OnError: stall.ErrorTerminal, ErrorThreshold: 1}, []stall.Look{blind}, stall.KindTerminal, "the probe saw nothing: the probe did not end within its timeout", "ci/stall/probe_blind:timeout"},
		{"blind ones that see in between do not add up", stall.Probe{OnError: stall.ErrorStall}, []stall.Look{blind, blind, same, blind, blind}, "", "", ""},
		{"fingerprints of a probe are its own, without a prefix", stall.Probe{}, []stall.Look{{Class: "terminal", Fingerprints: []string{"k8s/crd/missing:x"}}}, stall.KindTerminal, "the probe says that the state is terminal", "k8s/crd/missing:x"},
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
			require.Equal(t, []string{string(c.kind), c.reason, c.print}, []string{string(f.Kind), f.Reason, f.Fingerprints[0]})
			require.Equal(t, second, f.Used)
			require.Empty(t, f.Reasons, "what a probe says for people is not published")
			require.Empty(t, f.Summary)
		})
	}
	t.Run("what a probe says for people is published where that was asked for", func(t *testing.T) {
		f := stall.NewJudge(stall.Config{Probe: &stall.Probe{Publish: true}}).Probed(stall.Look{Class: "terminal"}, 0)
		require.Equal(t, []string{"reason"}, f.Reasons)
		require.Equal(t, "summary", f.Summary)
	})
}

func TestAPattern(t *testing.T) {
	f := stall.NewJudge(stall.Config{FingerprintPrefix: "ci/nightly"}).Pattern(2)
	require.Equal(t, []string{"ci/nightly/stall/terminal:pattern-3"}, f.Fingerprints)
	require.Equal(t, watchdog.CommandTerminal, f.Code)
	require.Equal(t, "the output has a line of terminal pattern 3", f.Reason)
}

// The judge against a model that keeps one instant.
func TestSilenceIsAsTheModelSaysWhateverHappens(t *testing.T) {
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 1))
		j := stall.NewJudge(silent)
		var now, last, since time.Duration
		was, told := false, false
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
			want := !blocked && !told && now-since > limit
			f, _ := j.Silence(now, last, blocked)
			require.Equal(t, want, f != nil, "seed %d at %v", seed, now)
			told = told || want
		}
	}
}

// The judge against a model that looks back over all that was seen.
func TestProbesAreAsTheModelSaysWhateverTheySee(t *testing.T) {
	const letters = "aabbbPTx" // digests a and b, progressing, terminal, blind
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 2))
		j := stall.NewJudge(stall.Config{Probe: &stall.Probe{StallThreshold: 3, OnError: stall.ErrorStall, ErrorThreshold: 2}})
		seen, told := "", map[stall.TripKind]bool{}
		for range 12 {
			letter := letters[random.IntN(len(letters))]
			seen += string(letter)
			want := naive(seen)
			if told[want] {
				want = ""
			}
			told[want] = want != ""
			got := stall.TripKind("")
			if f := j.Probed(look(letter), 0); f != nil {
				got = f.Kind
			}
			assert.Equal(t, want, got, seen)
		}
	}
}

func look(letter byte) stall.Look {
	switch letter {
	case 'P':
		return stall.Look{Class: "progressing", Digest: "a"}
	case 'T':
		return stall.Look{Class: "terminal", Digest: "a"}
	case 'x':
		return stall.Look{Blind: "exit"}
	}
	return stall.Look{Class: "stalled", Digest: string(letter)}
}

func naive(seen string) stall.TripKind {
	for end, kind := range map[string]stall.TripKind{"aaa": stall.KindNoProgress, "bbb": stall.KindNoProgress, "xx": stall.KindNoProgress, "T": stall.KindTerminal} {
		if strings.HasSuffix(seen, end) {
			return kind
		}
	}
	return ""
}
