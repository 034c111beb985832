package postgres_test

import (
	"math"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/store/postgres"
)

// The server reads what an array was made of, in every mode of a pool.
func TestArray(t *testing.T) {
	wanted := []string{
		"plain", "", "NULL", "null", "{}", "{a,b}", "a,b", `"`, `\`, `\"`, `a "quoted" \ text`, "'", "''", " around ",
		"two\nlines\tand a tab", "é…🙂", `{"n":"\u0000"}`,
	}
	first, last := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)
	inside := time.Date(2026, 3, 4, 12, 0, 0, 1999, time.FixedZone("", 3600))
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		pool := hostPool(t, newDSN(t), func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
		require.Empty(t, texts(t, pool, "SELECT unnest($1::text[])", postgres.ArrayOfTexts()))
		require.Equal(t, wanted, texts(t, pool, "SELECT unnest($1::text[])", postgres.ArrayOfTexts(wanted...)), mode)
		require.Equal(t, []string{"a", "none", "b"}, texts(t, pool, "SELECT coalesce(n, 'none') FROM unnest($1::text[]) AS n",
			postgres.ArrayOrNull("a", "", "b")), mode)
		require.Equal(t, []string{"1", "-9223372036854775808"}, texts(t, pool, "SELECT unnest($1::bigint[])::text",
			postgres.ArrayOfNumbers(1, math.MinInt64)), mode)
		require.Equal(t, []string{"0001-01-01 00:00:00.000000", "9999-12-31 23:59:59.999999", "2026-03-04 11:00:00.000001"},
			texts(t, pool, `SELECT to_char(unnest($1::timestamptz[]) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')`,
				postgres.ArrayOfTimes(first, last, inside)), mode)
	}
}
