package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

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
	config, conn, err := s.connect(ctx)
	if err != nil {
		return nil
	}
	if config.AfterConnect != nil && config.AfterConnect(ctx, conn) != nil {
		closeConn(ctx, conn)
		return nil
	}
	return conn
}
