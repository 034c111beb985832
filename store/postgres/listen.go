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

func (s *Store) channel() string { return fmt.Sprintf("watchdog_cancel_%016x", hash(s.schema)) }

// Listen implements [session.Listener]. It uses a connection of its own, with the configuration of the pool's. It
// returns nil when ctx is done. If the server stops answering it returns an error after at most seven seconds. Behind a
// pooler it first checks whether notifications arrive, and returns [ErrNoNotifications] if they do not.
func (s *Store) Listen(ctx context.Context, ready func(), told func(runID string)) error {
	inner, cancel := s.untilClosed(ctx)
	defer cancel()
	err := s.do(inner, "listen to", func(ctx context.Context) error { return s.receive(ctx, ready, told) })
	switch {
	case ctx.Err() != nil:
		return nil
	case inner.Err() != nil:
		return s.wrapError(ctx, "listen to", ErrClosed)
	}
	return err
}

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

func (s *Store) receive(ctx context.Context, ready func(), told func(runID string)) error {
	conn, err := s.connect(ctx, s.listenOn)
	if err != nil {
		return err
	}
	defer closeConn(ctx, conn)
	ready()
	for {
		notification, err := waitForNotification(ctx, conn, pingInterval)
		if err == nil && notification == nil {
			err = ping(ctx, conn)
		}
		switch {
		case err != nil:
			return s.nameServer(conn, err)
		case notification != nil && notification.Channel == s.channel():
			told(notification.Payload)
		}
	}
}

func ping(ctx context.Context, conn *pgx.Conn) error {
	limited, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	err := conn.Ping(limited)
	if err == nil || ctx.Err() != nil {
		return err
	}
	if limited.Err() != nil {
		err = fmt.Errorf("the server did not answer within %v", pingTimeout)
	}
	return fmt.Errorf("the connection is lost: %w", err)
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
	if err == nil && setUp != nil {
		err = setUp(limited, conn)
	}
	if err == nil {
		return conn, nil
	}
	if limited.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("the connection was not set up within %v", setupTimeout)
	}
	defer closeConn(ctx, conn)
	return nil, s.nameServer(conn, err)
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
	if limited.Err() != nil && ctx.Err() == nil {
		err = nil
	}
	return notification, err
}

// A leaseConn is the connection on which this process begins and renews its lease. Leases do not wait for the pool: the
// host may hold all of its connections, and a connection whose other end has vanished keeps its place in it for up to
// fifteen seconds, in which the process would be taken for dead.
type leaseConn struct {
	turn chan struct{} // has room for one: whoever fills it uses conn
	conn *pgx.Conn     // nil before the first use, and after an error
}

// onLeaseConn runs a call in the connection for leases, or in one of the pool if there can be no other.
func (s *Store) onLeaseConn(ctx context.Context, call func(conn *pgx.Conn) error) error {
	err := s.takeLeaseTurn(ctx)
	if err == nil && s.leases.conn == nil {
		err = s.openLeaseConn(ctx)
	}
	if err != nil {
		return err
	}
	defer func() { <-s.leases.turn }()
	conn := s.leases.conn
	if conn == nil {
		return s.onConn(ctx, call)
	}
	err = s.explain(ctx, conn, call(conn))
	if conn.IsClosed() {
		s.leases.conn = nil
		s.calls.Go(func() { closeConn(ctx, conn) })
	}
	return err
}

func (s *Store) takeLeaseTurn(ctx context.Context) error {
	select {
	case s.leases.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the connection of leases: %w", context.Cause(ctx))
	}
}

// openLeaseConn has the connection opened, and leaves it nil if it cannot be. The caller has the turn, and has it again
// when there is no error. The opening goes on when ctx ends: a call has little time, and a host may not answer.
func (s *Store) openLeaseConn(ctx context.Context) error {
	opened := make(chan struct{})
	s.calls.Go(func() {
		defer func() {
			<-s.leases.turn
			close(opened)
		}()
		ctx, cancel := s.untilClosed(context.WithoutCancel(ctx))
		defer cancel()
		s.leases.conn, _ = s.connect(ctx, nil) // nil if it cannot be opened
	})
	select {
	case <-opened:
		return s.takeLeaseTurn(ctx)
	case <-ctx.Done():
		return fmt.Errorf("open the connection of leases: %w", context.Cause(ctx))
	}
}

// A call that gets no connection of the pool within poolPatience opens one for itself, of which there are maxSpares at
// most. The host may hold all connections of the pool, and one whose other end has vanished keeps its place in it for
// up to fifteen seconds. Meanwhile live sessions could not be written.
const (
	poolPatience = time.Second / 2
	maxSpares    = 4
)

// acquire returns a connection of the pool, or a spare one, and how to give it back.
func (s *Store) acquire(ctx context.Context) (conn *pgx.Conn, release func(), err error) {
	patient, cancel := context.WithTimeout(ctx, poolPatience)
	defer cancel()
	pooled, err := s.pool.Acquire(patient)
	if err != nil && patient.Err() != nil && ctx.Err() == nil {
		if conn, release := s.spare(ctx); conn != nil {
			return conn, release, nil
		}
		pooled, err = s.pool.Acquire(ctx)
	}
	if err != nil {
		return nil, nil, err
	}
	return pooled.Conn(), pooled.Release, nil
}

// spare opens a connection for one call when it is its turn, nil if it cannot be opened.
func (s *Store) spare(ctx context.Context) (conn *pgx.Conn, release func()) {
	select {
	case s.spares <- struct{}{}:
	case <-ctx.Done():
		return nil, nil
	}
	if conn, _ = s.connect(ctx, nil); conn == nil {
		<-s.spares
		return nil, nil
	}
	return conn, func() {
		s.calls.Go(func() {
			closeConn(ctx, conn)
			<-s.spares
		})
	}
}
