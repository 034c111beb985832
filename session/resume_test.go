package session_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// A refusingStore does not take resume events.
type refusingStore struct{ watchdog.EventStore }

var errRefused = errors.New("disk full")

func (s refusingStore) Append(ctx context.Context, events ...watchdog.Event) error {
	if events[0].Type == watchdog.EventResume {
		return errRefused
	}
	return s.EventStore.Append(ctx, events...)
}

// TestResumeFails protects the row of a cancelled run: the events and the row say the same, also when the run could not
// be resumed.
func TestResumeFails(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.start()
		wd := f.attach("s-1")
		f.advance(watchdog.DefaultWallClock + 1)
		require.ErrorIs(t, context.Cause(wd.Context()), watchdog.WallClockExceeded)
		f.advance(session.DefaultPromise / 2)
		require.Equal(t, session.Cancelled, f.row("s-1").Status)

		cfg := f.config(f.keeper())
		cfg.Store = refusingStore{cfg.Store}
		_, err := watchdog.Resume(context.Background(), watchdog.Run{ID: "s-1", StartedAt: wd.StartedAt()}, cfg)
		require.ErrorIs(t, err, errRefused)
		f.advance(2*session.DefaultPace + time.Second)
		row := f.row("s-1")
		require.Equal(t, session.Cancelled, row.Status)
		require.Equal(t, watchdog.WallClockExceeded, row.Reason)
	})
}
