package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

var errNoStore = errors.New("no store is named; write --store sqlite:PATH or --store postgres://..., " +
	"or set WATCHDOG_STORE")

// A database is a store that this program can open.
type database interface {
	watchdog.EventStore
	watchdog.FeedStore
	session.Store
	session.Lister
	Close() error
}

// open opens the store to write to it, and creates what is missing in it.
func (c *Common) open(ctx context.Context) (database, error) {
	kind, path, err := c.kind()
	switch {
	case err != nil:
		return nil, err
	case kind == "sqlite":
		return sqlite.Open(ctx, path)
	default:
		return postgres.Open(ctx, path, postgres.Config{})
	}
}

// kind returns which store is named, and the path or the connection string of it.
func (c *Common) kind() (kind, path string, err error) {
	kind, path, found := strings.Cut(c.Store, ":")
	switch {
	case c.Store == "":
		return "", "", errNoStore
	case found && kind == "sqlite" && path != "":
		return kind, path, nil
	case found && (kind == "postgres" || kind == "postgresql"):
		return "postgres", c.Store, nil
	}
	return "", "", fmt.Errorf("--store: the store is neither sqlite:PATH nor postgres://...; it begins with %q", kind)
}
