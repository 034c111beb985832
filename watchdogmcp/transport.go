package watchdogmcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

// DefaultExitGrace is the default of [Transport].ExitGrace.
const DefaultExitGrace = 5 * time.Second

// A Transport is a server that is a command, which the client talks to over its standard input and output. It is made
// by [Command], for one connection, and safe for concurrent use.
type Transport struct {
	// ExitGrace is how long a server may take to exit once its input has ended, before it is sent signals. Zero means
	// [DefaultExitGrace]; with [watchdog.None] they follow at once. Set it before Connect.
	ExitGrace time.Duration
	// MaxLineLength is that of [mcp.IOTransport]. Set it before Connect.
	MaxLineLength int

	ctx context.Context // the life of the server, which is longer than that of a Connect
	cmd *exec.Cmd
	cfg stall.Config

	mu     sync.Mutex
	closed bool
	server *server // nil before Connect
}

// Command returns a transport that runs a command as [stall.NewCommand] does: its limits, its signals and what it
// records are those of cfg, of which Step is required and names the server. The command ends with ctx and with the run
// of ctx, in which it is a layer and its output is activity. Its standard error goes to cmd.Stderr; cmd must have
// neither Stdin nor Stdout. A NoOutput in cfg also counts between calls.
//
// The error is one of stall.NewCommand, or wraps [watchdog.ErrInvalid].
func Command(ctx context.Context, cmd *exec.Cmd, cfg stall.Config) (*Transport, error) {
	if _, err := stall.NewCommand(cmd, cfg); err != nil {
		return nil, err
	}
	if cmd.Stdin != nil || cmd.Stdout != nil {
		return nil, fmt.Errorf("server %q: %w command: Stdin or Stdout is set, but the client needs both; leave them nil",
			cfg.Step, watchdog.ErrInvalid)
	}
	return &Transport{ctx: ctx, cmd: cmd, cfg: cfg}, nil
}

// Connect starts the server and returns the connection to it, whose Close is that of the Transport. A ctx that ends
// while the server starts ends it; later it means nothing. [mcp.Client.Connect] calls it; give that a ctx with a limit,
// because a server may never answer.
//
// The error is one of [stall.Command.Start], the cause of ctx, or wraps [watchdog.ErrInvalid] for a transport that was
// connected or closed before.
func (t *Transport) Connect(ctx context.Context) (mcp.Connection, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.ctx == nil:
		return nil, fmt.Errorf("%w transport: it was not made by Command", watchdog.ErrInvalid)
	case t.closed || t.server != nil:
		return nil, fmt.Errorf("server %q: %w transport: it was connected or closed already; make a new exec.Cmd and call "+
			"Command for each connection", t.cfg.Step, watchdog.ErrInvalid)
	}
	s, err := t.start(ctx)
	if err != nil {
		return nil, fmt.Errorf("server %q: %w", t.cfg.Step, err)
	}
	t.server = s
	return (&mcp.IOTransport{Reader: output{s}, Writer: input{s}, MaxLineLength: t.MaxLineLength}).Connect(ctx)
}

// Close ends the server and all that it started, and returns how it ended. It gives the server the end of its input,
// and, if that has not exited in the ExitGrace, the signals of [stall.Config].Grace. It waits for no call that is under
// way, which fails with [ErrServerGone]; the Close of the session waits for those. Where there was no Connect the
// result is nil. Each call returns the same.
//
// The error is nil for a server that exited with status 0 or that Close has ended. Else it is that of
// [stall.Command.Wait]: an [*exec.ExitError], say, or [stall.ErrSurvivors].
func (t *Transport) Close() (*stall.Result, error) {
	t.mu.Lock()
	t.closed = true
	s := t.server
	t.mu.Unlock()
	if s == nil {
		return nil, nil
	}
	return s.close()
}

// start starts the command. What it starts lives as long as t.ctx.
func (t *Transport) start(ctx context.Context) (*server, error) {
	if t.ExitGrace < 0 && t.ExitGrace != watchdog.None {
		return nil, fmt.Errorf("%w transport: ExitGrace is %v; set a time, or watchdog.None for none", watchdog.ErrInvalid,
			t.ExitGrace)
	}
	c, err := stall.NewCommand(t.cmd, t.cfg)
	if err != nil {
		return nil, err
	}
	s := &server{
		name: t.cfg.Step, grace: cmp.Or(t.ExitGrace, DefaultExitGrace),
		closing: make(chan struct{}), done: make(chan struct{}),
	}
	if s.in, err = c.StdinPipe(); err != nil {
		return nil, err
	}
	if s.out, err = c.StdoutPipe(); err != nil {
		return nil, err
	}
	life, stop := context.WithCancelCause(t.ctx)
	s.stop = stop
	unbind := context.AfterFunc(ctx, func() { stop(context.Cause(ctx)) })
	if err := c.Start(life); err != nil {
		unbind()
		stop(nil)
		return nil, err
	}
	go s.await(c)
	if !unbind() {
		_, err := s.close()
		return nil, errors.Join(context.Cause(ctx), err)
	}
	return s, nil
}
