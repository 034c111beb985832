// Package stores opens the store that a person names, and reads what it has of one run.
//
// It decides nothing about a run, and shows nothing.
package stores

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/story"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// A Database is a store that this program can open.
type Database interface {
	event.LayerStore
	session.Store
	session.Lister
	Close() error
}

// ErrNone is what opening a store without a name returns.
var ErrNone = errors.New("no store is named; write --store sqlite:PATH or --store postgres://..., " +
	"or set WATCHDOG_STORE")

// A Use is what a store is opened for.
type Use int

// The uses: Reading creates and changes nothing.
const (
	Reading Use = iota
	Writing
)

// Open opens the store of a name. For writing it creates what is missing, and logs what a version before left.
func Open(ctx context.Context, name string, use Use, log *slog.Logger) (Database, error) {
	kind, path, err := named(name)
	switch {
	case err != nil:
		return nil, err
	case kind == "sqlite" && use == Reading:
		return opened(sqlite.OpenReadOnly(ctx, path))
	case kind == "sqlite":
		return opened(sqlite.Config{Logger: log}.Open(ctx, path))
	}
	return opened(postgres.Open(ctx, path, postgres.Config{ReadOnly: use == Reading, Logger: log}))
}

// opened keeps a nil store from being a Database that is not nil.
func opened[S Database](store S, err error) (Database, error) {
	if err != nil {
		return nil, err
	}
	return store, nil
}

// scheme begins a URL. What follows it may hold a password.
var scheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://`)

// named returns which store is named, and the path or the connection string of it. No error repeats what is named: it
// may hold a password, also where it is none of ours.
func named(name string) (kind, path string, err error) {
	kind, path, found := strings.Cut(name, ":")
	switch {
	case name == "":
		return "", "", ErrNone
	case found && kind == "sqlite" && path != "":
		return kind, path, nil
	case found && (kind == "postgres" || kind == "postgresql"):
		return "postgres", name, nil
	case scheme.MatchString(name):
		return "", "", fmt.Errorf("--store: there is no store %s; write sqlite:PATH or postgres://HOST/DATABASE",
			scheme.FindString(name))
	}
	return "", "", errors.New("--store: write sqlite:PATH for a file, or postgres://HOST/DATABASE for PostgreSQL")
}

// WithoutPassword is the name of a store as it can be shown.
func WithoutPassword(store string) string {
	if strings.HasPrefix(store, "sqlite:") {
		return store
	}
	u, err := url.Parse(store)
	if err != nil || u.Opaque != "" {
		return "..."
	}
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	query := u.Query()
	for key := range query {
		if strings.Contains(strings.ToLower(key), "password") {
			query.Del(key)
		}
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// Record reads what the store has of a run, the layers left out. A row that cannot be read is a
// [session.ErrUnreadable] beside the events, and one that there is not is none.
func Record(ctx context.Context, db Database, runID string) (r story.Record, err error) {
	r.RunID = runID
	if r.Events, err = db.Read(ctx, event.AggregateType, runID); err != nil {
		return r, err
	}
	row, err := db.Session(ctx, runID)
	switch {
	case err == nil:
		r.Row = &row
	case errors.Is(err, session.ErrNotFound):
		err = nil
	}
	return r, err
}

// Now is the time by the clock that the times of sessions are by.
func Now(ctx context.Context, db Database) (time.Time, error) {
	page, err := db.List(ctx, session.ListQuery{Limit: 1})
	if err != nil || !page.Now.IsZero() {
		return page.Now, err
	}
	return time.Now(), nil
}
