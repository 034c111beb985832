package stall_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
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
