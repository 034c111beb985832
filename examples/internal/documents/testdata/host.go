// Package host stands for the program that the documents' snippets are part of: what they use and do not declare.
package host

import (
	"context"
	"io"
	"os/exec"
	"testing"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/converge"
	loops "github.com/seed62658d38/watchdog/loop"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/stall"
)

// A database is that of store/sqlite or store/postgres.
type database interface {
	session.Store // and so a watchdog.EventStore
	session.Outbox
}

// A webhook has an address, and a secret that signs.
var url, secret string

var (
	ctx      context.Context
	cmd      *exec.Cmd
	store    database
	sessions database
	keeper   *session.Keeper
	wd       *watchdog.Watchdog
	run      watchdog.Run
	budget   watchdog.Budget
	result   *stall.Result
	tracker  *converge.Tracker
	trace    []watchdog.Signal
	turn     []loops.Step // of the agent: the calls of tools that it made at once
	body     io.ReadCloser
	out      io.Writer
)

// s is the host's own row of a session.
var s struct {
	ID        string
	StartedAt time.Time
	Block     func(watchdog.StopReason) error
}

var phases []struct {
	Run func(context.Context) error
}

var agents struct {
	Stop func(context.Context, session.Session) error
}

// What the host does: for an approval, in a step, at a tick.
var (
	ask, step func(context.Context) error
	tick      func(context.Context) (int, error)
)

// loop is the host's main loop.
var loop func(context.Context, *watchdog.Watchdog) error

// send makes a call of a model, and says what was billed. The spend of the process is in a store of its own, with slices
// by their names.
var (
	send      func(context.Context) (watchdog.Amount, error)
	spend     watchdog.SpendStore
	sliceID   string
	priceFile []byte
)

// page tells whoever is on call.
var page func(ctx context.Context, cancels int)

// openEmpty opens a store of the host's own in its tests.
var openEmpty func(*testing.T) session.Store

// What the configuration is read from: the file, and the environment of the container that the host starts.
var (
	path      string
	container struct{ Env []string }
)
