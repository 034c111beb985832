package sqlite

import (
	"context"

	"github.com/seed62658d38/watchdog"
)

// parentOf is the parent that a payload names, and NULL if there is none. It is the expression of an index, and a query
// must repeat it word for word. It never fails: with an index that does, a host could not write rows without JSON. The
// + of isLayer keeps SQLite from an index on the aggregate type, which finds all runs.
const (
	parentOf = `CASE WHEN NOT json_valid(CAST(payload AS TEXT)) THEN NULL
		WHEN json_type(CAST(payload AS TEXT), '$.parent') = 'text'
		THEN json_extract(CAST(payload AS TEXT), '$.parent') END`
	isLayer = `+aggregate_type = '` + watchdog.AggregateType + `' COLLATE BINARY AND ` + parentOf + ` IS NOT NULL`

	selectLayers = `
	SELECT DISTINCT aggregate_id COLLATE BINARY FROM main.events
	WHERE ` + isLayer + ` AND ` + parentOf + ` = ?1 ORDER BY 1`
)

// feedIndexes are those of Select and Layers. Both work without them, but read more rows. The indexes hold few rows:
// the layers of runs, and the events whose times another program wrote in a form of its own.
var feedIndexes = []string{
	`CREATE INDEX IF NOT EXISTS main.watchdog_events_parent ON events (` + parentOf + `) WHERE ` + isLayer,
	`CREATE INDEX IF NOT EXISTS main.watchdog_events_foreign_time ON events (aggregate_type, aggregate_id)
		WHERE ` + isForeignTime,
}

// Layers implements [watchdog.FeedStore]. A row of another program whose payload is not JSON has no parent.
func (s *Store) Layers(ctx context.Context, parent string) ([]string, error) {
	return readRows(ctx, s, "layers", scanText, selectLayers, parent)
}
