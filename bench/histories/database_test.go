//go:build linux

package histories_test

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/ramdisk"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// openStore opens the store at a path, or that of a connection string.
func openStore(address string) (s store, closed func() error, err error) {
	if !strings.Contains(address, "://") {
		file, err := sqlite.Open(context.Background(), address)
		if err != nil {
			return nil, nil, err
		}
		return file, file.Close, nil
	}
	for range tries { // its connection can be ended while the store opens, or there is no primary
		var server *postgres.Store
		if server, err = postgres.Open(context.Background(), address, postgres.Config{Logger: quiet}); err == nil {
			return server, func() error { server.Close(); return nil }, nil
		}
		time.Sleep(retryPause)
	}
	return nil, nil, err
}

// A database is one with the faults that it has beside those of processes.
type database struct {
	address string
	// disturb does one fault after the other while goesOn says so, and returns how many.
	disturb func(r *rand.Rand, goesOn func() bool) (faults int, err error)
}

// oneOf returns a disturb that picks one of the faults each time, and pauses before it.
func oneOf(all ...func(*rand.Rand) error) func(*rand.Rand, func() bool) (int, error) {
	return func(r *rand.Rand, goesOn func() bool) (faults int, err error) {
		for ; goesOn() && err == nil; faults++ {
			pause(r, 2*faultPause)
			err = all[r.IntN(len(all))](r)
		}
		return faults, err
	}
}

// newFile makes a database file that a stranger locks.
func newFile(t *testing.T) database {
	t.Helper()
	path := filepath.Join(t.TempDir(), "histories.db")
	s, err := sqlite.Open(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	lock := func(r *rand.Rand) error {
		conn, err := db.Conn(t.Context())
		if err != nil {
			return err
		}
		defer conn.Close()
		if _, err := conn.ExecContext(t.Context(), "PRAGMA busy_timeout = 60000; BEGIN IMMEDIATE"); err != nil {
			return err
		}
		pause(r, 3*patienceOfCall/2)
		_, err = conn.ExecContext(context.WithoutCancel(t.Context()), "ROLLBACK")
		return err
	}
	return database{path, oneOf(lock)}
}

// newServer starts a server whose connections are ended, and whose rows a stranger locks.
func newServer(t *testing.T) database {
	t.Helper()
	server := pgtest.Start(t, pgtest.Options{})
	address := server.DSN(server.Database(t))
	s, err := postgres.Open(t.Context(), address, postgres.Config{Logger: quiet})
	require.NoError(t, err)
	s.Close()
	with := func(do func(context.Context, *pgx.Conn) error) error {
		conn, err := pgx.Connect(t.Context(), address)
		if err != nil {
			return err
		}
		defer conn.Close(context.WithoutCancel(t.Context()))
		return do(t.Context(), conn)
	}
	cut := func(r *rand.Rand) error {
		return with(func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE datname = current_database() AND pid <> pg_backend_pid() AND random() < $1`, r.Float64())
			return err
		})
	}
	lock := func(r *rand.Rand) error {
		return with(func(ctx context.Context, conn *pgx.Conn) error {
			if _, err := conn.Exec(ctx, fmt.Sprintf(`BEGIN; SELECT FROM %s FOR UPDATE SKIP LOCKED`,
				[]string{"watchdog_sessions", "watchdog_spend"}[r.IntN(2)])); err != nil {
				return err
			}
			pause(r, 3*patienceOfCall/2)
			_, err := conn.Exec(ctx, "ROLLBACK")
			return err
		})
	}
	return database{address, oneOf(cut, cut, lock)}
}

// pause is how long a fault lasts, up to a time.
func pause(r *rand.Rand, most time.Duration) { time.Sleep(time.Duration(r.Int64N(int64(most)))) }

// asChild makes the test binary a process that calls a store. Its value is a job as JSON.
const asChild = "WATCHDOG_HISTORIES_CHILD"

func TestMain(m *testing.M) {
	if text := os.Getenv(asChild); text != "" {
		if err := work(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ramdisk.Use()
	_ = flag.Set("test.parallel", "6") // they wait for servers and slots most of the time
	goleak.VerifyTestMain(m)
}
