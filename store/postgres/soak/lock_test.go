//go:build linux

package soak_test

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// lock holds locks of a fault for its length, by a connection of its own. It reports whether it held them for a while.
func (c *cluster) lock(ctx context.Context, f fault) (held bool, err error) {
	conn, err := pgx.Connect(ctx, c.dsn())
	if err != nil {
		return false, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	tables, err := ownTables(ctx, conn)
	if err != nil {
		return false, err
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		return false, err
	}
	for _, table := range tables {
		statement := "LOCK TABLE " + table + " IN ACCESS EXCLUSIVE MODE"
		if f.name == rowsLocked {
			statement = "SELECT FROM " + table + " WHERE random() < 0.1 FOR UPDATE SKIP LOCKED"
		} else if table != "watchdog_sessions" {
			continue
		}
		if _, err := tx.Exec(ctx, statement); err != nil {
			return false, err
		}
	}
	time.Sleep(f.length) // how long the locks are held
	return true, tx.Rollback(ctx)
}

// ownTables returns the store's tables whose rows change.
func ownTables(ctx context.Context, conn *pgx.Conn) ([]string, error) {
	rows, err := conn.Query(ctx, "SELECT tablename::text FROM pg_tables "+
		"WHERE schemaname = 'public' AND tablename LIKE 'watchdog%' AND tablename <> 'watchdog_schema'")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
