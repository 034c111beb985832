package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// openStore opens the events in a directory, or without one a store in memory.
func openStore(ctx context.Context, dir string) (watchdog.EventStore, func() error, error) {
	if dir == "" {
		return &watchdog.Memory{}, func() error { return nil }, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err
	}
	store, err := sqlite.Open(ctx, filepath.Join(dir, "events.db"))
	if err != nil {
		return nil, nil, err
	}
	return store, store.Close, nil
}
