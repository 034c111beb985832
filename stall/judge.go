package stall

import (
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/verdict"
	"github.com/seed62658d38/watchdog/internal/wording"
	"github.com/seed62658d38/watchdog/stall/internal/artifact"
)

// slowReader labels the hold that is open while a reader does not take the command's output.
const slowReader = "output not taken"

var slowReaderHold = verdict.HoldID{Key: slowReader}

// A judge decides whether a command is stuck. It has no clock: all times are since the start of the command. The rules
// are in package verdict; a judge only collects what they need.
type judge struct {
	cfg      *Config
	limits   verdict.Limits
	seen     verdict.Snapshot
	series   verdict.Series
	reported map[TripKind]bool
	resumes  int // since the last output
}

func newJudge(cfg *Config) judge {
	limits := verdict.Off()
	if cfg.NoOutput > 0 {
		limits.Idle = cfg.NoOutput
	}
	return judge{
		cfg: cfg, limits: limits, seen: verdict.Snapshot{Signs: &verdict.Signs{}}, reported: map[TripKind]bool{},
	}
}

// A finding says what tripped, and how much of which limit was used.
type finding struct {
	kind          TripKind
	reason        string
	fingerprints  []string
	reasons       []string // of the probe, if it publishes them
	summary       string
	used, allowed time.Duration
}

// codes are the stop codes for the kinds of a finding.
var codes = map[TripKind]watchdog.StopReason{
	KindNoOutput: watchdog.CommandNoOutput, KindNoProgress: watchdog.CommandNoProgress,
	KindTerminal: watchdog.CommandTerminal,
}

// silence judges the command's output: last is when the last output came, or 0 if none ever did, and blocked says
// whether a reader does not take the output. The timer for that was set for an instant, and rang now. It also returns
// when to call it again.
func (j *judge) silence(setFor, now, last time.Duration, blocked bool) (*finding, time.Duration) {
	signs := j.seen.Signs
	if last > signs.Activity {
		signs.Signal(false, last)
		j.resumes = 0
	}
	switch held := signs.Held(slowReaderHold); {
	case blocked && !held:
		signs.Open(slowReaderHold, verdict.HoldLimits{Cap: verdict.Never}, now)
	case !blocked && held:
		signs.Close(slowReaderHold, now)
	}
	j.seen.Rang(&j.limits, setFor, now)
	v := verdict.Judge(j.limits, j.seen, now)
	if v.Action != verdict.Cancel {
		return nil, verdict.Until(v.Next, now)
	}
	j.seen.Apply(v, now) // an ignored silence that goes on is not found again
	return j.noOutput(v.Used, v.Allowed, signs.Signalled), 0
}

// allow sets how long the command may print nothing. With another limit the silence starts again.
func (j *judge) allow(silence, now time.Duration) {
	if j.limits.Idle != silence {
		j.limits.Idle = silence
		j.restart(now)
	}
}

// resumed starts the silence again because this process was stopped and goes on, and reports that. As often as a late
// ring gives a grace: else a process that is stopped and continued for ever, as cpulimit does, would end nothing.
func (j *judge) resumed(now time.Duration) bool {
	if j.resumes == verdict.MaxGraces {
		return false
	}
	j.resumes++
	j.restart(now)
	return true
}

// restart starts the silence again: the time before now does not count.
func (j *judge) restart(now time.Duration) {
	signs := j.seen.Signs
	if !signs.Held(slowReaderHold) {
		signs.Open(slowReaderHold, verdict.HoldLimits{Cap: verdict.Never}, now)
		signs.Close(slowReaderHold, now)
	}
}

// noOutput describes a silence. A command that never printed anything has a fingerprint of its own.
func (j *judge) noOutput(used, allowed time.Duration, printed bool) *finding {
	reason, fingerprint := string(KindNoOutput), artifact.NoOutputFingerprint
	if !printed {
		reason, fingerprint = wording.NeverOutput, artifact.NeverOutputFingerprint
	}
	return &finding{
		kind: KindNoOutput, used: used, allowed: allowed, reason: wording.Stop(reason, used, allowed, ""),
		fingerprints: j.fingerprint(fingerprint),
	}
}

// fingerprint returns the text as a fingerprint with the configured prefix.
func (j *judge) fingerprint(text string) []string {
	return []string{artifact.Fingerprint(j.cfg.FingerprintPrefix, text)}
}

// once returns the first finding of a kind. An ignored trip must not be reported again.
func (j *judge) once(f *finding) *finding {
	if j.reported[f.kind] {
		return nil
	}
	j.reported[f.kind] = true
	return f
}

// pattern returns the finding for a line that matches Terminal[n].
func (j *judge) pattern(n int) *finding {
	return j.once(&finding{
		kind: KindTerminal, reason: fmt.Sprintf("the output has a line of terminal pattern %d", n+1),
		fingerprints: j.fingerprint(artifact.PatternFingerprint(n + 1)),
	})
}

// probed judges the result of a probe. The verdict says whether it was progress, and how many results in a row were
// equal or blind.
func (j *judge) probed(r probeResult, now time.Duration) (*finding, verdict.SeriesVerdict) {
	p := j.cfg.Probe
	limits := verdict.SeriesLimits{Same: p.StallThreshold, Blind: p.ErrorThreshold, OnBlind: onBlind[p.OnError]}
	v := j.series.Observe(limits, verdict.Observation{Class: r.Class, Digest: r.Digest, Blind: r.blind != ""})
	if v.Trip == "" {
		return nil, v
	}
	f := &finding{kind: KindNoProgress, fingerprints: r.Fingerprints, used: now}
	if v.Trip == verdict.TripTerminal {
		f.kind = KindTerminal
	}
	if p.Publish {
		f.reasons, f.summary = r.Reasons, r.Summary
	}
	j.describe(f, v, r)
	switch {
	case f.kind == KindTerminal:
		f = j.once(f)
	case !v.First: // an ignored lack of progress goes on
		f = nil
	}
	return f, v
}

// describe sets the reason of a probe's finding, and its fingerprint if the probe gave none. Every lack of progress has
// a second one, which is the same for all states.
func (j *judge) describe(f *finding, v verdict.SeriesVerdict, r probeResult) {
	var fingerprint string
	switch {
	case v.FromBlind:
		f.reason = fmt.Sprintf("%d probes in a row saw nothing: %v", v.Blind, r.blind)
		if v.Blind == 1 {
			f.reason = fmt.Sprintf("the probe saw nothing: %v", r.blind)
		}
		fingerprint = artifact.BlindFingerprint(string(r.blind))
	case f.kind == KindTerminal:
		f.reason = "the probe says that the state is terminal"
		fingerprint = artifact.TerminalProbeFingerprint
	default:
		f.reason = fmt.Sprintf("%d probes in a row saw the same", v.Equal)
		fingerprint = artifact.NoProgressFingerprint(r.Digest)
	}
	if len(f.fingerprints) == 0 {
		f.fingerprints = j.fingerprint(fingerprint)
	}
	if f.kind == KindNoProgress {
		own := artifact.Set(f.fingerprints)
		own = own[:min(len(own), artifact.MaxFingerprints-1)]
		f.fingerprints = append(own, j.fingerprint(artifact.StableNoProgressFingerprint)...)
	}
}

// onBlind says what blind probes mean. Otherwise they mean nothing.
var onBlind = map[ProbeError]verdict.Trip{ErrorStall: verdict.TripNoProgress, ErrorTerminal: verdict.TripTerminal}
