package main

import (
	"context"
	"io"
	"net"

	"github.com/seed62658d38/watchdog"
)

// Main is the program, for the test binary to be.
func Main() { main() }

// A Result is how a run went.
type Result = result

// Kinds are those of its events.
func (r result) Kinds() []string { return r.kinds() }

// Play plays the scenarios of a name over a network of the test's.
func Play(
	ctx context.Context, name string, store watchdog.EventStore, raw bool,
	listen func(context.Context) (net.Listener, error), dial func(context.Context, string, string) (net.Conn, error), out io.Writer,
) ([]Result, error) {
	return playEach(ctx, named(name), host{network{listen, dial}, store, raw}, out)
}

// What a test calls alone.
var (
	PrintTable = printTable
	Judge      = judge
)

// A Steering is what brings directives to a loop that waits.
type Steering = steering

// ErrDirected is what it ends a request with.
var ErrDirected = errDirected

// The methods of a Steering.
func (s *steering) Tell(d watchdog.Directive)   { s.tell(d) }
func (s *steering) Heeded(d watchdog.Directive) { s.heeded(d) }
func (s *steering) Steer(ctx context.Context) (context.Context, func()) {
	return s.steer(ctx)
}
