package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/seed62658d38/watchdog/stall"
)

// A phase is one step of a session.
type phase struct {
	name    string
	command []string
}

// pipeline lists the phases that a session runs on a Go project, in order.
var pipeline = []phase{
	{"plan", []string{"go", "list", "./..."}},
	{"build", []string{"go", "build", "./..."}},
	{"vet", []string{"go", "vet", "./..."}},
	{"test", []string{"go", "test", "./..."}},
}

func isPhase(name string) bool {
	return slices.ContainsFunc(pipeline, func(p phase) bool { return p.name == name })
}

func phaseNames() string {
	var names []string
	for _, p := range pipeline {
		names = append(names, p.name)
	}
	return strings.Join(names, ", ")
}

// String returns the command as a person would type it.
func (p phase) String() string { return strings.Join(p.command, " ") }

// left returns the phases that are not completed.
func (s *session) left() []phase {
	return slices.DeleteFunc(slices.Clone(pipeline), func(p phase) bool {
		return slices.Contains(s.kept.Completed, p.name)
	})
}

// demo is the default project. Here it is part of this module and tested with it; a copy beside a session's file is a
// module of its own, independent of the files around it.
//
//go:embed demo
var demo embed.FS

const demoModule = "module github.com/seed62658d38/watchdog/examples/autosession/demo\n\ngo 1.25.0\n"

// A project is a Go project that the phases work on, and the environment of their commands.
type project struct {
	dir string
	env []string
}

// findProject returns the project of the session: the user's, in the user's environment, or a copy of the built-in
// demo, in an environment in which Go uses no network and no file outside of it.
func (s *session) findProject() (project, error) {
	if s.kept.Project != "" {
		return project{s.kept.Project, os.Environ()}, nil
	}
	place := filepath.Join(s.dir.Session(s.kept.ID), "demo")
	err := os.RemoveAll(place)
	if err == nil {
		err = os.CopyFS(filepath.Dir(place), demo)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(place, "go.mod"), []byte(demoModule), 0o600)
	}
	if err != nil {
		return project{}, fmt.Errorf("unpack the built-in project: %w", err)
	}
	env := append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod -buildvcs=false", "GOPROXY=off", "GOTOOLCHAIN=local")
	return project{place, env}, nil
}

// absolute returns the absolute path of a user's project.
func absolute(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", fmt.Errorf("find project: %w", err)
	case !info.IsDir():
		return "", fmt.Errorf("find project: %s is not a directory", path)
	}
	return filepath.Abs(path)
}

// A failure is the error of a phase whose command could not be started or failed. It never holds the command's output.
type failure struct {
	phase phase
	log   string
	err   error
}

// Error names the phase and the command.
func (f *failure) Error() string {
	return fmt.Sprintf("phase %s: %s: %v", f.phase.name, f.phase, f.err)
}

// Unwrap returns why the command failed.
func (f *failure) Unwrap() error { return f.err }

// execute runs the phase's command with its output in a log, and returns when no process that it started is alive. When
// the context ends, it interrupts them all and kills them after a second.
func (s *session) execute(ctx context.Context, work project, p phase) (err error) {
	path := s.dir.Log(s.kept.ID, p.name)
	log, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("open log of phase %s: %w", p.name, err)
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	cmd := exec.Command(p.command[0], p.command[1:]...) //nolint:noctx // stall.Run takes the context
	if s.opts.hang == p.name {
		if cmd, err = hanging(); err != nil {
			return err
		}
	}
	cmd.Dir, cmd.Env = work.dir, append(cmd.Env, work.env...)
	cmd.Stdout, cmd.Stderr = log, log
	if cmd.Err != nil {
		return &failure{p, path, cmd.Err}
	}

	// The command is in no run. In the session's run it would be a layer: with warnings of its own, and ended before the
	// session by the reserve.
	alone, end := context.WithCancelCause(context.Background())
	defer context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })()
	result, err := stall.Run(alone, cmd, stall.Config{
		Step: p.name, Grace: []stall.Step{{Signal: syscall.SIGINT, Grace: time.Second}, {Signal: syscall.SIGTERM}},
	})
	if result != nil && result.ExitCode == 0 && !errors.Is(err, stall.ErrSurvivors) {
		return nil // also after the interrupt
	}
	return &failure{p, path, err}
}

// hangVariable makes this program the command that hangs.
const hangVariable = "AUTOSESSION_HANG"

// hanging returns the command that hangs: this program, started again.
func hanging() (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program to hang in its place: %w", err)
	}
	cmd := exec.Command(self) //nolint:noctx // stall.Run takes the context
	cmd.Env = []string{hangVariable + "=1"}
	return cmd, nil
}

// hangIfAsked does not return in a process that was started to hang: it ignores interrupts and waits until its parent
// has ended.
func hangIfAsked() {
	if os.Getenv(hangVariable) == "" {
		return
	}
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	fmt.Printf("process %d hangs and ignores interrupts\n", os.Getpid())
	parent := os.Getppid()
	for range time.Tick(time.Second) {
		if os.Getppid() != parent { // on systems that do not kill it with its parent
			os.Exit(1)
		}
	}
}
