package phase

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog/stall"
)

// A Phase is one step of a session.
type Phase struct {
	Name    string
	Command []string
}

// Pipeline is what a session does with a Go project, in order.
var Pipeline = []Phase{
	{"plan", []string{"go", "list", "./..."}},
	{"build", []string{"go", "build", "./..."}},
	{"vet", []string{"go", "vet", "./..."}},
	{"test", []string{"go", "test", "./..."}},
}

// Named reports whether the pipeline has a phase of the name.
func Named(name string) bool {
	return slices.ContainsFunc(Pipeline, func(p Phase) bool { return p.Name == name })
}

// Names lists the pipeline's phases.
func Names() string {
	var names []string
	for _, p := range Pipeline {
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}

// String is the command as a person would type it.
func (p Phase) String() string { return strings.Join(p.Command, " ") }

// Grace is how long a command has, after it was interrupted, before it is killed.
const Grace = time.Second

// A Runner runs phases.
type Runner struct {
	// Dir is where the commands run, Env their environment; nil is this process's.
	Dir string
	Env []string
	// Log returns the path of a phase's log, which is written anew.
	Log func(phase string) string
	// Hang names a phase to put a command in the place of that never ends and ignores interrupts; see [HangIfAsked].
	Hang string
}

// A Failure is the error of a phase whose command could not be started or did not end well.
type Failure struct {
	Phase Phase
	// Log is the path of what the command printed.
	Log string
	// Err is a [*stall.ExitError] where the command was started.
	Err error
}

// Error names the phase and the command, and never what the command printed.
func (f *Failure) Error() string {
	return fmt.Sprintf("phase %s: %s: %s", f.Phase.Name, f.Phase, f.why())
}

// why is the error as package exec words it.
func (f *Failure) why() string {
	var exit *stall.ExitError
	switch {
	case !errors.As(f.Err, &exit):
		return f.Err.Error()
	case exit.Signal != 0:
		return "signal: " + exit.Signal.String()
	default:
		return fmt.Sprintf("exit status %d", exit.Code)
	}
}

// Unwrap returns Err.
func (f *Failure) Unwrap() error { return f.Err }

// Run runs the phase and returns when nothing that its command started is alive. When the context ends, all of that is interrupted, and after [Grace] killed; Run then
// returns the [*Failure] that came of it, or nil if the command was done all the same.
func (r *Runner) Run(ctx context.Context, p Phase) error {
	path := r.Log(p.Name)
	log, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("open log of phase %s: %w", p.Name, err)
	}
	err = r.run(ctx, p, log)
	if err != nil {
		err = &Failure{p, path, err}
	}
	return errors.Join(err, log.Close())
}

// run hands the log to the command as it is: no pipe that a straggler could hold open.
func (r *Runner) run(ctx context.Context, p Phase, log *os.File) error {
	cmd, err := r.command(p)
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = log, log
	return runTree(ctx, p.Name, cmd)
}

func (r *Runner) command(p Phase) (*exec.Cmd, error) {
	if r.Hang == p.Name {
		return hanging(r.Dir)
	}
	cmd := exec.Command(p.Command[0], p.Command[1:]...) //nolint:noctx // the context is given to runTree
	cmd.Dir, cmd.Env = r.Dir, r.Env
	return cmd, nil
}
