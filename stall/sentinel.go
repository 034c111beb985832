package stall

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/proctree"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/tty"
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

func now() time.Time { return time.Now() }

// A sentinel watches one command.
type sentinel struct {
	cfg    Config
	run    *watchdog.Watchdog
	inside bool // inside another run, which is guarded
	// timer is one of package idle that the command is in, inside of the run if there is one; nil for none.
	timer handle.Timer
	// silence is how long the runs around the command may give no sign of life.
	silence   time.Duration
	looked    time.Duration // when the last output came, as of the last look
	pipes     []pipe        // the command's, for the host
	io        *stdio
	tree      *proctree.Tree
	began     time.Time
	companion companion
	judge     judge
	report    *report
	result    *Result

	terminals  []tty.Saved
	volatility volatility
	observed   func() // says that the run has ended
	corrected  bool   // the cancel of the run is corrected
	prober     *prober
	stopProbes context.CancelFunc
	probes     sync.WaitGroup
	killed     *atomic.Bool // by the host
	release    func()       // of the holds that are open while a reader does not take the output; nil for none
}

// open starts the command.
func (s *sentinel) open(ctx context.Context, cmd *exec.Cmd) (err error) {
	if s.run, s.inside, err = s.cfg.attach(ctx); err != nil {
		return err
	}
	s.observed = handle.Observe(ctx, s.run.Context())
	if s.report, err = openReport(&s.cfg); err != nil {
		return err
	}
	if stop := s.run.Stop(); stop != nil {
		return stop
	}
	switch {
	case s.cfg.Disabled:
		s.callLog(func(log *slog.Logger) {
			log.Info("stall sentinel is disabled and does not watch the command", "run", s.run.ID())
		})
	case s.cfg.neverTrips() && !s.heardAround():
		s.callLog(func(log *slog.Logger) {
			log.Warn("stall sentinel has no signal and can never end its command", "run", s.run.ID())
		})
	}
	s.silence, s.timer = watchdog.NoLimit, handle.TimerOf(ctx)
	if outer := handle.Of(ctx); outer != nil {
		s.silence = outer.MaxSilence()
	}
	if s.timer != nil {
		s.silence = min(s.silence, s.timer.MaxSilence())
	}
	s.judge = newJudge(&s.cfg)
	s.result = &Result{RunID: s.run.ID(), ExitCode: -1}
	if s.io, err = openStdio(cmd, &s.cfg, s.pipes, s.heedsOutput(), s.heard); err != nil {
		return fmt.Errorf("prepare the command's input and output: %w", err)
	}
	if err := s.report.begin(); err != nil {
		return err
	}
	return s.start(ctx, cmd)
}

func (s *sentinel) start(ctx context.Context, cmd *exec.Cmd) (err error) {
	env := cmd.Environ()
	if s.companion, err = s.cfg.newCompanion(env, cmd.Dir); err != nil {
		return startError(err)
	}
	s.began = now()
	s.io.began = s.began
	s.terminals = tty.Save(cmd.Stdin, cmd.Stdout, cmd.Stderr)
	// The run around the command need not be in ctx.
	starting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.run.Context(), func() { cancel(context.Cause(s.run.Context())) })()
	command := proctree.Command{
		Path: cmd.Path, Args: cmd.Args, Env: env, Dir: cmd.Dir, Files: s.io.files, Attr: s.io.attributes(cmd.SysProcAttr),
		SameGroup: tty.Is(cmd.Stdin) || s.cfg.TTY && tty.HasOwn(), Releases: s.cfg.KeepBackground,
	}
	if s.io.terminal != nil {
		command.SameGroup = false
		command.Terminal, command.TerminalModes = s.io.terminal.Host()
	}
	s.tree, err = proctree.StartContext(starting, command)
	if errors.Is(err, syscall.ENOEXEC) && handle.ByExecvp(ctx) {
		command.Path, command.Args = "/bin/sh", append([]string{"sh", command.Path}, command.Args[1:]...)
		s.tree, err = proctree.StartContext(starting, command)
	}
	if err != nil {
		return startError(err)
	}
	s.io.start(s.tree)
	if s.cfg.Probe != nil {
		s.prober = &prober{companion: s.companion, cfg: s.cfg.Probe, began: s.began, results: make(chan probeResult)}
		probing, stop := context.WithCancel(context.WithoutCancel(ctx))
		s.stopProbes = stop
		s.probes.Go(func() { s.prober.run(probing) })
	}
	return nil
}

// startError returns the error of a command that could not be started.
func startError(err error) error {
	if errors.Is(err, proctree.ErrUnsupported) {
		return fmt.Errorf("%w command: %w", watchdog.ErrInvalid, err)
	}
	return fmt.Errorf("start the command: %w", withoutName(err))
}

// A watching is what a sentinel waits for, besides the ends of the command and of its contexts. A nil channel is never
// ready.
type watching struct {
	look    *time.Timer
	results chan probeResult
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
	w.results = s.probeResults()
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
	case r := <-w.results:
		found = s.observe(r)
	case sig, open := <-w.forward:
		if !open {
			w.forward = nil
		}
		s.forward(sig)
	case <-w.resumed:
		s.judge.restart(time.Since(s.began))
		w.look.Reset(s.lookInterval())
	case <-s.io.woken:
		w.look.Reset(s.lookInterval())
	case <-w.look.C:
		found = s.lookAndSet(w)
	}
	return found, false, nil
}

// forward sends a signal of the host's to the command.
func (s *sentinel) forward(sig os.Signal) {
	if number, ok := sig.(syscall.Signal); ok {
		_, _ = s.tree.Signal(number) // fails if the command has ended, which watch sees in its next round
	}
}

// heedsOutput reports whether silence is a signal, for the sentinel or for what is around the command.
func (s *sentinel) heedsOutput() bool { return s.cfg.NoOutput > 0 || s.heardAround() }

// heardAround reports whether silence is a signal for what is around the command.
func (s *sentinel) heardAround() bool { return s.inside || s.timer != nil }

// heard is called for output.
func (s *sentinel) heard() {
	s.run.Activity()
	if s.timer != nil {
		s.timer.Alive()
	}
}

// lookAndSet looks, and sets the timer for the next look if there has to be one.
func (s *sentinel) lookAndSet(w *watching) *finding {
	found, wait := s.look()
	if found != nil && s.wasStopped(w.resumed) {
		found, wait = nil, 0
	}
	if wait < verdict.Never {
		w.look.Reset(wait)
	}
	return found
}

// probeResults is nil if there is no probe.
func (s *sentinel) probeResults() chan probeResult {
	if s.prober == nil {
		return nil
	}
	return s.prober.results
}

// look judges the output and returns how long to wait for the next look: while there is output, not long, and else
// until something is due or the next output comes.
func (s *sentinel) look() (*finding, time.Duration) {
	last, blocked := s.io.look()
	s.holdAround(blocked)
	found, wait := s.judge.silence(time.Since(s.began), last, blocked)
	flows := blocked || last != s.looked
	s.looked = last
	switch {
	case flows || !s.io.sleep(last):
		wait = min(wait, s.lookInterval())
	case len(s.io.watched) > 0:
		wait = min(wait, s.fileInterval())
	}
	return found, max(wait, 0)
}

// resumeDelay is how long the news can take that this process was stopped and goes on.
const resumeDelay = 20 * time.Millisecond

// wasStopped reports whether a silence that was just found is time in which this process was stopped. Then the command,
// which is in the same job, was stopped as well.
func (s *sentinel) wasStopped(resumed <-chan os.Signal) bool {
	timer := time.NewTimer(resumeDelay)
	defer timer.Stop()
	select {
	case <-resumed:
		s.judge.restart(time.Since(s.began))
		return true
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

// holdAround opens holds on the run and the timers around the command while a reader blocks the output, so that they do
// not count that time as silence.
func (s *sentinel) holdAround(blocked bool) {
	switch {
	case !blocked && s.release != nil:
		s.release()
		s.release = nil
	case blocked && s.release == nil && s.heardAround():
		s.release = s.openHolds()
	}
}

func (s *sentinel) openHolds() (release func()) {
	var hold *watchdog.Hold
	if s.inside {
		// It fails if the run has ended.
		hold, _ = s.run.Hold(context.Background(), slowReader, watchdog.HoldLimit{Cap: watchdog.NoLimit})
	}
	narrow := func() {}
	if s.timer != nil {
		narrow = s.timer.Hold()
	}
	return func() {
		hold.Close()
		narrow()
	}
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
	action := s.cfg.action(f.kind)
	t := Trip{
		Kind: f.kind, Reason: f.reason, ObservedAt: now(), Action: action,
		Fingerprints: artifact.Set(f.fingerprints), Reasons: f.reasons, Summary: f.summary,
	}
	stop, err := s.run.Cancel(watchdog.Cancellation{
		Reason: f.code(), Elapsed: f.used, Budget: f.allowed, ObserveOnly: action == ActionIgnore,
	})
	switch {
	case err != nil: // the run ended for another reason
		return err
	case stop != nil && stop.Code != f.code():
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
		ObservedAt: now(), Action: ActionInterrupt,
		Fingerprints: s.judge.fingerprint(artifact.WallClockFingerprint),
	}, stop)
}

// callLog calls the host's log. A handler that panics, ends its goroutine or hangs must not end the watch.
func (s *sentinel) callLog(call func(*slog.Logger)) {
	logger := s.cfg.Logger
	if logger == nil {
		logger = slog.Default()
	}
	// An error of a log has nowhere to go.
	_, _ = inTime(s.cfg.RecordTimeout, func() (struct{}, error) { call(logger); return struct{}{}, nil })
}
