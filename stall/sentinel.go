package stall

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/proctree"
	"github.com/seed62658d38/watchdog/internal/verdict"
	"github.com/seed62658d38/watchdog/stall/internal/artifact"
)

// The pace of looks at a command whose output is not all passed through here.
const (
	slowestLook  = time.Second
	insideLook   = 100 * time.Millisecond // inside a run, whose limits are not known here
	quickestLook = 10 * time.Millisecond
)

var quiet = slog.New(slog.DiscardHandler)

func now() time.Time { return time.Now() }

// A sentinel watches one command.
type sentinel struct {
	cfg    Config
	run    *watchdog.Watchdog
	inside bool // a run
	io     *stdio
	tree   *proctree.Tree
	began  time.Time
	judge  judge
	report *report
	result *Result

	prober *prober
	asking sync.WaitGroup
	hush   context.CancelFunc // ends the probes
	hold   *watchdog.Hold     // of the run, while a reader holds up the output
}

// open starts the command.
func (s *sentinel) open(ctx context.Context, cmd *exec.Cmd) (err error) {
	if s.run, s.inside, err = s.cfg.attach(ctx); err != nil {
		return err
	}
	if s.report, err = openReport(&s.cfg); err != nil {
		return err
	}
	if stop := s.run.Stop(); stop != nil {
		return stop
	}
	if s.cfg.harmless() && !s.inside && s.cfg.WallClock == 0 {
		s.log().Warn("stall sentinel has no signal and can never end its command", "run", s.run.ID())
	}
	s.judge = newJudge(&s.cfg)
	s.result = &Result{RunID: s.run.ID(), ExitCode: -1}
	if s.io, err = openStdio(cmd, &s.cfg, s.cfg.NoOutput > 0 || s.inside, s.run.Activity); err != nil {
		return fmt.Errorf("prepare the command's input and output: %w", err)
	}
	return s.start(ctx, cmd)
}

func (s *sentinel) start(ctx context.Context, cmd *exec.Cmd) (err error) {
	env := cmd.Environ()
	s.began = now()
	s.io.began = s.began
	s.tree, err = proctree.Start(proctree.Command{
		Path: cmd.Path, Args: cmd.Args, Env: env, Dir: cmd.Dir, Files: s.io.files, Attr: cmd.SysProcAttr, SameGroup: isTerminal(cmd.Stdin),
	})
	if err != nil {
		return startError(err)
	}
	s.io.start()
	if s.cfg.Probe != nil {
		s.prober = &prober{cfg: s.cfg.Probe, env: env, dir: cmd.Dir, began: s.began, seen: make(chan observed)}
		asking, hush := context.WithCancel(context.WithoutCancel(ctx))
		s.hush = hush
		s.asking.Go(func() { s.prober.run(asking) })
	}
	return nil
}

// startError is the error of a command that could not be started, of its kind and without what it was called with.
func startError(err error) error {
	var path *os.PathError
	switch {
	case errors.Is(err, proctree.ErrUnsupported):
		return fmt.Errorf("%w command: %w", watchdog.ErrInvalid, err)
	case errors.As(err, &path):
		return fmt.Errorf("start the command: %w", path.Err)
	default:
		return fmt.Errorf("start the command: %w", err)
	}
}

// watch looks on until the command has ended or has to be. It returns nil for the first, and the cause for the second.
func (s *sentinel) watch(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var seen chan observed
	if s.prober != nil {
		seen = s.prober.seen
	}
	for {
		var found *finding
		select {
		case <-s.tree.Exited():
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.run.Context().Done():
			return context.Cause(s.run.Context())
		case n := <-s.io.patterns:
			found = s.judge.pattern(n)
		case o := <-seen:
			found = s.heed(o)
		case <-timer.C:
			var wait time.Duration
			found, wait = s.look()
			timer.Reset(wait)
		}
		if found == nil {
			continue
		}
		if cause := s.trip(found); cause != nil {
			return cause
		}
	}
}

// look judges the output, and returns how long to wait for the next look.
func (s *sentinel) look() (*finding, time.Duration) {
	last, blocked := s.io.look()
	s.holdRun(blocked)
	found, wait := s.judge.silence(time.Since(s.began), last, blocked)
	return found, min(max(wait, 0), s.pace())
}

// pace is how often a file, or a reader, is looked at.
func (s *sentinel) pace() time.Duration {
	slowest := slowestLook
	if s.inside {
		slowest = insideLook
	}
	if s.cfg.NoOutput == 0 {
		return slowest
	}
	return min(max(s.cfg.NoOutput/8, quickestLook), slowest)
}

// holdRun keeps the run around the command from counting the reader's slowness as silence.
func (s *sentinel) holdRun(blocked bool) {
	if !blocked {
		s.hold.Close()
		s.hold = nil
		return
	}
	if s.hold == nil && s.inside {
		s.hold, _ = s.run.Hold(context.Background(), readerSlow, watchdog.NoLimit) // it fails on a run that has ended
	}
}

// heed takes what a probe saw.
func (s *sentinel) heed(o observed) *finding {
	found, v := s.judge.probed(o, time.Since(s.began))
	probes := &s.result.Probes
	probes.Count++
	probes.BlindFor, probes.Why = v.Blind, string(o.blind)
	if o.blind != "" {
		probes.Blind++
	}
	if v.Blind == 1 {
		s.log().Warn("stall probe saw nothing", "run", s.run.ID(), "why", string(o.blind))
	}
	switch {
	case o.Class == verdict.ClassProgressing:
		s.run.Progress()
	case v.Progress:
		s.run.ProgressDigest(o.Digest)
	}
	s.report.probe(s, o, v)
	return found
}

// trip records what was found, and returns why the command has to end, nil where it goes on.
func (s *sentinel) trip(f *finding) error {
	if exited(s.tree) {
		return nil // it is finished
	}
	action := s.cfg.action(f.kind)
	t := Trip{
		Kind: f.kind, Reason: f.reason, ObservedAt: now(), Action: action, Fingerprints: artifact.Set(f.fingerprints), Reasons: f.published, Summary: f.summary,
	}
	stop, err := s.run.Cancel(watchdog.Cancellation{Reason: f.code(), Elapsed: f.used, Budget: f.allowed, ObserveOnly: action == ActionIgnore})
	switch {
	case err != nil: // the run has ended in another way, and that is the cause
		return err
	case stop != nil && stop.Code != f.code():
		return stop
	case stop == nil:
		t.Action = ActionIgnore // the host only observes
	}
	if s.result.Trip == nil || stop != nil {
		s.result.Trip = &t
		s.report.event(s, stop)
	}
	if stop == nil {
		return nil
	}
	return &Stalled{Trip: t, Stop: stop}
}

// conclude ends what is left and waits until all is done.
func (s *sentinel) conclude(ctx context.Context, cause error) {
	if s.hush != nil {
		s.hush()
	}
	switch {
	case cause == nil:
		s.result.Finished = s.tree.Err() == nil
		s.endLeftBehind()
		s.io.drain(func() { s.holdRun(true) }, ctx.Done(), s.run.Context().Done())
	case s.result.Trip != nil && isStalled(cause):
		s.end(s.result.Trip.Action)
	default:
		s.end(ActionInterrupt)
	}
	s.asking.Wait()
	s.result.OutputErr = s.io.close(drainBound)
	s.take()
	s.result.Incomplete = s.cfg.AsIncomplete && !s.result.Finished && isStalled(cause)
	s.report.complete(s)
}

// take notes how the command ended.
func (s *sentinel) take() {
	status := s.tree.Status()
	s.result.ExitCode, s.result.Signal = status.ExitCode, status.Signal
	s.result.User, s.result.System, s.result.MaxRSS = status.User, status.System, status.MaxRSS
	s.result.Elapsed = time.Since(s.began)
	if !gone(s.tree) {
		s.result.Survivors = s.tree.Survivors()
	}
}

// verdict is the error that Run returns.
func (s *sentinel) verdict(cause error) error {
	switch {
	case s.tree.Err() != nil:
		cause = errors.Join(cause, s.tree.Err())
	case s.result.Finished:
		cause = s.exitError()
	case s.result.Incomplete:
		cause = nil
	}
	if !gone(s.tree) {
		cause = errors.Join(cause, fmt.Errorf("%w: their numbers are %v; end them by hand", ErrSurvivors, s.result.Survivors))
	}
	return cause
}

func (s *sentinel) exitError() error {
	if s.result.ExitCode == 0 {
		return nil
	}
	return &ExitError{Code: s.result.ExitCode, Signal: s.result.Signal}
}

func isStalled(err error) bool {
	var stalled *Stalled
	return errors.As(err, &stalled)
}

// close ends the watching.
func (s *sentinel) close() error {
	s.hold.Close()
	var err error
	if s.run != nil {
		err = s.run.Close()
	}
	if s.tree == nil && s.io != nil {
		err = errors.Join(err, s.io.close(0))
	}
	s.report.close()
	return err
}

func (s *sentinel) log() *slog.Logger {
	if s.cfg.Logger == nil {
		return slog.Default()
	}
	return s.cfg.Logger
}
