package main

import (
	"context"
	"io"
	"time"
)

// Main runs the program in the test binary.
func Main() { main() }

// Run runs the program with its arguments.
var Run = run

// Usage returns the help text.
var Usage = usage

// ErrGivenUp is the error of Attempts when the resource did not become ready.
var ErrGivenUp = errGivenUp

// Attempts waits for a resource of the test's own API.
func Attempts(ctx context.Context, server, kind, name string, most int, out io.Writer) error {
	return attempts(ctx, options{
		resource: resource{kind, name}, server: server, interval: 20 * time.Millisecond, threshold: 3, attempts: most,
	}, out)
}
