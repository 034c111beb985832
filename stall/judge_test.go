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
	t.Run("starts at the last output, and the next look is when the limit can be exceeded", func(t *testing.T) {
		j := stall.NewJudge(silent)
		f, wait := j.Silence(4*second, 3*second, false)
		require.Nil(t, f)
		require.Equal(t, 9*second+1, wait)
		f, _ = j.Silence(13*second, 3*second, false)
		require.Nil(t, f)
		f, _ = j.Silence(13*second+1, 3*second, false)
		require.NotNil(t, f)
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
	t.Run("does not count while a reader blocks the output, and starts again after that", func(t *testing.T) {
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

// TestJudgeEachSilence checks that every ignored silence is a finding of its own.
func TestJudgeEachSilence(t *testing.T) {
	j := stall.NewJudge(silent)
	found := 0
	for now, last := time.Duration(0), time.Duration(0); now < 100*second; now += second {
		if now == 30*second || now == 60*second {
			last = now
		}
		if f, _ := j.Silence(now, last, false); f != nil {
			found++
			require.Equal(t, now-last, f.Used)
		}
	}
	require.Equal(t, 3, found)
}

// TestJudgeEachStall checks that every ignored lack of progress is a finding of its own.
func TestJudgeEachStall(t *testing.T) {
	cfg := stall.Config{Probe: &stall.Probe{StallThreshold: 2}}
	j := stall.NewJudge(cfg)
	found := 0
	for digest := range strings.SplitSeq("aaaabbbbbbabab", "") {
		if f := j.Probed(stall.Look{Digest: digest}, 0); f != nil {
			found++
		}
	}
	require.Equal(t, 2, found)
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
}

func TestJudgeProbes(t *testing.T) {
	const digest, timedOut = "0123456789abcdef", "the probe did not end within its timeout"
	same, other, blind := stall.Look{Digest: digest}, stall.Look{Digest: "other"}, stall.Look{Blind: "timeout"}
	progressing := stall.Look{Class: "progressing", Digest: digest}
	terminal := stall.Look{Class: "terminal", Digest: digest}
	looks := func(all ...stall.Look) []stall.Look { return all }
	for _, c := range []struct {
		name   string
		probe  stall.Probe
		looks  []stall.Look
		kind   stall.TripKind // of the last look; the others find nothing
		reason string
		print  string
	}{
		{
			"three equal ones are no progress", stall.Probe{}, looks(same, same, same),
			stall.KindNoProgress, "3 probes in a row saw the same", "ci/stall/no_progress:0123456789ab",
		},
		{"two equal ones are not", stall.Probe{}, looks(same, same), "", "", ""},
		{
			"two equal ones are with a threshold of two", stall.Probe{StallThreshold: 2}, looks(same, same),
			stall.KindNoProgress, "2 probes in a row saw the same", "ci/stall/no_progress:0123456789ab",
		},
		{"progressing starts again", stall.Probe{}, looks(same, same, progressing, same, same), "", "", ""},
		{"a change starts again", stall.Probe{}, looks(same, same, other, same, same), "", "", ""},
		{"a blind one is no change and starts again", stall.Probe{}, looks(same, same, blind, same, same), "", "", ""},
		{
			"a terminal one trips at once", stall.Probe{}, looks(terminal),
			stall.KindTerminal, "the probe says that the state is terminal", "ci/stall/terminal:probe",
		},
		{"blind ones mean nothing by default", stall.Probe{}, looks(blind, blind, blind, blind, blind), "", "", ""},
		{
			"blind ones can mean a stall", stall.Probe{OnError: stall.ErrorStall}, looks(blind, blind, blind),
			stall.KindNoProgress, "3 probes in a row saw nothing: " + timedOut, "ci/stall/probe_blind:timeout",
		},
		{
			"blind ones can mean a terminal state", stall.Probe{OnError: stall.ErrorTerminal, ErrorThreshold: 1}, looks(blind),
			stall.KindTerminal, "the probe saw nothing: " + timedOut, "ci/stall/probe_blind:timeout",
		},
		{
			"blind ones that are not in a row do not add up", stall.Probe{OnError: stall.ErrorStall},
			looks(blind, blind, same, blind, blind), "", "", "",
		},
		{
			"the fingerprints of a probe have no prefix", stall.Probe{},
			looks(stall.Look{Class: "terminal", Fingerprints: []string{"k8s/crd/missing:x"}}),
			stall.KindTerminal, "the probe says that the state is terminal", "k8s/crd/missing:x",
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
			require.Equal(t, []string{string(c.kind), c.reason, c.print}, []string{string(f.Kind), f.Reason, f.Fingerprints[0]})
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

// TestJudgeProbesModel compares the judge with a model that looks back at all results.
func TestJudgeProbesModel(t *testing.T) {
	const letters = "aabbbPTx" // digests a and b, progressing, terminal, blind
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 2))
		j := stall.NewJudge(stall.Config{
			Probe: &stall.Probe{StallThreshold: 3, OnError: stall.ErrorStall, ErrorThreshold: 2},
		})
		seen, model := "", ongoing{}
		for range 12 {
			letter := letters[random.IntN(len(letters))]
			seen += string(letter)
			want := model.first(letter, naive(seen))
			got := stall.TripKind("")
			if f := j.Probed(look(letter), 0); f != nil {
				got = f.Kind
			}
			assert.Equal(t, want, got, seen)
		}
	}
}

// ongoing are the trips that were found and have not ended.
type ongoing struct {
	stalled, terminal, blind bool
	digest                   string // the last one
}

// first returns the kind of a trip, or nothing if it was found already.
func (o *ongoing) first(letter byte, kind stall.TripKind) stall.TripKind {
	known := &o.stalled
	switch digest := look(letter).Digest; letter {
	case 'x':
		known = &o.blind
	case 'T': // once only
		known, o.blind, o.digest = &o.terminal, false, digest
	default:
		progress := letter == 'P' || o.digest != "" && o.digest != digest
		o.stalled, o.blind, o.digest = o.stalled && !progress, false, digest
	}
	if kind == "" || *known {
		return ""
	}
	*known = true
	return kind
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
	for end, kind := range map[string]stall.TripKind{
		"aaa": stall.KindNoProgress, "bbb": stall.KindNoProgress, "xx": stall.KindNoProgress, "T": stall.KindTerminal,
	} {
		if strings.HasSuffix(seen, end) {
			return kind
		}
	}
	return ""
}
