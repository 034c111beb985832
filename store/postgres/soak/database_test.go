//go:build linux

package soak_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed62658d38/watchdog"
)

// readDatabase reads all rows, and the end events and openings of all windows, without the library. It tries again for a
// while: a server that crashed starts again by itself.
func readDatabase(dsn string) (found stored, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		found, err = readOnce(ctx, dsn)
		if err == nil || ctx.Err() != nil {
			return found, err
		}
		pause(ctx, promise/10)
	}
}

func readOnce(ctx context.Context, dsn string) (found stored, err error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return found, err
	}
	defer conn.Close(ctx)
	if found.rows, err = readRows(ctx, conn); err != nil {
		return found, err
	}
	return found, found.readEvents(ctx, conn)
}

func readRows(ctx context.Context, conn *pgx.Conn) (map[string]row, error) {
	all := map[string]row{}
	found, err := conn.Query(ctx, "SELECT run_id, status, reason, started_at FROM watchdog_sessions")
	if err != nil {
		return nil, err
	}
	var run string
	var r row
	_, err = pgx.ForEachRow(found, []any{&run, &r.status, &r.reason, &r.started}, func() error {
		all[run] = r
		return nil
	})
	return all, err
}

func (f *stored) readEvents(ctx context.Context, conn *pgx.Conn) error {
	f.ends, f.resumed = map[window][]end{}, map[window]bool{}
	found, err := conn.Query(ctx,
		"SELECT aggregate_id, event_type, payload::text FROM events WHERE event_type IN ($1, $2, $3)",
		watchdog.EventCancel, watchdog.EventComplete, watchdog.EventResume)
	if err != nil {
		return err
	}
	var run, kind, payload string
	_, err = pgx.ForEachRow(found, []any{&run, &kind, &payload}, func() error {
		var p struct {
			Reason, Author string
			Start          time.Time `json:"session_started_at"`
		}
		if err := json.Unmarshal([]byte(payload), &p); err != nil {
			return fmt.Errorf("read an event of %s: %w", run, err)
		}
		w := windowOf(run, p.Start)
		if kind == watchdog.EventResume {
			f.resumed[w] = true
			return nil
		}
		f.ends[w] = append(f.ends[w], end{kind == watchdog.EventComplete, codeOf(p.Reason), p.Author})
		return nil
	})
	return err
}

// dumpTables returns the rows of all tables of sessions, and the events, for a person to read.
func dumpTables(dsn string) (map[string][]json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	tables, err := ownTables(ctx, conn)
	all := map[string][]json.RawMessage{}
	for _, table := range append(tables, "events") {
		rows, err := conn.Query(ctx, "SELECT row_to_json(one) FROM "+table+" AS one")
		if err != nil {
			return nil, err
		}
		if all[table], err = pgx.CollectRows(rows, pgx.RowTo[json.RawMessage]); err != nil {
			return nil, err
		}
	}
	return all, err
}

// codeOf returns the code of a reason in an event.
func codeOf(reason string) watchdog.StopReason {
	return watchdog.StopReason("watchdog_" + reason)
}
