package stall

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/proctree"
	"github.com/seed62658d38/watchdog/internal/tty"
)

// A sentinel watches one command.
type sentinel struct {
	cfg    Config
	run    *watchdog.Watchdog
	inside bool // inside another run, which is guarded
	// timer is one of package idle that the command is in, inside of the run if there is one; nil for none.
	timer  handle.Timer
	waited bool // the run around does nothing but wait for the command
	stands bool // its silence stands still meanwhile
	// inherits says that the command may be as silent as what is around it, because it has no limit of its own.
	inherits  bool
	around    handle.Run    // the run around, nil for none
	silence   time.Duration // how long what is around may give no sign of life, as of the last look
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
	observed   func()           // says that the run has ended
	corrected  bool             // the cancel of the run is corrected
	probed     chan probeResult // nil for no probe
	stopProbes context.CancelFunc
	probes     sync.WaitGroup
	killed     *atomic.Bool       // by the host
	flight     *watchdog.Watchdog // the layer that has the runs around stand still; nil for none
	release    func()             // of the holds that are open while a reader does not take the output; nil for none
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
	s.around, s.timer = handle.Of(ctx), handle.TimerOf(ctx)
	s.standStill(ctx)
	s.judge = newJudge(&s.cfg)
	s.result = &Result{RunID: s.run.ID(), ExitCode: -1}
	if s.io, err = openStdio(cmd, &s.cfg, s.pipes, s.heedsOutput(), s.heard); err != nil {
		return fmt.Errorf("prepare the command's input and output: %w", err)
	}
	if len(s.io.watched) > 0 {
		s.callLog(func(log *slog.Logger) {
			log.Warn("stall sentinel watches a file, and takes what others write to it for the command's",
				"run", s.run.ID())
		})
	}
	if err := s.report.begin(); err != nil {
		return err
	}
	return s.start(ctx, cmd)
}

// standStill has the silence of a command that is waited for count in place of that of the runs around it. The hold has
// a layer of its own, because that of the command ends at a trip, and ending the command can take longer than the Idle.
func (s *sentinel) standStill(ctx context.Context) {
	if s.stands = s.waited && s.inside && !s.cfg.Disabled && !s.cfg.IdleGoesOn; !s.stands {
		return
	}
	s.inherits = s.cfg.NoOutput == 0 && s.cfg.Probe == nil
	flight, err := watchdog.FromContext(ctx).Layer("command in flight", watchdog.Budget{WallClock: watchdog.NoLimit})
	if err == nil { // else the run has ended
		s.flight = flight
		handle.Of(flight.Context()).StandStill()
	}
}

func (s *sentinel) start(ctx context.Context, cmd *exec.Cmd) (err error) {
	env := cmd.Environ()
	if s.companion, err = s.cfg.newCompanion(env, cmd.Dir); err != nil {
		return startError(err)
	}
	s.began = time.Now()
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
		s.probed = make(chan probeResult)
		p := &prober{companion: s.companion, cfg: s.cfg.Probe, began: s.began, results: s.probed}
		probing, stop := context.WithCancel(context.WithoutCancel(ctx))
		s.stopProbes = stop
		s.probes.Go(func() { p.run(probing) })
	}
	return nil
}

func startError(err error) error {
	if errors.Is(err, proctree.ErrUnsupported) {
		return fmt.Errorf("%w command: %w", watchdog.ErrInvalid, err)
	}
	return fmt.Errorf("start the command: %w", withoutName(err))
}

// attach makes the command's run: a layer of the run in ctx, or else a run of its own. Inside is a run that is guarded.
func (c *Config) attach(ctx context.Context) (w *watchdog.Watchdog, inside bool, err error) {
	budget := watchdog.Budget{WallClock: c.WallClock}
	if outer := watchdog.FromContext(ctx); outer != nil {
		if c.Store != nil || c.RunID != "" && c.RunID != outer.ID() {
			return nil, true, invalid("Store or RunID is set, but the command is a layer of run %s, the run of its context; "+
				"leave both empty", outer.ID())
		}
		w, err = outer.Layer(c.Step, budget)
		return w, !handle.Of(ctx).Settings().Disabled, err
	}
	run := watchdog.Run{ID: c.Step}
	if c.RunID != "" {
		run.ID, run.Parent = c.RunID+"/"+c.Step, c.RunID
	}
	logger := c.Logger
	if c.WallClock == 0 {
		budget.WallClock = watchdog.NoLimit
		logger = slog.New(slog.DiscardHandler) // of what ends the command the result tells
	}
	w, err = watchdog.New(handle.Fresh{Context: ctx}, run, watchdog.Config{
		Disabled: c.Disabled, Store: c.Store, Budget: budget, RecordTimeout: c.RecordTimeout, Logger: logger,
	})
	return w, false, err
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
	if s.inside && !s.stands {
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

// callLog calls the host's log. A handler that panics, ends its goroutine or hangs must not end the watch.
func (s *sentinel) callLog(call func(*slog.Logger)) {
	logger := s.cfg.Logger
	if logger == nil {
		logger = slog.Default()
	}
	// An error of a log has nowhere to go.
	_ = inTime(s.cfg.RecordTimeout, func() error { call(logger); return nil })
}
