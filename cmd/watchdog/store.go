package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
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
	session.Outbox
	Close() error
}

// A writing is what is written to a store: nothing, or all, with notices or without.
type writing struct{ nothing, outbox bool }

// withStore opens the store, to read only if that is enough, and closes it after the work.
func (c *Common) withStore(ctx context.Context, w writing, work func(database) error) error {
	db, err := c.openFor(ctx, w)
	if err != nil {
		return err
	}
	return errors.Join(work(db), db.Close())
}

func (c *Common) openFor(ctx context.Context, w writing) (database, error) {
	if w.nothing {
		return c.openReader(ctx)
	}
	return c.open(ctx, w.outbox)
}

// open opens the store to write to it, and creates what is missing in it. With an outbox it keeps notices of ends.
func (c *Common) open(ctx context.Context, outbox bool) (database, error) {
	kind, path, err := c.kind()
	switch {
	case err != nil:
		return nil, err
	case kind == "sqlite":
		return opened(sqlite.Config{Outbox: outbox}.Open(ctx, path))
	default:
		return opened(postgres.Open(ctx, path, postgres.Config{Outbox: outbox}))
	}
}

// openReader opens the store to read it. It creates and changes nothing.
func (c *Common) openReader(ctx context.Context) (database, error) {
	kind, path, err := c.kind()
	switch {
	case err != nil:
		return nil, err
	case kind == "sqlite":
		return opened(sqlite.OpenReadOnly(ctx, path))
	default:
		return opened(postgres.Open(ctx, path, postgres.Config{ReadOnly: true}))
	}
}

// opened keeps a nil store from being a database that is not nil.
func opened[S database](store S, err error) (database, error) {
	if err != nil {
		return nil, err
	}
	return store, nil
}

// scheme begins a URL. What follows it may hold a password.
var scheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://`)

// kind returns which store is named, and the path or the connection string of it. No error repeats what is named: it
// may hold a password, also where it is none of ours.
func (c *Common) kind() (kind, path string, err error) {
	kind, path, found := strings.Cut(c.Store, ":")
	switch {
	case c.Store == "":
		return "", "", errNoStore
	case found && kind == "sqlite" && path != "":
		return kind, path, nil
	case found && (kind == "postgres" || kind == "postgresql"):
		return "postgres", c.Store, nil
	case scheme.MatchString(c.Store):
		return "", "", fmt.Errorf("--store: there is no store %s; write sqlite:PATH or postgres://HOST/DATABASE",
			scheme.FindString(c.Store))
	}
	return "", "", errors.New("--store: write sqlite:PATH for a file, or postgres://HOST/DATABASE for PostgreSQL")
}
