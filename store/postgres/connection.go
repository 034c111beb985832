package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// A leaseConn is the connection on which this process begins and renews its lease. Leases do not wait for the pool: the
// host may hold all of its connections, and a connection whose other end has vanished keeps its place in it for up to
// fifteen seconds, in which the process would be taken for dead.
type leaseConn struct {
	turn chan struct{} // has room for one: whoever fills it uses conn
	conn *pgx.Conn     // nil before the first use, and after an error
}

// onLeaseConn runs a call in the connection for leases, or in one of the pool if there can be no other.
func (s *Store) onLeaseConn(ctx context.Context, call func(conn *pgx.Conn) error) error {
	if err := s.takeLeaseTurn(ctx); err != nil {
		return err
	}
	if s.leases.conn == nil {
		if err := s.openLeaseConn(ctx); err != nil {
			return err
		}
	}
	defer func() { <-s.leases.turn }()
	conn := s.leases.conn
	if conn == nil {
		return s.onConn(ctx, call)
	}
	err := s.explain(ctx, conn, call(conn))
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
// when there is no error. The opening goes on when ctx ends: a call has little time, and the first of several hosts can
// be one that does not answer.
func (s *Store) openLeaseConn(ctx context.Context) error {
	opened := make(chan struct{})
	s.calls.Go(func() {
		defer func() {
			<-s.leases.turn
			close(opened)
		}()
		ctx, cancel := s.untilClosed(context.WithoutCancel(ctx))
		defer cancel()
		s.leases.conn = s.connectAlone(ctx)
	})
	select {
	case <-opened:
		return s.takeLeaseTurn(ctx)
	case <-ctx.Done():
		return fmt.Errorf("open the connection of leases: %w", context.Cause(ctx))
	}
}

// closeLeases closes the connection. Nobody uses it any more.
func (s *Store) closeLeases() {
	if conn := s.leases.conn; conn != nil {
		s.leases.conn = nil
		closeConn(context.Background(), conn)
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
	if conn = s.connectAlone(ctx); conn == nil {
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

// connectAlone opens a connection that is not of the pool, nil if it cannot be opened.
func (s *Store) connectAlone(ctx context.Context) *pgx.Conn {
	conn, _ := s.connect(ctx, func(context.Context, *pgx.Conn) error { return nil })
	return conn
}
