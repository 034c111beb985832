package stall

import (
	"context"
	"os/exec"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/handle"
)

// Run runs the command until it exits or has to be ended. It returns when no process that descends from the command is
// alive: at most the graces and one second after a trip, or after ctx ended, and with an [AlsoEnd] at most its Timeout
// and another second later. Where processes that were killed are still dying, because the machine is busy, it waits for
// them for up to fifteen seconds more, so that they are not taken for survivors. Run replaces the command's Start and
// Wait, and nothing else may start the command. Run may be called from several goroutines, each with a command of its
// own. To talk to a command while it runs, use a [Command].
//
// What a daemon starts on the command's behalf (docker exec, a pod, ssh, systemd-run, a server behind a socket) does
// not descend from the command, and Run does not end it: [Config].AlsoEnd does.
//
// Path, Args, Env, Dir, Stdin, Stdout, Stderr, ExtraFiles and SysProcAttr of the command mean the same as in package
// exec, with these differences:
//
//   - If silence is a signal, Run reads and drops an output that is nil.
//   - If standard output and standard error are the same writer, or files of the same pipe or terminal, the command
//     gets one pipe for both.
//   - The command gets an output that is a file as its own file, and Run watches the file.
//   - Pipes are those of [Command.StdinPipe], [Command.StdoutPipe] and [Command.StderrPipe]. Run refuses those that the
//     methods of package exec made, and closes them.
//   - Process and ProcessState stay nil: the [Result] says how the command ended.
//   - Run reads ahead from an input that is not a file. If a Read of it does not return, Run leaves it behind.
//   - On Linux the parent process of the command is the guard.
//
// A start that hangs ends with ctx and with the run's limits, and after ten seconds in any case.
//
// The Result is nil if the command was not started. The error is nil if the command exited by itself with status 0,
// even if it had tripped before. Otherwise Run wraps one of these:
//
//   - an [*ExitError] if the command exited by itself and failed
//   - a [*Stalled] if Run ended the command because it was stuck
//   - the cause of ctx or of the run around the command, such as a [*watchdog.Stop], if that ended the command
//   - [watchdog.ErrInvalid], an error of [watchdog.New] or one of the operating system if the command was not started
//
// In addition, Run wraps [ErrSurvivors] if a process could not be ended, [ErrAlsoEnd] if what runs elsewhere may be
// alive, and the error of the store if the cancel could not be recorded.
//
// On Linux a command takes about half a millisecond longer than with package exec.
func Run(ctx context.Context, cmd *exec.Cmd, cfg Config) (*Result, error) {
	c, err := NewCommand(cmd, cfg)
	if err != nil {
		return nil, err
	}
	if err := c.Start(ctx); err != nil {
		return nil, err
	}
	return c.Wait()
}

// inForce is the valid config without all that watches the command if it is disabled, or the run in ctx is.
func (c Config) inForce(ctx context.Context) Config {
	if outer := handle.Of(ctx); outer != nil && outer.Settings().Disabled {
		c.Disabled = true
	}
	if c.Disabled {
		c.WallClock, c.NoOutput, c.Probe, c.Terminal, c.Artifacts, c.Tail = 0, 0, nil, nil, "", nil
	}
	return c
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
		logger = discard // New would warn that the run has no limit; the sentinel has its own
	}
	w, err = watchdog.Config{
		Disabled: c.Disabled, Store: c.Store, Budget: budget, RecordTimeout: c.RecordTimeout, Logger: logger,
	}.Begin(handle.Fresh{Context: ctx}, run)
	return w, false, err
}
