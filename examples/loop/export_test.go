package main

import (
	"context"
	"io"
	"net"

	"github.com/seed62658d38/watchdog"
)

// Main runs the program in the test binary.
func Main() { main() }

// A Result is the result of a run.
type Result = result

// Kinds returns the kinds of its events.
func (r result) Kinds() []string { return r.kinds() }

// Play plays the scenarios with this name over the test's network.
func Play(
	ctx context.Context, name string, store watchdog.EventStore, raw bool,
	listen func(context.Context) (net.Listener, error),
	dial func(context.Context, string, string) (net.Conn, error), out io.Writer,
) ([]Result, error) {
	return playEach(ctx, named(name), host{network{listen, dial}, store, raw}, out)
}

// Functions that a test calls directly.
var (
	PrintTable   = printTable
	CheckResults = checkResults
)
