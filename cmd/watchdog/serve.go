package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/stores"
	"github.com/seed62658d38/watchdog/config"
	"github.com/seed62658d38/watchdog/page"
	"github.com/seed62658d38/watchdog/sweep"
)

//nolint:lll // a tag cannot be broken
type serveCmd struct {
	Listen string   `default:"127.0.0.1:8080" placeholder:"ADDR" env:"WATCHDOG_LISTEN" help:"Where to serve (${default})."`
	Host   []string `placeholder:"NAME" sep:"none" help:"Answer this name, too, besides localhost and the address. Can be repeated."`
	Page   bool     `help:"Serve the page only: sweep nothing and write nothing."`
}

// Help is the rest of the command's help.
func (serveCmd) Help() string {
	return `Sweeps the store as watchdog sweep does, and serves the page of its runs at / and
the health of the sweeper at /healthz: 200, or 503 if the last pass failed or the
next is late. With --page it only serves the page, and opens the store to read.
Whoever reaches the address sees all sessions: put it behind what authenticates
people, or leave it on this machine.

It answers to localhost, to the name in --listen and to the address that it was
reached at. Any other name, such as one that a proxy passes on, needs a --host
and gets status 421 without.

SIGINT and SIGTERM end it after the sessions in hand.

Examples:
  watchdog serve --store sqlite:state/events.db --page
  watchdog serve --store postgres://app@db/agents --config watchdog.yaml`
}

// Run serves until the context ends or a signal comes.
func (c serveCmd) Run(ctx context.Context, p Program, common *Common, model *kong.Application) error {
	limits := &config.Config{}
	if !c.Page {
		var err error
		if limits, err = common.sweeping(model, false); err != nil {
			return p.failEach(err)
		}
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return p.withStore(ctx, common, useOf(c.Page || limits.Sweep.DryRun), func(db stores.Database) error {
		return c.serve(ctx, p, common, db, limits)
	})
}

func (c serveCmd) serve(
	ctx context.Context, p Program, common *Common, db stores.Database, limits *config.Config,
) (err error) {
	var sweeper *sweep.Sweeper
	passes := &page.PassLog{}
	if !c.Page {
		if sweeper, err = p.sweeper(db, limits, common.JSON, passes.Add); err != nil {
			return err
		}
	}
	var listening net.ListenConfig
	listener, err := listening.Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("--listen: %w; name a free address of this machine, such as 127.0.0.1:8081", err)
	}
	pages, handler, err := p.pagesOf(common, db, sweeper, passes, c.hosts(listener.Addr()))
	if err != nil {
		return errors.Join(fmt.Errorf("--host: %w", err), listener.Close())
	}
	defer func() { err = errors.Join(err, pages.Close()) }()
	p.note(common, fmt.Sprintf("the page is at http://%s/; press Ctrl-C to end", listener.Addr()))
	p.warnReachable(common, listener.Addr())
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	server.RegisterOnShutdown(func() { _ = pages.Close() }) // the readers of updates do not leave by themselves
	return serveAndSweep(ctx, listener, server, sweeper)
}

// serveAndSweep returns when the context has ended, or when one of the two fails.
func serveAndSweep(ctx context.Context, listener net.Listener, server *http.Server, sweeper *sweep.Sweeper) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	served := make(chan error, 1)
	go func() {
		defer end()
		served <- server.Serve(listener)
	}()
	var swept error
	if sweeper != nil {
		swept = sweeper.Run(ctx)
		end()
	}
	<-ctx.Done()
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(closing); err != nil {
		_ = server.Close() // of requests that the database keeps waiting
	}
	err := <-served
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return errors.Join(swept, err)
}

// hosts are the names that are answered: those of this machine for itself, where it listens, and those of --host. The
// page adds the address of each connection, so that a server that listens on all of them has those that come later.
func (c serveCmd) hosts(at net.Addr) []string {
	names := []string{"localhost", "127.0.0.1", "::1", at.String()}
	if given, _, err := net.SplitHostPort(c.Listen); err == nil && given != "" {
		names = append(names, given)
	}
	return slices.Concat(names, c.Host)
}

// warnReachable says that other machines reach the address, if they do.
func (p Program) warnReachable(common *Common, at net.Addr) {
	if tcp, is := at.(*net.TCPAddr); is && tcp.IP.IsLoopback() {
		return
	}
	const what = "other machines can reach this address, and whoever does sees all sessions"
	if common.JSON {
		p.logger(true).Warn(what, "address", at.String())
		return
	}
	p.note(common, fmt.Sprintf("%s: %s; listen on 127.0.0.1, or put it behind what authenticates people", what, at))
}

// pagesOf makes the page of a store, and the handler that serves it at /, and the health of the sweeper, if there is
// one, both under the names of the page.
func (p Program) pagesOf(
	common *Common, db stores.Database, sweeper *sweep.Sweeper, passes *page.PassLog, hosts []string,
) (*page.Page, http.Handler, error) {
	cfg := page.Config{Sessions: db, Events: db, Hosts: hosts, Logger: p.logger(common.JSON)}
	mux := http.NewServeMux()
	if sweeper != nil {
		cfg.Sweeper, cfg.PassLog = sweeper, passes
		mux.Handle("/healthz", sweeper.Handler())
	}
	pages, err := page.New(cfg)
	if err != nil {
		return nil, nil, err
	}
	mux.Handle("/{$}", pages)
	return pages, pages.Guard(mux), nil
}
