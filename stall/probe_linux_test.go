package stall_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/stall"
)

// probe prints words one after the other, see count.
func (b *bed) probe(words string) *stall.Probe {
	b.Helper()
	return &stall.Probe{
		Command:  []string{self(b), actor, "count:" + filepath.Join(b.TempDir(), "count") + ":" + words},
		Interval: 20 * time.Millisecond, Timeout: patient,
	}
}

// A seen line is one of probe.jsonl.
type seenLine struct {
	Class, Digest, Blind, Summary string
	Same                          int
	Reasons, Fingerprints         []string
	ExitCode                      *int  `json:"exit_code"`
	AtUnixMS                      int64 `json:"at_unix_ms"`
}

func (b *bed) seen() (all []seenLine) {
	b.Helper()
	for text := range strings.Lines(b.artifact("probe.jsonl")) {
		var l seenLine
		require.NoError(b, json.Unmarshal([]byte(text), &l))
		all = append(all, l)
	}
	return all
}

func TestWhatAProbeSees(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, words string
		change      func(*stall.Probe)
		kind        stall.TripKind
		probes      int
		print       string
	}{
		{"the same three times", "a", nil, stall.KindNoProgress, 3, "stall/no_progress:"},
		{"a change at some depth, then the same", "a,a,b", nil, stall.KindNoProgress, 5, "stall/no_progress:"},
		{"that it gets somewhere, then the same", "=progressing,=progressing,=progressing,a", nil, stall.KindNoProgress, 6, "stall/no_progress:"},
		{"a terminal state", "=terminal", nil, stall.KindTerminal, 1, "stall/terminal:probe"},
		{"the same with a failure between", "a,a,fail,a", nil, stall.KindNoProgress, 6, "stall/no_progress:"},
		{"nothing, as a stall: it fails", "fail", func(p *stall.Probe) { p.OnError = stall.ErrorStall }, stall.KindNoProgress, 3, "stall/probe_blind:exit"},
		{"nothing, as the end: it prints no object", "text", func(p *stall.Probe) { p.OnError, p.ErrorThreshold = stall.ErrorTerminal, 2 }, stall.KindTerminal, 2, "stall/probe_blind:output"},
		{"nothing: it prints too much", "long", func(p *stall.Probe) { p.OnError, p.ErrorThreshold = stall.ErrorStall, 1 }, stall.KindNoProgress, 1, "stall/probe_blind:output"},
		{"nothing: it hangs", "hang", func(p *stall.Probe) {
			p.OnError, p.ErrorThreshold, p.Timeout = stall.ErrorStall, 2, 300*time.Millisecond
		}, stall.KindNoProgress, 2, "stall/probe_blind:timeout"},
		{"nothing: it cannot be started", "", func(p *stall.Probe) {
			p.OnError, p.ErrorThreshold, p.Command = stall.ErrorTerminal, 2, []string{"/does/not/exist"}
		}, stall.KindTerminal, 2, "stall/probe_blind:start"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			b.cfg.Probe = b.probe(c.words)
			if c.change != nil {
				c.change(b.cfg.Probe)
			}
			result, _ := b.stalled(play(t, "every:20ms:x"))
			require.Equal(t, c.kind, result.Trip.Kind)
			require.Equal(t, c.probes, result.Probes.Count)
			require.Len(t, result.Trip.Fingerprints, 1)
			require.True(t, strings.HasPrefix(result.Trip.Fingerprints[0], c.print), result.Trip.Fingerprints)
			lines := b.seen()
			require.Len(t, lines, c.probes)
			if blind, ok := strings.CutPrefix(c.print, "stall/probe_blind:"); ok {
				require.Equal(t, blind, result.Probes.Why)
				require.Equal(t, c.probes, result.Probes.BlindFor)
				require.Equal(t, c.probes, result.Probes.Blind)
				require.Equal(t, blind, lines[0].Blind)
				require.Empty(t, lines[0].Digest)
			}
		})
	}
}

func TestABlindProbeIsReportedAndTripsNothing(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.cfg.Probe = b.probe("fail")
	b.cfg.Probe.StallThreshold = 2
	seen := filepath.Join(b.cfg.Artifacts, "step", "_stall", "probe.jsonl")
	result, err := b.run(play(t, "await:"+seen, "sleep:500ms"))
	require.NoError(t, err)
	require.Nil(t, result.Trip)
	require.Positive(t, result.Probes.Count)
	require.Equal(t, result.Probes.Count, result.Probes.BlindFor)
	require.Equal(t, "exit", result.Probes.Why)
	require.Equal(t, 3, *b.seen()[0].ExitCode)
	require.False(t, exists(filepath.Join(filepath.Dir(seen), "event.json")))
}

func TestAProbeWhoseStatusDoesNotMatter(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.cfg.Probe = &stall.Probe{Command: []string{self(t), actor, "print:{}", "exit:1"}, Interval: time.Millisecond, Timeout: patient, AnyExit: true}
	result, _ := b.stalled(play(t, "stay"))
	require.Equal(t, stall.KindNoProgress, result.Trip.Kind)
	require.Zero(t, result.Probes.Blind)
}

func TestTheFirstProbeRunsAtOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.cfg.Probe = b.probe("=terminal")
	b.cfg.Probe.Interval = patient
	began := time.Now()
	b.stalled(play(t, "stay"))
	within(t, late, began)
}

func TestAProbeIsEndedWhole(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		steps []string
	}{
		{"with the daemon that it left", []string{"daemon:ignore:INT,TERM;print:" + ready + ";stay", "print:{}"}},
		{"with its children when it hangs", []string{"child:ignore:INT,TERM;print:" + ready + ";stay", "stay"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			b.cfg.Probe = &stall.Probe{
				Command:  append([]string{self(t), actor}, c.steps...),
				Interval: time.Millisecond, Timeout: time.Second, OnError: stall.ErrorStall, StallThreshold: 2, ErrorThreshold: 2,
			}
			b.stalled(play(t, "stay")) // its environment has the token, and so has that of the probe
		})
	}
	t.Run("when the command ends while it runs", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		began := filepath.Join(t.TempDir(), "began")
		b.cfg.Probe = &stall.Probe{Command: []string{self(t), actor, "ignore:INT,TERM", "touch:" + began, "stay"}, Timeout: patient}
		at := time.Now()
		_, err := b.run(play(t, "await:"+began))
		require.NoError(t, err)
		within(t, 2*late, at)
	})
}

func TestWhatAProbeSaysForPeopleIsPublishedOnRequest(t *testing.T) {
	for _, publish := range []bool{false, true} {
		b := newBed(t)
		b.cfg.Probe = &stall.Probe{
			Command: []string{self(t), actor, `print:{"class": "terminal", "reasons": ["no such zone"], "summary": "0 of 3", "fingerprints": ["dns/b", "dns/a", "dns/b"]}`},
			Publish: publish, Timeout: patient,
		}
		b.cfg.FingerprintPrefix = "ci"
		result, _ := b.stalled(play(t, "stay"))
		line, record := b.seen()[0], b.record()
		require.Equal(t, []string{"dns/a", "dns/b"}, line.Fingerprints)
		require.Equal(t, []string{"dns/a", "dns/b"}, record.Fingerprints)
		require.Equal(t, []string{"dns/a", "dns/b"}, result.Trip.Fingerprints, "sorted, each once")
		if publish {
			require.Equal(t, []string{"no such zone"}, line.Reasons)
			require.Equal(t, "0 of 3", line.Summary)
			require.Equal(t, []string{"no such zone"}, record.Reasons)
			require.Equal(t, "0 of 3", result.Trip.Summary)
			continue
		}
		require.Empty(t, line.Reasons)
		require.Empty(t, line.Summary)
		require.Empty(t, record.Reasons)
		require.Empty(t, result.Trip.Reasons)
	}
}
