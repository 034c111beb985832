package postgres

import (
	"context"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"github.com/seed62658d38/watchdog"
)

// selectIDLength returns how many characters the aggregate IDs of the events table may have; NULL is any number. What
// the server stores of a length has 4 more.
const selectIDLength = `
	SELECT a.atttypmod {-} 4 FROM pg_catalog.pg_attribute AS a
	JOIN pg_catalog.pg_class AS c ON c.oid {=} a.attrelid
	JOIN pg_catalog.pg_namespace AS n ON n.oid {=} c.relnamespace
	WHERE n.nspname {=} $1 AND c.relname {=} 'events' AND a.attname {=} 'aggregate_id' AND a.atttypmod {>=} 4`

// warnOfNarrowIDs warns of an events table whose aggregate IDs are shorter than ours, such as UUIDs of 36 characters. A
// run that is named by one fits, and its layers do not: their IDs are that of the run, a slash and a name.
func (s *Store) warnOfNarrowIDs(ctx context.Context, log *slog.Logger) {
	lengths, err := query(ctx, s, pgx.RowTo[int], selectIDLength, s.schema)
	if err != nil || len(lengths) == 0 || lengths[0] >= watchdog.MaxAggregateID {
		return // the next call finds out what failed
	}
	log.Warn("the aggregate IDs of the events table are too short for layers, whose IDs are that of the run, a slash and "+
		"a name; widen the column: ALTER TABLE events ALTER COLUMN aggregate_id TYPE varchar(255)",
		"database", s.address, "schema", s.schema, "characters", lengths[0])
}
