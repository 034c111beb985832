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
)

// A Phase is one step of a session.
type Phase struct {
	Name    string
	Command []string
}

// Pipeline lists the phases that a session runs on a Go project, in order.
var Pipeline = []Phase{
	{"plan", []string{"go", "list", "./..."}},
	{"build", []string{"go", "build", "./..."}},
	{"vet", []string{"go", "vet", "./..."}},
	{"test", []string{"go", "test", "./..."}},
}

// Named reports whether the pipeline has a phase with this name.
func Named(name string) bool {
	return slices.ContainsFunc(Pipeline, func(p Phase) bool { return p.Name == name })
}

// Names returns the names of the pipeline's phases.
func Names() string {
	var names []string
	for _, p := range Pipeline {
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}

// String returns the command as a person would type it.
func (p Phase) String() string { return strings.Join(p.Command, " ") }

// Grace is the time between the interrupt of a command and its kill.
const Grace = time.Second

// A Runner runs phases.
type Runner struct {
	// Dir is the working directory of the commands, Env their environment; nil is this process's.
	Dir string
	Env []string
	// Log returns the path of a phase's log. Run truncates it.
	Log func(phase string) string
	// Hang names a phase whose command is replaced by one that never ends and ignores interrupts; see [HangIfAsked].
	Hang string
}

// A Failure is the error of a phase whose command could not be started or failed.
type Failure struct {
	Phase Phase
	// Log is the path of the command's output.
	Log string
	// Err is an [*exec.ExitError] if the command was started.
	Err error
}

// Error names the phase and the command. It never holds the command's output.
func (f *Failure) Error() string {
	return fmt.Sprintf("phase %s: %s: %v", f.Phase.Name, f.Phase, f.Err)
}

// Unwrap returns Err.
func (f *Failure) Unwrap() error { return f.Err }

// Run runs the phase and returns when no process of its command is alive. When the context ends, Run interrupts all of
// them, kills them after [Grace], and returns the resulting [*Failure], or nil if the command succeeded anyway.
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

// run gives the command the log file itself, because a leftover process could hold a pipe open.
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
		return hangCommand(r.Dir)
	}
	cmd := exec.Command(p.Command[0], p.Command[1:]...) //nolint:noctx // runTree takes the context
	cmd.Dir, cmd.Env = r.Dir, r.Env
	return cmd, nil
}
