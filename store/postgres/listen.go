package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Listen notices within pingInterval and pingTimeout that its connection is lost. Without a ping it would not notice if
// the other end vanished without closing it, because a listener only waits. A machine or a firewall in between can be
// what vanished, so that the system's own check of a connection does not find it.
const (
	// pingInterval is how long a connection may be idle before Listen pings the server.
	pingInterval = 2 * time.Second
	// pingTimeout is how long the server has to answer. A busy one that takes longer costs only a new connection.
	pingTimeout = 5 * time.Second
	// connectTimeout is how long each host has to accept a connection, unless the pool has a limit of its own.
	connectTimeout = 10 * time.Second
	// setupTimeout is how long AfterConnect of the pool and the start of listening may take together.
	setupTimeout = 15 * time.Second
	// probeTimeout is how long a connection through a pooler has to receive a notification of its own.
	probeTimeout = 5 * time.Second
)

// channel returns the name of the notification channel of our schema. It has a hash of the schema's name, so that it
// fits into a name of PostgreSQL.
func (s *Store) channel() string { return fmt.Sprintf("watchdog_cancel_%016x", hash(s.schema)) }

// Listen implements [session.Listener]. It uses a connection of its own, with the configuration of the pool's. It
// returns nil when ctx is done. If the server stops answering it returns an error after at most seven seconds. Behind a
// pooler it first checks whether notifications arrive, and returns [ErrNoNotifications] if they do not.
func (s *Store) Listen(ctx context.Context, ready func(), told func(runID string)) error {
	err := s.whileOpen(ctx, "listen to", func(ctx context.Context) error {
		return s.do(ctx, "listen to", func(ctx context.Context) error { return s.receive(ctx, ready, told) })
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// whileOpen runs a call in a context that Close ends.
func (s *Store) whileOpen(ctx context.Context, doing string, call func(context.Context) error) error {
	inner, cancel := s.untilClosed(ctx)
	defer cancel()
	err := call(inner)
	if inner.Err() != nil {
		return s.wrapError(ctx, doing, cmp.Or(ctx.Err(), ErrClosed))
	}
	return err
}

// untilClosed returns a context that Close ends.
func (s *Store) untilClosed(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.closing, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// isClosing is true at once when Close was called; the context of untilClosed ends a little later.
func (s *Store) isClosing() bool { return s.closing.Err() != nil }

// receive calls told for each notification. It returns when the context ends or the connection is lost.
func (s *Store) receive(ctx context.Context, ready func(), told func(runID string)) error {
	conn, err := s.connect(ctx, s.listenOn)
	if err != nil {
		return err
	}
	defer closeConn(ctx, conn)
	ready()
	return s.nameServer(conn, s.receiveFrom(ctx, conn, told))
}

func (s *Store) receiveFrom(ctx context.Context, conn *pgx.Conn, told func(runID string)) error {
	for {
		notification, err := waitForNotification(ctx, conn, pingInterval)
		switch {
		case err != nil:
			return err
		case notification == nil:
			if err := ping(ctx, conn); err != nil {
				return err
			}
		case notification.Channel == s.channel():
			told(notification.Payload)
		}
	}
}

// ping returns an error if the server does not answer in time.
func ping(ctx context.Context, conn *pgx.Conn) error {
	limited, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	err := conn.Ping(limited)
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case limited.Err() != nil:
		return fmt.Errorf("the connection is lost: the server did not answer within %v", pingTimeout)
	default:
		return fmt.Errorf("the connection is lost: %w", err)
	}
}

// connect opens a connection with the pool's configuration, and sets it up. It takes none from the pool, because the
// host may hold all of them while it waits for us.
func (s *Store) connect(ctx context.Context, setUp func(context.Context, *pgx.Conn) error) (*pgx.Conn, error) {
	config := s.pool.Config()
	config.ConnConfig.OnNotification = nil // the host's handler would take our notifications
	config.ConnConfig.ConnectTimeout = cmp.Or(config.ConnConfig.ConnectTimeout, connectTimeout)
	if config.BeforeConnect != nil {
		if err := config.BeforeConnect(ctx, config.ConnConfig); err != nil {
			return nil, err
		}
	}
	connected := dialOnce(config.ConnConfig)
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	connected.Store(true)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	if config.AfterConnect != nil {
		err = config.AfterConnect(limited, conn)
	}
	if err == nil {
		err = setUp(limited, conn)
	}
	if err == nil {
		return conn, nil
	}
	if limited.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("the connection was not set up within %v", setupTimeout)
	}
	err = s.nameServer(conn, err)
	closeConn(ctx, conn)
	return nil, err
}

// dialOnce makes dialing fail once the value that it returns is true. Before pgx gives up a connection it would ask the
// server, in another connection and for up to fifteen seconds, to cancel what runs in the first. Nothing does.
func dialOnce(config *pgx.ConnConfig) (connected *atomic.Bool) {
	connected = new(atomic.Bool)
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if connected.Load() {
			return nil, errors.New("a listener has one connection")
		}
		return dial(ctx, network, address)
	}
	return connected
}

// listenOn has a connection listen to the channel of our schema.
func (s *Store) listenOn(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, "LISTEN "+s.channel()); err != nil {
		return err
	}
	return s.probe(ctx, conn)
}

// closeConn returns when the connection is closed and cleaned up. It works also when ctx is done. If the connection is
// lost, pgx would wait for up to fifteen seconds for the server to close it, too.
func closeConn(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // CleanupDone follows, whatever it returns
	_ = conn.PgConn().Conn().Close()
	<-conn.PgConn().CleanupDone()
}

// probe checks whether a connection through a pooler receives notifications. It does in session mode. In transaction
// mode the pooler gives the server's connection, which now listens, to the next client.
func (s *Store) probe(ctx context.Context, conn *pgx.Conn) error {
	var pid uint32
	if err := conn.QueryRow(ctx, "SELECT pg_catalog.pg_backend_pid()", pgx.QueryExecModeExec).Scan(&pid); err != nil {
		return err
	}
	if pid == conn.PgConn().PID() {
		return nil
	}
	channel := "watchdog_probe_" + rand.Text()
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
		return err
	}
	if _, err := s.pool.Exec(ctx, "SELECT pg_catalog.pg_notify($1, '')", s.unprepared([]any{channel})...); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	for {
		notification, err := waitForNotification(ctx, conn, 2*probeTimeout)
		switch {
		case err != nil && ctx.Err() != nil:
			_, _ = conn.Exec(context.WithoutCancel(ctx), "UNLISTEN *") // may reach another connection of the pooler
			return ErrNoNotifications
		case err != nil:
			return err
		case notification.Channel == channel:
			return nil
		}
	}
}

// waitForNotification returns nil if no notification arrives within the timeout.
func waitForNotification(ctx context.Context, conn *pgx.Conn, timeout time.Duration) (*pgconn.Notification, error) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	notification, err := conn.WaitForNotification(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return nil, nil
	}
	return notification, err
}
