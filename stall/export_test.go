package stall

import (
	"cmp"
	"fmt"
	"syscall"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/proctree"
	"github.com/seed62658d38/watchdog/internal/verdict"
	"github.com/seed62658d38/watchdog/stall/internal/probe"
)

// What the external tests need of the inside.
var (
	NewOutputPipe = newOutputPipe
	WriteToPipe   = (*outputPipe).write
	EndPipe       = (*outputPipe).end
	FinishPipe    = (*outputPipe).finish

	NewMatcher = newMatcher
	Match      = (*matcher).look
	EndMatch   = (*matcher).end

	NewTail   = newTail
	KeepTail  = (*tailBuffer).look
	TailBytes = (*tailBuffer).bytes

	SurvivorsError = survivorsError
)

// An OutputPipe is a pipe for a command's output.
type OutputPipe = outputPipe

// SetKillBound changes how long a kill may take, and returns what puts it back. No command may run meanwhile.
func SetKillBound(bound time.Duration) (restore func()) {
	before := killBound
	killBound = bound
	return func() { killBound = before }
}

// EndingBound is how long Run may take after the last grace, and how much longer while it is not known whether what was
// killed has ended.
func EndingBound() (bound, unknown time.Duration) { return killBound + drainBound, unknownBound }

// A Judge is the judge of a config, for tests that choose the times.
type Judge struct{ judge }

// NewJudge makes the judge of a config.
func NewJudge(cfg Config) *Judge {
	cfg = cfg.complete()
	return &Judge{newJudge(&cfg)}
}

// Found is a finding of a judge.
type Found struct {
	Kind                  TripKind
	Code                  watchdog.StopReason
	Reason, Summary       string
	Fingerprints, Reasons []string
	Used, Allowed         time.Duration
}

func found(f *finding) *Found {
	if f == nil {
		return nil
	}
	return &Found{f.kind, codes[f.kind], f.reason, f.summary, f.fingerprints, f.reasons, f.used, f.allowed}
}

// Silence judges the command's output.
func (j *Judge) Silence(now, last time.Duration, blocked bool) (*Found, time.Duration) {
	f, wait := j.silence(now, now, last, blocked)
	return found(f), wait
}

// Late is Silence for a timer that was set for an instant before.
func (j *Judge) Late(setFor, now, last time.Duration) (*Found, time.Duration) {
	f, wait := j.silence(setFor, now, last, false)
	return found(f), wait
}

// Resumed says that this process was stopped and goes on.
func (j *Judge) Resumed(now time.Duration) bool { return j.resumed(now) }

// Pattern judges a line that matches Terminal[n].
func (j *Judge) Pattern(n int) *Found { return found(j.pattern(n)) }

// A Look is what a probe reported.
type Look struct {
	Class, Digest, Blind string
	Fingerprints         []string
}

// Probed judges the result of a probe.
func (j *Judge) Probed(l Look, now time.Duration) *Found {
	r := probeResult{blind: probe.Blind(l.Blind), Observation: probe.Observation{
		Class: verdict.Class(l.Class), Digest: fmt.Sprintf("%12s", l.Digest), Fingerprints: l.Fingerprints,
		Reasons: []string{"reason"}, Summary: "summary",
	}}
	f, _ := j.probed(r, now)
	return found(f)
}

// ExitErrorWithoutState is the exit error of a command where no os.ProcessState can be made.
func ExitErrorWithoutState(code int, by syscall.Signal) error {
	return exitError(proctree.Status{ExitCode: code, Signal: by})
}

// TellEscalation tells a host of signals, as the end of a command does.
func TellEscalation(cfg Config, all ...Escalation) {
	told := cfg.tellEscalation(len(all))
	for _, e := range all {
		told <- e
	}
	close(told)
}

// LookIntervals returns how often a command's output and its files are looked at, inside of runs that allow such a
// silence; of no run if it is 0.
func LookIntervals(noOutput, around time.Duration) (output, files time.Duration) {
	s := sentinel{cfg: Config{NoOutput: noOutput}, inside: around > 0, silence: cmp.Or(around, time.Hour)}
	return s.lookInterval(), s.fileInterval()
}
