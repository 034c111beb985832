//go:build linux

package soak_test

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// witness writes to the database without the library until ctx ends, and notes what it could not write within a
// promise: its process could not then. A machine that has too much to do cuts a process off as a network does, and
// nobody else knows when. What keeps the library alone from writing is no excuse.
func witness(ctx context.Context, dsn string, book *journal) {
	var conn *pgx.Conn
	defer func() {
		if conn != nil {
			conn.Close(context.WithoutCancel(ctx))
		}
	}()
	write := func() (err error) {
		limited, cancel := context.WithTimeout(ctx, promise)
		defer cancel()
		if conn == nil || conn.IsClosed() {
			if conn, err = pgx.Connect(limited, dsn); err != nil {
				return err
			}
		}
		_, err = conn.Exec(limited, "INSERT INTO written VALUES (now())")
		return err
	}
	for ctx.Err() == nil {
		since := sinceBoot()
		if err := write(); err != nil && ctx.Err() == nil {
			book.write(entry{What: unwritten, Since: since})
		}
		pause(ctx, promise/4)
	}
}
