// Guard runs any command under the stall sentinel: it ends the command when it is stuck, with everything that it started.
//
//	go run ./examples/guard -no-output 5m -- make test
//	go run ./examples/guard -no-output 2s -grace-int 1s -grace-term 1s -artifacts state -- sh -c 'echo begun; sleep 600'
//	go run ./examples/guard -probe './probe.sh' -probe-interval 30s -stall-threshold 3 -- ./deploy
//
// Standard input, output and error are the command's. What the guard itself has to say is one line on standard error, when it ended the command or could not run
// it.
//
// # Exit status
//
// It is the command's own; 128 and the number of the signal that ended it, as in a shell; 124 if it was stuck or its budget was used up; 125 for an error of the
// guard, such as a wrong command line; 126 for a command that cannot be executed and 127 for one that is not there. Go run has an exit status of its own: build the
// program to see these.
//
// # What it does not do
//
// It keeps the event of a cancel in memory only: a host that has a store gives it to [stall.Run]. It does not try again.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

// The exit statuses that are not the command's.
const (
	exitStuck         = 124
	exitError         = 125
	exitNotExecutable = 126
	exitNotFound      = 127
	exitSignalled     = 128
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// run is the program, less what ends the process.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	opts, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, err = fmt.Fprint(stdout, usage())
		return say(stderr, err)
	case err != nil:
		return say(stderr, fmt.Errorf("%w\nguard -h lists the flags", err))
	}
	ctx, stop := signalled()
	defer stop()
	cmd := exec.Command(opts.command[0], opts.command[1:]...) //nolint:noctx // the context is given to stall.Run
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	opts.config.Store = &watchdog.Memory{}
	result, err := stall.Run(ctx, cmd, opts.config)
	return conclude(ctx, stderr, result, err)
}

// conclude says what is to be said, and returns the exit status.
func conclude(ctx context.Context, stderr io.Writer, result *stall.Result, err error) int {
	if result == nil {
		return notStarted(stderr, err)
	}
	if result.ArtifactErr != nil {
		_, _ = fmt.Fprintf(stderr, "guard: %v\n", result.ArtifactErr)
	}
	var stalled *stall.Stalled
	var stop *watchdog.Stop
	var outside signalError
	switch {
	case errors.Is(err, stall.ErrSurvivors):
		return say(stderr, err)
	case errors.As(err, &stalled):
		_, _ = fmt.Fprintf(stderr, "guard: %s: %s\n", stalled.Trip.Reason, outcome(result))
		return exitStuck
	case errors.As(err, &stop):
		_, _ = fmt.Fprintf(stderr, "guard: %v of %v used up: %s\n", stop.Elapsed, stop.Budget, outcome(result))
		return exitStuck
	case errors.As(context.Cause(ctx), &outside) && !result.Finished:
		_, _ = fmt.Fprintf(stderr, "guard: %v: %s\n", outside, outcome(result))
		return exitSignalled + int(outside.signal)
	case result.Signal != 0:
		return exitSignalled + int(result.Signal)
	case result.Finished:
		return result.ExitCode
	default:
		return say(stderr, err)
	}
}

// outcome says what was done and what it came to, and where it is described.
func outcome(result *stall.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "the command was ended by %v", result.EndedBy)
	if result.Trip != nil && len(result.Trip.Fingerprints) > 0 {
		fmt.Fprintf(&b, " [%s]", strings.Join(result.Trip.Fingerprints, " "))
	}
	if result.Artifacts != "" {
		fmt.Fprintf(&b, ", see %s", result.Artifacts)
	}
	return b.String()
}

// notStarted says why the command was not started.
func notStarted(stderr io.Writer, err error) int {
	_ = say(stderr, err)
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return exitNotFound
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOEXEC):
		return exitNotExecutable
	default:
		return exitError
	}
}

// say prints an error of the guard's own.
func say(stderr io.Writer, err error) int {
	if err == nil {
		return 0
	}
	_, _ = fmt.Fprintf(stderr, "guard: %v\n", err) // there is nowhere else to say it
	return exitError
}

// A signalError is the cause of a context that a signal to the guard ended.
type signalError struct{ signal syscall.Signal }

func (e signalError) Error() string { return "the guard got a signal: " + e.signal.String() }

// signalled returns a context that ends at the first signal that asks the guard to end.
func signalled() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		select {
		case sig := <-signals:
			cancel(signalError{sig.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}
