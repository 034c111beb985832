package stall

import (
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/verdict"
	"github.com/seed62658d38/watchdog/stall/internal/artifact"
	"github.com/seed62658d38/watchdog/stall/internal/probe"
)

// readerSlow is the hold of a reader that does not take the command's output.
const readerSlow = "output not taken"

// A judge decides about one command. It has no clock: instants are those since the command began. It only gathers what package verdict judges.
type judge struct {
	cfg    *Config
	limits verdict.Limits
	seen   verdict.Snapshot
	series verdict.Series
	told   map[Kind]bool
}

func newJudge(cfg *Config) judge {
	never := verdict.Never
	limits := verdict.Limits{WallClock: never, Safety: never, Idle: never, NoProgress: never}
	if cfg.NoOutput > 0 {
		limits.Idle = cfg.NoOutput
	}
	return judge{cfg: cfg, limits: limits, seen: verdict.Snapshot{Signs: &verdict.Signs{}}, told: map[Kind]bool{}}
}

// A finding is what a judge found: what tripped, and how much of which limit was used.
type finding struct {
	kind          Kind
	reason        string
	fingerprints  []string
	published     []string // reasons
	summary       string
	used, allowed time.Duration
}

// code is the finding's in the run's stop.
func (f *finding) code() watchdog.StopReason {
	switch f.kind {
	case KindNoOutput:
		return watchdog.CommandNoOutput
	case KindNoProgress:
		return watchdog.CommandNoProgress
	default:
		return watchdog.CommandTerminal
	}
}

// silence judges the command's output: when the last came, 0 for never, and whether a reader holds it up. It returns how long it may wait for the
// next look.
func (j *judge) silence(now, last time.Duration, blocked bool) (*finding, time.Duration) {
	signs := j.seen.Signs
	if last > signs.Activity {
		signs.Signal(false, last)
	}
	switch held := signs.Held(readerSlow); {
	case blocked && !held:
		signs.Open(readerSlow, verdict.Never, now)
	case !blocked && held:
		signs.Close(readerSlow, now)
	}
	v := verdict.Judge(j.limits, j.seen, now)
	if v.Action != verdict.Cancel {
		return nil, verdict.Until(v.Next, now)
	}
	j.seen.Apply(v, now)
	f := &finding{kind: KindNoOutput, used: v.Used, allowed: v.Allowed, reason: fmt.Sprintf("no output for %v", v.Used.Truncate(time.Millisecond))}
	fingerprint := artifact.NoOutputFingerprint
	if !signs.Signalled {
		fingerprint = artifact.NeverOutputFingerprint
		f.reason = fmt.Sprintf("no output at all in %v", v.Used.Truncate(time.Millisecond))
	}
	f.fingerprints = j.own(fingerprint)
	return j.unlessTold(f), 0
}

// own are fingerprints of the sentinel's own.
func (j *judge) own(text string) []string {
	return []string{artifact.Fingerprint(j.cfg.FingerprintPrefix, text)}
}

// unlessTold keeps a kind whose trip is ignored from being told twice.
func (j *judge) unlessTold(f *finding) *finding {
	if j.told[f.kind] {
		return nil
	}
	j.told[f.kind] = true
	return f
}

// pattern is the finding of a line that matches the nth terminal pattern, from 0.
func (j *judge) pattern(n int) *finding {
	return j.unlessTold(&finding{
		kind: KindTerminal, reason: fmt.Sprintf("the output has a line of terminal pattern %d", n+1), fingerprints: j.own(artifact.PatternFingerprint(n + 1)),
	})
}

// An observed probe is what one probe came to.
type observed struct {
	probe.Observation
	blind probe.Blind
	began time.Duration
	took  time.Duration
	exit  *int
}

// probed judges what a probe saw. The verdict tells whether it was progress and where the counts stand.
func (j *judge) probed(o observed, now time.Duration) (*finding, verdict.SeriesVerdict) {
	p := j.cfg.Probe
	limits := verdict.SeriesLimits{Same: p.StallThreshold, Blind: p.ErrorThreshold, OnBlind: onBlind(p.OnError)}
	v := j.series.Observe(limits, verdict.Observation{Class: o.Class, Digest: o.Digest, Blind: o.blind != ""})
	if v.Trip == "" {
		return nil, v
	}
	f := &finding{kind: KindNoProgress, fingerprints: o.Fingerprints, used: now}
	if v.Trip == verdict.TripTerminal {
		f.kind = KindTerminal
	}
	if p.Publish {
		f.published, f.summary = o.Reasons, o.Summary
	}
	j.word(f, v, o)
	return j.unlessTold(f), v
}

// word says what the probe's trip is.
func (j *judge) word(f *finding, v verdict.SeriesVerdict, o observed) {
	var own string
	switch {
	case v.FromBlind:
		f.reason = fmt.Sprintf("%s saw nothing: %v", inARow(v.Blind), o.blind)
		own = artifact.BlindFingerprint(string(o.blind))
	case f.kind == KindTerminal:
		f.reason = "the probe says that the state is terminal"
		own = artifact.TerminalProbeFingerprint
	default:
		f.reason = fmt.Sprintf("%d probes in a row saw the same", v.Equal)
		own = artifact.NoProgressFingerprint(o.Digest)
	}
	if len(f.fingerprints) == 0 {
		f.fingerprints = j.own(own)
	}
}

func inARow(probes int) string {
	if probes == 1 {
		return "the probe"
	}
	return fmt.Sprintf("%d probes in a row", probes)
}

func onBlind(e ProbeError) verdict.Trip {
	switch e {
	case ErrorStall:
		return verdict.TripNoProgress
	case ErrorTerminal:
		return verdict.TripTerminal
	default:
		return ""
	}
}
