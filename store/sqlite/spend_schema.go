package sqlite

import (
	"fmt"

	"github.com/seed62658d38/watchdog/internal/storeflow"
)

// spendTables are what version 4 makes. A scope has a row without a window name, which has its currency and is charged
// with what counts for ever, and a row for each window that something was charged in.
var spendTables = []struct{ name, definition string }{
	{"watchdog_spend", `(
		scope VARCHAR(255) NOT NULL,
		window_name VARCHAR(64) NOT NULL,
		currency VARCHAR(16) NOT NULL DEFAULT '',
		ends_at TEXT,
		` + storeflow.EachKind("KIND INTEGER NOT NULL DEFAULT 0") + `,
		PRIMARY KEY (scope, window_name)
	) WITHOUT ROWID`},
	{"watchdog_slices", `(
		id VARCHAR(36) NOT NULL PRIMARY KEY,
		scope VARCHAR(255) NOT NULL,
		window_name VARCHAR(64) NOT NULL,
		taken_at TEXT NOT NULL,
		host TEXT NOT NULL DEFAULT '',
		pid INTEGER NOT NULL DEFAULT 0,
		` + storeflow.EachKind("granted_KIND INTEGER NOT NULL") + `,
		returned_at TEXT,
		` + storeflow.EachKind("returned_KIND INTEGER NOT NULL DEFAULT 0") + `
	) WITHOUT ROWID`},
}

// createSpend is version 4. Who deletes a window finds its slices by the index.
func createSpend(t *transaction) error {
	for _, table := range spendTables {
		if err := t.exec(`CREATE TABLE IF NOT EXISTS main.` + table.name + ` ` + table.definition); err != nil {
			return fmt.Errorf("create %s: %w", table.name, err)
		}
	}
	err := t.exec(`CREATE INDEX IF NOT EXISTS main.watchdog_slices_window ON watchdog_slices (scope, window_name)`)
	if err != nil {
		return fmt.Errorf("index watchdog_slices: %w", err)
	}
	return nil
}
