//go:build linux

package soak_test

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/sweep"
)

// sweepAll is a sweeper without a cap.
func sweepAll(ctx context.Context, j job, book *journal) error {
	store := openStore(ctx, j)
	if store == nil {
		return nil
	}
	defer store.Close()
	sweeper, err := sweep.New(store, store, sweep.Config{
		Interval: sweepInterval, StalledThreshold: threshold, MinAge: watchdog.None, StartupDelay: watchdog.None,
		MaxCancellationsPerRun: watchdog.NoLimit, RecordTimeout: recordTimeout,
		OnPass: func(p sweep.Pass) { writeSwept(book, p) }, Logger: logger(),
	})
	if err != nil {
		return err
	}
	return sweeper.Run(ctx)
}

func writeSwept(book *journal, p sweep.Pass) {
	for _, c := range p.Cases {
		if c.Handling == sweep.CaseCancelled {
			book.write(entry{What: swept, Run: c.Session.RunID, Window: c.Session.StartedAt, Attempt: c.Session.Attempt})
		}
	}
}

// openStore opens the store of a child, as soon as the database can be reached. It returns nil if ctx ends before.
func openStore(ctx context.Context, j job) *postgres.Store {
	for ctx.Err() == nil {
		attempt, cancel := context.WithTimeout(ctx, recordTimeout)
		store, err := postgres.Open(attempt, j.DSN, postgres.Config{})
		cancel()
		if err == nil {
			return store
		}
		logger().Warn("the database cannot be opened", "error", err)
		pause(ctx, promise/5)
	}
	return nil
}

// pause waits for a while, or until the context ends.
func pause(ctx context.Context, length time.Duration) {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
