package stall

import (
	"context"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
	"github.com/seed62658d38/watchdog/internal/wording"
	"github.com/seed62658d38/watchdog/stall/internal/artifact"
)

// How often a sentinel looks at the output while there is some, and at files in any case, because they do not tell.
const (
	slowestLook  = time.Second
	insideLook   = 100 * time.Millisecond // inside a run
	quickestLook = 10 * time.Millisecond
	slowestFile  = 10 * time.Second
)

// A watching is what a sentinel waits for, besides the ends of the command and of its contexts. A nil channel is never
// ready.
type watching struct {
	look    *time.Timer
	setFor  time.Duration // when that is to ring, since the command began
	forward <-chan os.Signal
	resumed <-chan os.Signal // this process was stopped and goes on
}

// watch returns nil when the command exits, or else why to end it.
func (s *sentinel) watch(ctx context.Context) error {
	w := watching{look: time.NewTimer(0), forward: s.cfg.Forward}
	defer w.look.Stop()
	if s.heedsOutput() {
		resumed, stop := continued()
		defer stop()
		w.resumed = resumed
	} else {
		w.look.Stop()
	}
	for {
		found, over, cause := s.next(ctx, &w)
		if over {
			return cause
		}
		if found == nil {
			continue
		}
		if cause := s.trip(found); cause != nil {
			return cause
		}
	}
}

// next waits for the next thing that happens. Over says that the watch is: cause is why to end the command, or nil if
// it has exited.
func (s *sentinel) next(ctx context.Context, w *watching) (found *finding, over bool, cause error) {
	select {
	case <-s.tree.Exited():
		return nil, true, nil
	case <-ctx.Done():
		return nil, true, context.Cause(ctx)
	case <-s.run.Context().Done():
		return nil, true, context.Cause(s.run.Context())
	case n := <-s.io.patterns:
		found = s.judge.pattern(n)
	case r := <-s.probed:
		found = s.observe(r)
	case sig, open := <-w.forward:
		if !open {
			w.forward = nil
		}
		if number, ok := sig.(syscall.Signal); ok {
			_, _ = s.tree.Signal(number) // fails if the command has ended, which watch sees in its next round
		}
	case <-w.resumed:
		s.resumed(w)
	case <-s.io.woken:
		s.sooner(w)
	case <-w.look.C:
		found = s.lookAndSet(w)
	}
	return found, false, nil
}

// resumed begins the silence again because this process was stopped and goes on.
func (s *sentinel) resumed(w *watching) {
	if s.judge.resumed(time.Since(s.began)) {
		s.set(w, s.lookInterval())
	}
}

// set sets the timer for the next look, if there has to be one.
func (s *sentinel) set(w *watching, wait time.Duration) {
	if w.setFor = verdict.Sum(time.Since(s.began), wait); wait < verdict.Never {
		w.look.Reset(wait)
	}
}

// sooner sets it because there is output again. One that should have rung by now rings late, and is to.
func (s *sentinel) sooner(w *watching) {
	if time.Since(s.began) < w.setFor {
		s.set(w, s.lookInterval())
	}
}

// lookAndSet looks, and sets the timer for the next look if there has to be one. A look that comes late gives what the
// command prints a grace.
func (s *sentinel) lookAndSet(w *watching) *finding {
	late := time.Since(s.began) - w.setFor
	found, wait := s.look(w.setFor)
	if found != nil && s.wasStopped(w.resumed, late) {
		found, wait = nil, 0
	}
	s.set(w, wait)
	return found
}

// look judges the output and returns how long to wait for the next look: while there is output, not long, and else
// until something is due or the next output comes.
func (s *sentinel) look(setFor time.Duration) (*finding, time.Duration) {
	last, blocked := s.io.look()
	s.holdAround(blocked)
	held := s.lookAround()
	found, wait := s.judge.silence(setFor, time.Since(s.began), last, blocked)
	flows := blocked || last != s.looked
	s.looked = last
	switch {
	case flows || !s.io.sleep(last):
		wait = min(wait, s.lookInterval())
	case len(s.io.watched) > 0:
		wait = min(wait, s.fileInterval())
	}
	if held {
		wait = min(wait, slowestLook)
	}
	return found, max(wait, 0)
}

// lookAround takes how silent what is around the command may be, and lets the command be so if it has no limit of its
// own. It reports whether a hold says so, whose end nobody tells.
func (s *sentinel) lookAround() (held bool) {
	s.silence = watchdog.NoLimit
	if s.around != nil {
		s.silence, held = s.around.IdleNow()
	}
	if s.inherits {
		s.judge.allow(s.silence, time.Since(s.began))
	}
	if s.timer != nil {
		s.silence = min(s.silence, s.timer.MaxSilence())
	}
	return held
}

// How long the news can take that this process was stopped and goes on. A process that is late to find a silence was
// stopped or has much to do, and then the news is late as well.
const (
	resumeDelay        = 20 * time.Millisecond
	longestResumeDelay = time.Second
)

// wasStopped reports whether a silence that was just found, by a look that came so late, is time in which this process
// was stopped. Then the command, which is in the same job, was stopped as well.
func (s *sentinel) wasStopped(resumed <-chan os.Signal, late time.Duration) bool {
	timer := time.NewTimer(min(resumeDelay+4*late, longestResumeDelay))
	defer timer.Stop()
	select {
	case <-resumed:
		return s.judge.resumed(time.Since(s.began))
	case <-timer.C:
		return false
	}
}

// lookInterval is the longest time between two looks while there is output.
func (s *sentinel) lookInterval() time.Duration {
	slowest := slowestLook
	if s.heardAround() {
		slowest = insideLook
	}
	if s.cfg.NoOutput == 0 {
		return slowest
	}
	return min(max(s.cfg.NoOutput/8, quickestLook), slowest)
}

// fileInterval is the longest time between two looks at files. A file says when it was written to, so it need not be
// looked at often before a silence is due. But the runs around the command do not look at it.
func (s *sentinel) fileInterval() time.Duration {
	shortest := s.silence
	if s.cfg.NoOutput > 0 {
		shortest = min(shortest, s.cfg.NoOutput)
	}
	return min(max(shortest/8, quickestLook), slowestFile)
}

// observe counts, reports and judges the result of a probe.
func (s *sentinel) observe(r probeResult) *finding {
	found, v := s.judge.probed(r, time.Since(s.began))
	probes := &s.result.Probes
	probes.Count++
	probes.BlindFor, probes.Why = v.Blind, string(r.blind)
	if r.blind != "" {
		probes.Blind++
	}
	if v.Blind == 1 {
		s.callLog(func(log *slog.Logger) {
			log.Warn("stall probe saw nothing", "run", s.run.ID(), "why", string(r.blind))
		})
	}
	s.noticeVolatile(r)
	switch {
	case r.Class == verdict.ClassProgressing:
		s.run.Progress()
	case v.Progress:
		s.run.ProgressDigest(r.Digest)
	}
	if s.timer != nil && (v.Progress || r.Class == verdict.ClassProgressing) {
		s.timer.Alive()
	}
	s.report.probe(s, r, v)
	return found
}

// noticeVolatile says once which fields of the probe's results always differ.
func (s *sentinel) noticeVolatile(r probeResult) {
	if r.blind != "" || r.Class != "" && r.Class != verdict.ClassStalled {
		return
	}
	if fields := s.volatility.observe(r.output); fields != nil {
		s.result.Probes.Volatile = fields
		s.callLog(func(log *slog.Logger) {
			log.Warn("stall probe differs in the same fields every time; if one is a clock, print a digest of the rest",
				"run", s.run.ID(), "fields", fields)
		})
	}
}

// trip records a finding. It returns why the command must end, or nil if it goes on.
func (s *sentinel) trip(f *finding) error {
	if hasExited(s.tree) {
		return nil // watch returns in its next round
	}
	action := s.cfg.OnStall
	if f.kind == KindTerminal {
		action = s.cfg.OnTerminal
	}
	t := Trip{
		Kind: f.kind, Reason: f.reason, ObservedAt: time.Now(), Action: action,
		Fingerprints: artifact.Set(f.fingerprints), Reasons: f.reasons, Summary: f.summary,
	}
	stop, err := s.run.Cancel(watchdog.Cancellation{
		Reason: codes[f.kind], Elapsed: f.used, Budget: f.allowed, ObserveOnly: action == ActionIgnore,
	})
	switch {
	case err != nil: // the run ended for another reason
		return err
	case stop != nil && stop.Code != codes[f.kind]:
		return stop
	case stop == nil:
		t.Action = ActionIgnore // also if the config has another action, because the run only observes
	}
	s.note(t, stop)
	if stop == nil {
		return nil
	}
	return &Stalled{Trip: t, Stop: stop}
}

// maxTrips is how many trips a result has: a command whose silences are ignored can have any number.
const maxTrips = 100

// note adds a trip to the result and writes event.json, unless it has an earlier one that was ignored, too.
func (s *sentinel) note(t Trip, stop *watchdog.Stop) {
	if len(s.result.Trips) < maxTrips {
		s.result.Trips = append(s.result.Trips, t)
	}
	if s.result.Trip == nil || stop != nil {
		s.result.Trip = &t
		s.report.event(s, stop)
	}
}

// noteWallClock notes that the command's own wall clock ended it, if that is the stop.
func (s *sentinel) noteWallClock(stop *watchdog.Stop) {
	if stop == nil || stop.RunID != s.run.ID() || stop.Code != watchdog.WallClockExceeded ||
		stop.Budget != s.cfg.WallClock { // another budget is what was left of the run around the command
		return
	}
	s.note(Trip{
		Kind:       KindWallClock,
		Reason:     wording.Stop(record.Reason(string(stop.Code)), stop.Elapsed, stop.Budget, ""),
		ObservedAt: time.Now(), Action: ActionInterrupt,
		Fingerprints: s.judge.fingerprint(artifact.WallClockFingerprint),
	}, stop)
}
