package main

import (
	"context"
	"io"
	"time"
)

// Main is the program, for the test binary to be.
func Main() { main() }

// Run is the program with its arguments, less what ends the process.
var Run = run

// Usage is the help text.
var Usage = usage

// ErrGivenUp is what Attempts returns where the resource did not get ready.
var ErrGivenUp = errGivenUp

// Attempts waits for a resource of an API that the test has.
func Attempts(ctx context.Context, server, kind, name string, most int, out io.Writer) error {
	return attempts(ctx, options{
		resource: resource{kind, name}, server: server, interval: 20 * time.Millisecond, threshold: 3, attempts: most,
	}, out)
}
