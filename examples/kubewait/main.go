// Kubewait waits for a Kubernetes resource that never appears, and is ended by its probe: what [stall.Run] does for a command that is busy, prints on and on, and gets
// nowhere, and what package converge makes of it when the next attempt ends in the same way.
//
//	go run ./examples/kubewait                                            a definition that never appears: given up after four attempts
//	go run ./examples/kubewait -appears-after 1s                          one that does
//	go run ./examples/kubewait -kind deployment -name shop -appears-after 1s     one that takes its time to be ready
//	go run ./examples/kubewait -artifacts state                           with an event.json and a probe.jsonl for each attempt
//
// The program is three, so that it needs nothing else. The host (host.go) starts a small API server (internal/fakeapi) and makes attempts. The wait (roles.go) is the
// command of an attempt: it asks the API again and again. The probe (roles.go) is asked by the sentinel whether that gets anywhere, and answers with a class, a digest and
// fingerprints, such as k8s/crd/missing:widgets.example.com. The last two work on a real API too:
//
//	kubectl proxy &
//	kubewait probe -server http://127.0.0.1:8001 -kind crd -name widgets.example.com
//
// Of each attempt is printed why it was ended, which event that left in the store, and what the next attempt would be told. The times are fractions of a second, so that it can
// be watched; real ones are minutes.
//
// # Exit status
//
// It is 0 when the resource is ready, 3 when it was given up or the attempts were used up, 2 for a command line that cannot be meant, and 1 for everything else, such as an
// interrupt. The roles have 0, 2 and 1. Go run has an exit status of its own: build the program to see these.
//
// # What it does not do
//
// Nobody acts on the instructions: every attempt is the same. It keeps the events in memory, until the end.
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

// run is the program, less what ends the process.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	role, args := roleOf(args)
	opts, err := parse(role, args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, err = fmt.Fprint(stdout, usage())
	case err != nil:
		_ = complain(stderr, err)
		_, _ = fmt.Fprintln(stderr, "kubewait -h lists the flags")
		return exitUsage
	case role != "":
		err = playRole(ctx, role, opts, stdout)
	default:
		err = host(ctx, opts, stdout)
	}
	return complain(stderr, err)
}

// roleOf takes the role from the arguments, "" for the host.
func roleOf(args []string) (role string, rest []string) {
	if len(args) > 0 && (args[0] == waitRole || args[0] == probeRole) {
		return args[0], args[1:]
	}
	return "", args
}

// complain prints an error, if there is one that was not told already, and returns the exit status.
func complain(stderr io.Writer, err error) int {
	switch {
	case err == nil:
		return exitReady
	case errors.Is(err, errGivenUp):
		return exitGivenUp
	}
	_, _ = fmt.Fprintf(stderr, "kubewait: %v\n", err) // there is nowhere else to say it
	return exitError
}
