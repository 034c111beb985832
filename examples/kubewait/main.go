// Kubewait waits for a Kubernetes resource that never appears, until a probe ends the wait. It shows what [stall.Run]
// does for a command that is busy, keeps printing and makes no progress, and what package converge does when the next
// attempt ends in the same way.
//
//	go run ./examples/kubewait                            a definition that never appears: given up after four attempts
//	go run ./examples/kubewait -appears-after 1s          a definition that appears
//	go run ./examples/kubewait -kind deployment -name shop -appears-after 1s     replicas that take time to become ready
//	go run ./examples/kubewait -artifacts state           with an event.json and a probe.jsonl for each attempt
//
// The program runs in three roles, so that it needs no other program. The host (host.go) starts a small API server
// (internal/fakeapi) and makes attempts. The wait (roles.go) is the command of an attempt: it asks the API again and
// again. The probe (roles.go) tells the sentinel whether the wait makes progress, with a class, a digest and
// fingerprints such as k8s/crd/missing:widgets.example.com. The wait and the probe work on a real API too:
//
//	kubectl proxy &
//	kubewait probe -server http://127.0.0.1:8001 -kind crd -name widgets.example.com
//
// For each attempt the program prints why it ended, the event in the store, and the instructions for the next attempt.
// The times are fractions of a second, short enough to watch; real ones are minutes.
//
// # Exit status
//
// It is 0 when the resource is ready, 3 when the program gave up, 2 for a wrong command line, and 1 for everything
// else, such as an interrupt. The wait and the probe exit with 0, 2 or 1. go run has an exit status of its own: build
// the program to see these.
//
// # What it does not do
//
// Nobody follows the instructions: every attempt is the same. The events are in memory only.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

// The exit statuses.
const (
	exitReady   = 0
	exitError   = 1
	exitUsage   = 2
	exitGivenUp = 3
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }

// run is main without os.Exit.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	role, args := roleOf(args)
	opts, err := parse(role, args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, err = fmt.Fprint(stdout, usage())
	case err != nil:
		_ = printError(stderr, err)
		_, _ = fmt.Fprintln(stderr, "kubewait -h lists the flags")
		return exitUsage
	case role != "":
		err = runRole(ctx, role, opts, stdout)
	default:
		err = host(ctx, opts, stdout)
	}
	return printError(stderr, err)
}

// roleOf splits the role from the arguments, "" for the host.
func roleOf(args []string) (role string, rest []string) {
	if len(args) > 0 && (args[0] == waitRole || args[0] == probeRole) {
		return args[0], args[1:]
	}
	return "", args
}

// printError prints an error, if there is one and the report has not said it already, and returns the exit status.
func printError(stderr io.Writer, err error) int {
	switch {
	case err == nil:
		return exitReady
	case errors.Is(err, errGivenUp):
		return exitGivenUp
	}
	_, _ = fmt.Fprintf(stderr, "kubewait: %v\n", err)
	return exitError
}
