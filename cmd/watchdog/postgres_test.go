package main_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
)

// shared is the PostgreSQL server of all tests. Each test has a database of its own.
var shared struct {
	once   sync.Once
	server *pgtest.Server
	err    error
}

// postgresURL returns the connection string of a new database.
func postgresURL(tb testing.TB) string {
	tb.Helper()
	shared.once.Do(func() { shared.server, shared.err = pgtest.New(context.Background(), pgtest.Options{}) })
	if errors.Is(shared.err, pgtest.ErrNotInstalled) {
		tb.Skip("PostgreSQL is needed for this test:", shared.err)
	}
	require.NoError(tb, shared.err)
	return shared.server.DSN(shared.server.Database(tb))
}

// closePostgres ends the server, if there is one.
func closePostgres() error {
	if shared.server == nil {
		return nil
	}
	return shared.server.Close()
}
