package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
)

const lease1 = "lease-1"

func leaseOf(id string) session.Lease {
	return session.Lease{ID: id, Host: "host-1", Promise: 10 * time.Second, Beat: 1}
}

// begin begins a lease, or finds it.
func begin(tb testing.TB, s *postgres.Store, id string) session.Lease {
	tb.Helper()
	require.NoError(tb, s.BeginLease(tb.Context(), leaseOf(id)))
	return leaseOf(id)
}
