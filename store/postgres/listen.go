package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ErrNotHeard is returned by [Store.Listen] where a pooler in transaction mode, or another thing between us and the server, keeps back what the server has to say.
var ErrNoNotifications = errors.New(
	"what the server tells does not arrive, there seems to be a pooler in transaction mode in between: connect to the server itself, or poll with Ended")

// beat is after how long a connection on which nothing is told is asked whether it still is one.
const pingInterval = 30 * time.Second

// probeTime is how long a connection through a pooler has to hear itself.
const probeTimeout = 5 * time.Second

// channel is where cancels of our schema are told. Its name fits, however long the schema's is.
func (s *Store) channel() string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s.schema)) // never fails
	return fmt.Sprintf("watchdog_cancel_%016x", h.Sum64())
}

// Listen implements [session.Listener], on a connection of its own, made as the pool makes them. It returns nil when the context ends. Behind a pooler it first
// tries whether it can hear, and returns [ErrNotHeard] if not.
func (s *Store) Listen(ctx context.Context, ready func(), told func(runID string)) error {
	outer := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := s.do(ctx, "listen to", func(ctx context.Context) error {
		go func() {
			select {
			case <-s.closing:
			case <-ctx.Done():
			}
			cancel()
		}()
		return s.receive(ctx, ready, told)
	})
	switch {
	case outer.Err() != nil:
		return nil
	case ctx.Err() != nil:
		return s.wrapError(outer, "listen to", ErrClosed)
	default:
		return err
	}
}

// hear returns when the context ends or the connection is lost.
func (s *Store) receive(ctx context.Context, ready func(), told func(runID string)) error {
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer closeConn(ctx, conn)
	if _, err := conn.Exec(ctx, "LISTEN "+s.channel()); err != nil {
		return err
	}
	if err := s.probe(ctx, conn); err != nil {
		return err
	}
	ready()
	for {
		heard, err := waitForNotification(ctx, conn, pingInterval)
		switch {
		case err != nil:
			return err
		case heard == nil:
			if err := conn.Ping(ctx); err != nil {
				return fmt.Errorf("the connection is lost: %w", err)
			}
		case heard.Channel == s.channel():
			told(heard.Payload)
		}
	}
}

// connect makes a connection as the pool would, whose own may be taken by a host that waits for us.
func (s *Store) connect(ctx context.Context) (*pgx.Conn, error) {
	config := s.pool.Config()
	config.ConnConfig.OnNotification = nil // the host's
	if config.BeforeConnect != nil {
		if err := config.BeforeConnect(ctx, config.ConnConfig); err != nil {
			return nil, err
		}
	}
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil || config.AfterConnect == nil {
		return conn, err
	}
	if err := config.AfterConnect(ctx, conn); err != nil {
		closeConn(ctx, conn)
		return nil, err
	}
	return conn, nil
}

// hangUp returns when nothing of the connection is left, also when the context has ended.
func closeConn(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // it is of no use any more
	<-conn.PgConn().CleanupDone()
}

// probe finds out whether a connection that is not to the server itself hears what others say. A pooler in session mode lets it; one in transaction mode gives the server's connection, which
// listens now, to whoever comes next.
func (s *Store) probe(ctx context.Context, conn *pgx.Conn) error {
	var pid uint32
	if err := conn.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeExec).Scan(&pid); err != nil {
		return err
	}
	if pid == conn.PgConn().PID() {
		return nil
	}
	channel := "watchdog_probe_" + rand.Text()
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
		return err
	}
	if _, err := s.pool.Exec(ctx, "SELECT pg_notify($1, '')", s.unprepared([]any{channel})...); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	for {
		heard, err := waitForNotification(ctx, conn, 2*probeTimeout)
		switch {
		case err != nil && ctx.Err() != nil:
			_, _ = conn.Exec(context.WithoutCancel(ctx), "UNLISTEN *") // with luck on the same connection
			return ErrNoNotifications
		case err != nil:
			return err
		case heard.Channel == channel:
			return nil
		}
	}
}

// next waits for what is told, and returns nil where nothing is for a time.
func waitForNotification(ctx context.Context, conn *pgx.Conn, most time.Duration) (*pgconn.Notification, error) {
	limited, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	heard, err := conn.WaitForNotification(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return nil, nil
	}
	return heard, err
}
