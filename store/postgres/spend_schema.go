package postgres

import (
	"fmt"

	"github.com/seed62658d38/watchdog/internal/storeflow"
)

// spendTables are what version 4 makes. A scope has a row without a window name, which has its currency and is charged
// with what counts for ever, and a row for each window that something was charged in. Whoever charges a scope locks the
// first. A row of the first table changes with each slice, and no column of an index, so that its page has room for its
// next versions.
var spendTables = []string{
	`CREATE TABLE IF NOT EXISTS SCHEMA.watchdog_spend (
		scope varchar(255) COLLATE pg_catalog."C" NOT NULL,
		window_name varchar(64) COLLATE pg_catalog."C" NOT NULL,
		currency varchar(16) NOT NULL DEFAULT '',
		ends_at pg_catalog.timestamptz,
		` + storeflow.EachKind("KIND bigint NOT NULL DEFAULT 0") + `,
		PRIMARY KEY (scope, window_name)
	) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02)`,
	`CREATE TABLE IF NOT EXISTS SCHEMA.watchdog_slices (
		id varchar(36) COLLATE pg_catalog."C" PRIMARY KEY,
		scope varchar(255) COLLATE pg_catalog."C" NOT NULL,
		window_name varchar(64) COLLATE pg_catalog."C" NOT NULL,
		taken_at pg_catalog.timestamptz NOT NULL,
		host pg_catalog.text NOT NULL DEFAULT '',
		pid bigint NOT NULL DEFAULT 0,
		` + storeflow.EachKind("granted_KIND bigint NOT NULL") + `,
		returned_at pg_catalog.timestamptz,
		` + storeflow.EachKind("returned_KIND bigint NOT NULL DEFAULT 0") + `
	)`,
	// Who deletes a window finds its slices by the index.
	`CREATE INDEX IF NOT EXISTS watchdog_slices_window ON SCHEMA.watchdog_slices (scope, window_name)`,
}

// createSpend is version 4.
func createSpend(t *transaction) error {
	for _, statement := range spendTables {
		if err := t.exec(statement); err != nil {
			return fmt.Errorf("create watchdog_spend: %w", err)
		}
	}
	return nil
}
