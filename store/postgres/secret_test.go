package postgres_test

import (
	"fmt"
	"net/url"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/store/postgres"
)

func TestNoPasswordInErrors(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, dsn := range map[string]string{
		"nobody listens":            "postgres://app:" + canary + "@127.0.0.1:1/db",
		"no socket":                 "host=" + filepath.Join(folder, "none") + " user=app password=" + canary + " dbname=db",
		"no such host":              "postgres://app:" + canary + "@no-such-host.invalid/db",
		"an invalid port":           "postgres://app:" + canary + "@127.0.0.1:port/db",
		"a slash in the password":   "postgres://app:" + canary + "/more@127.0.0.1/db",
		"a space in the password":   "host=127.0.0.1 password=" + canary + " " + canary + " user=app",
		"an unknown setting":        "postgres://app:" + canary + "@127.0.0.1/db?sslmode=" + canary,
		"an open quote":             "host=127.0.0.1 password='" + canary,
		"an invalid pool size":      "postgres://app:" + canary + "@127.0.0.1/db?pool_max_conns=" + canary,
		"a password as a parameter": "postgres://127.0.0.1:1/db?password=" + canary,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := postgres.Open(t.Context(), dsn, postgres.Config{})
			refusesSecrets(t, err)
		})
	}
	t.Run("the database does not exist", func(t *testing.T) {
		dsn := server(t).DSN("none") + "&password=" + url.QueryEscape(canary)
		_, err := postgres.Open(t.Context(), dsn, postgres.Config{})
		refusesSecrets(t, err)
		require.ErrorContains(t, err, "create the database")
	})
	t.Run("the payload is not in the server's error", func(t *testing.T) {
		dsn := newDSN(t)
		s := openAt(t, dsn, postgres.Config{})
		mustExec(t, hostPool(t, dsn), "ALTER TABLE events ADD CHECK (payload ->> 'n' = '1')")
		e := numbered(1)
		e.Payload = fmt.Appendf(nil, `{"n":%q}`, canary)
		refusesSecrets(t, s.Append(t.Context(), e))
	})
}

// refusesSecrets checks that nothing in the error contains the canary.
func refusesSecrets(tb testing.TB, err error) {
	tb.Helper()
	require.Error(tb, err)
	for _, text := range []string{err.Error(), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", err)} {
		require.NotContains(tb, text, canary)
	}
	require.NotErrorAs(tb, err, new(*pgconn.ConnectError), "it has the configuration, with the password")
	require.NotErrorAs(tb, err, new(*pgconn.ParseConfigError), "it has the connection string")
}

const canary = "canary-7c1e"
