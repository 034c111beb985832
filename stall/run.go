package stall

import (
	"context"
	"os/exec"
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
//   - If silence is a signal, a regular file as output gets a pipe in between, so that no other writer is taken for the
//     command. Run writes on by the host's descriptor: after what is there, or at the end, as the host opened it. See
//     [Config].FileItself.
//   - Pipes are those of [Command.StdinPipe], [Command.StdoutPipe] and [Command.StderrPipe]. Run refuses those that the
//     methods of package exec made, and closes them.
//   - Process stays nil, because it would reach one process of many, and a Wait of it none: see [Command.Pid]. The
//     ProcessState is set, with the command's own PID and usage.
//   - Run reads ahead from an input that is not a file. If a Read of it does not return, Run leaves it behind.
//   - On Linux the parent process of the command is the guard.
//
// Inside a watchdog's context the run waits for the command, whose own silence counts: the Idle and NoProgress of the
// run, and of those around it, stand still meanwhile, as in a hold. Without a NoOutput and a Probe the command may be
// as silent as the run might be: for its Idle, or what an open hold allows. A trip ends the command, and the host
// decides what becomes of the run. [Config].IdleGoesOn says no. The timers of package idle go on.
//
// A start that hangs ends with ctx and with the run's limits, and after ten seconds in any case.
//
// The Result is nil if the command was not started. The error is nil if the command exited by itself with status 0,
// even if it had tripped before. If the command exited by itself and failed, the error is an [*exec.ExitError] itself,
// so that a type assertion finds it, too. Its Stderr is empty, as after the Run of package exec. Otherwise Run wraps
// one of these:
//
//   - a [*Stalled] if Run ended the command because it was stuck
//   - the cause of ctx or of the run around the command, such as a [*watchdog.Stop], if that ended the command
//   - [watchdog.ErrInvalid], an error of [watchdog.New] or one of the operating system if the command was not started
//
// With the first two, [errors.As] finds an *exec.ExitError as well, unless the command exited with status 0.
//
// On Linux the command is a child of the guard, and package os makes an [os.ProcessState] only for a child of the host.
// So the guard sends what wait4 said, and Run makes one of it, after it has compared the fields of that type with those
// that it knows. In a future Go that has other fields the error is an [*ExitError], and ProcessState stays nil.
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
	c.waited = true
	if err := c.Start(ctx); err != nil {
		return nil, err
	}
	return c.Wait()
}
