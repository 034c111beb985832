package stall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"

	"github.com/seed62658d38/watchdog"
)

// Run runs the command until it ends or is ended, and returns when nothing that it started is alive: at most the graces and a second after a trip, or after the
// context ended. It is the command's Start and Wait; nothing else may start it. Several Runs may go on at once.
//
// What the command's Path, Args, Env, Dir, Stdin, Stdout, Stderr, ExtraFiles and SysProcAttr mean is as in package exec, with these differences. A nil output is read and
// dropped where silence is a signal. Standard output and error that are the same, also as two files of one pipe or terminal, are one pipe. A file is the command's own, and is watched; what
// StdoutPipe and StderrPipe return is not closed by anybody: use a writer, or an os.Pipe. An input that is no file is read ahead, and a Read of it that does not
// return is left behind. On Linux the command's parent is the guard process.
//
// The Result is nil where the command was not started. The error is nil for a command that ended by itself with status 0, whatever tripped before. Otherwise it wraps
// an [*ExitError]; a [*Stalled] for one that was ended because it was stuck; the cause of the context or of the run around it, such as a [*watchdog.Stop], where that
// ended it; [ErrSurvivors] besides, where a process was left; and the store's error where the cancel was never recorded. Before the start it wraps [watchdog.ErrInvalid],
// [watchdog.ErrInvalid], an error of [watchdog.New], or the system's.
//
// A command that starts and ends at once takes about half as long again as with package exec.
func Run(ctx context.Context, cmd *exec.Cmd, cfg Config) (*Result, error) {
	if err := cmp.Or(cfg.check(), checkCommand(cmd)); err != nil {
		return nil, fmt.Errorf("run step %q: %w", cfg.Step, err)
	}
	result, err := run(ctx, cmd, cfg.complete())
	if err != nil {
		return result, fmt.Errorf("run step %s: %w", cfg.Step, err)
	}
	return result, nil
}

func run(ctx context.Context, cmd *exec.Cmd, cfg Config) (*Result, error) {
	s := &sentinel{cfg: cfg}
	if err := s.open(ctx, cmd); err != nil {
		return nil, errors.Join(err, s.close())
	}
	cause := s.watch(ctx)
	s.conclude(ctx, cause)
	err := s.verdict(cause)
	return s.result, errors.Join(err, s.close())
}

// attach makes the command's run: a layer of the one around it, or one of its own.
func (c *Config) attach(ctx context.Context) (w *watchdog.Watchdog, inside bool, err error) {
	budget := watchdog.Budget{WallClock: c.WallClock}
	if outer := watchdog.FromContext(ctx); outer != nil {
		if c.Store != nil || c.RunID != "" && c.RunID != outer.ID() {
			return nil, true, flaw("Store or RunID is set and the context is that of run %s; the command is a layer of that run, leave them empty", outer.ID())
		}
		w, err = outer.Layer(c.Step, budget)
		return w, true, err
	}
	run := watchdog.Run{ID: c.Step, StartedAt: now()}
	if c.RunID != "" {
		run.ID, run.Parent = c.RunID+"/"+c.Step, c.RunID
	}
	logger := c.Logger
	if c.WallClock == 0 {
		budget.WallClock = watchdog.NoLimit
		logger = quiet // the run has no limit because the sentinel has them
	}
	w, err = watchdog.New(ctx, run, watchdog.Config{Store: c.Store, Budget: budget, RecordTimeout: c.RecordTimeout, Logger: logger})
	return w, false, err
}
