// Guard runs any command under the stall sentinel. When the command is stuck, guard ends it and every process that it
// started.
//
//	go run ./examples/guard -no-output 5m -- make test
//	go run ./examples/guard -no-output 2s -grace-int 1s -artifacts state -- sh -c 'echo started; sleep 600'
//	go run ./examples/guard -probe './probe.sh' -probe-interval 30s -stall-threshold 3 -- ./deploy
//
// The command has the guard's standard input, output and error. The guard itself prints one line on standard error when
// it ended the command or could not run it, and one more if the last probes failed. Without -no-output, -probe,
// -terminal and -budget it never ends the command: it only ends the background processes that the command left.
// What a daemon starts on the command's behalf, as for docker exec or ssh, is no process of the command and lives on: a
// host has stall.Config.AlsoEnd for that.
//
// # Signals
//
// On SIGINT, SIGTERM or SIGHUP the guard ends the command as on a stall; a second signal ends the guard and the
// command at once. A signal that the guard was started to ignore, as with nohup, stays ignored. If standard input is
// a terminal, the command is in the guard's process group: Ctrl-C reaches it from the terminal, and the guard ignores
// SIGINT. The guard passes SIGQUIT (Ctrl-\) on and goes on itself.
//
// # Exit status
//
// It is the command's own; 128 plus the number of the signal that ended the command or that the guard got, as in a
// shell; 124 if the command was stuck or out of budget; 125 for an error of the guard, such as a wrong command line;
// also for output that could not be written, such as to a full disk, of a command that succeeded;
// 126 for a command that cannot be executed and 127 for a missing one. go run has an exit status of its own: build
// the program to see these.
//
// # What it does not do
//
// It keeps the cancel event in memory only; a host passes its store to [stall.Run]. It does not run the command again.
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

// run is main without os.Exit.
func run(args []string, stdin, stdout, stderr *os.File) int {
	opts, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, err = fmt.Fprint(stdout, usage())
		return printError(stderr, err)
	case err != nil:
		status := printError(stderr, err)
		_, _ = fmt.Fprintln(stderr, "guard -h lists the flags")
		return status
	}
	ctx, stop := signalled(stdin)
	defer stop()
	quit, stopQuit := forwarded(stdin)
	defer stopQuit()
	opts.config.Forward = quit
	opts.config.Store = &watchdog.Memory{}
	opts.config.Logger = slog.New(slog.DiscardHandler) // printOutcome reports it
	result, err := stall.Run(ctx, command(opts.command, stdin, stdout, stderr), opts.config)
	if result == nil {
		return notStarted(stderr, err)
	}
	return printOutcome(stderr, result, err)
}

func command(words []string, stdin, stdout, stderr *os.File) *exec.Cmd {
	cmd := exec.Command(words[0], words[1:]...) //nolint:noctx // stall.Run takes the context
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	return cmd
}

// printError prints an error of the guard itself, if there is one, and returns the exit status.
func printError(stderr io.Writer, err error) int {
	if err == nil {
		return 0
	}
	say(stderr, err.Error())
	return exitError
}
