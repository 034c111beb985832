// Guard runs any command under the stall sentinel: it ends the command when it is stuck, with everything that it started.
//
//	go run ./examples/guard -no-output 5m -- make test
//	go run ./examples/guard -no-output 2s -grace-int 1s -grace-term 1s -artifacts state -- sh -c 'echo begun; sleep 600'
//	go run ./examples/guard -probe './probe.sh' -probe-interval 30s -stall-threshold 3 -- ./deploy
//
// Standard input, output and error are the command's. What the guard itself has to say is one line on standard error, when it ended the command or could not run
// it, and one more where the last probes saw nothing. Without -no-output, -probe, -terminal and -budget it never ends the command, and sees that nothing is left behind.
//
// # Signals
//
// SIGINT, SIGTERM and SIGHUP to the guard end the command as a stall does; a second one ends the guard, and the command with it, at once. A signal that
// the guard was started to ignore, as by nohup, stays ignored. A command whose input is a terminal is in the guard's process group there, so that Ctrl-C reaches
// it from the terminal: what it does then is its own business, and the guard heeds no SIGINT.
//
// # Exit status
//
// It is the command's own; 128 and the number of the signal that ended it, or that the guard got, as in a shell; 124 if it was stuck or its budget was used up; 125
// for an error of the guard, such as a wrong command line; 126 for a command that cannot be executed and 127 for one that is not there. Go run has an exit status
// of its own: build the program to see these.
//
// # What it does not do
//
// It keeps the event of a cancel in memory only: a host that has a store gives it to [stall.Run]. It does not try again.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// run is the program, less what ends the process.
func run(args []string, stdin, stdout, stderr *os.File) int {
	opts, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, err = fmt.Fprint(stdout, usage())
		return complain(stderr, err)
	case err != nil:
		status := complain(stderr, err)
		_, _ = fmt.Fprintln(stderr, "guard -h lists the flags")
		return status
	}
	ctx, stop := signalled(stdin)
	defer stop()
	opts.config.Store = &watchdog.Memory{}
	opts.config.Logger = slog.New(slog.DiscardHandler) // conclude says it
	result, err := stall.Run(ctx, command(opts.command, stdin, stdout, stderr), opts.config)
	if result == nil {
		return notStarted(stderr, err)
	}
	return conclude(stderr, result, err)
}

func command(words []string, stdin, stdout, stderr *os.File) *exec.Cmd {
	cmd := exec.Command(words[0], words[1:]...) //nolint:noctx // the context is given to stall.Run
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	return cmd
}

// complain prints an error of the guard's own, if there is one, and returns the exit status.
func complain(stderr io.Writer, err error) int {
	if err == nil {
		return 0
	}
	say(stderr, err.Error())
	return exitError
}
