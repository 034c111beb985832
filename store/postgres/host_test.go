package postgres_test

import (
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/store/postgres"
)

// If a connection string has several hosts, an error says which one it is about.
func TestErrorsNameHost(t *testing.T) {
	direct := newDSN(t)
	p := startProxy(t, direct)
	at, err := url.Parse(p.DSN())
	require.NoError(t, err)
	closed := closedAddress(t)
	at.Host = closed + "," + at.Host
	at.User = url.UserPassword("postgres", canary)
	s := openAt(t, at.String(), postgres.Config{})
	names := func(err error) {
		t.Helper()
		refusesSecrets(t, err)
		require.ErrorContains(t, err, "server "+p.listener.Addr().String()+": ")
		require.NotContains(t, strings.ReplaceAll(err.Error(), " at "+closed+" or at ", ""), closed)
	}
	t.Run("of a statement", func(t *testing.T) {
		mustExec(t, hostPool(t, direct), "ALTER TABLE events RENAME TO hidden")
		names(s.Append(t.Context(), numbered(1)))
		names(s.Transact(t.Context(), counting("run-1")))
		names(s.Follow(t.Context(), "", func() {}, func(watchdog.Event) {}))
		_, err := s.Read(t.Context(), watchdog.AggregateType, "run-1")
		names(err)
		mustExec(t, hostPool(t, direct), "ALTER TABLE hidden RENAME TO events")
	})
	t.Run("of opening", func(t *testing.T) {
		_, err := postgres.Open(t.Context(), at.String()+"&default_transaction_read_only=on", postgres.Config{})
		names(err)
	})
	t.Run("of listening", func(t *testing.T) {
		ready, ended := make(chan struct{}), make(chan error, 1)
		go func() { ended <- s.Listen(t.Context(), func() { close(ready) }, func(string) {}) }()
		wait(t, ready)
		mustExec(t, hostPool(t, direct), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid()`)
		names(wait(t, ended))
	})
	t.Run("of connecting", func(t *testing.T) {
		other := closedAddress(t)
		at.Host = closed + "," + other
		_, err := postgres.Open(t.Context(), at.String(), postgres.Config{})
		refusesSecrets(t, err)
		for _, host := range []string{closed, other} {
			require.Regexp(t, "connect: (.|\n)*"+host, err.Error())
		}
	})
}

// closedAddress returns an address where nobody listens.
func closedAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return listener.Addr().String()
}
