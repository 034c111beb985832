package session

import (
	"context"

	"github.com/seed62658d38/watchdog"
)

// Take implements [watchdog.SpendStore]. Its clock is [time.Now], whatever Clock is.
func (m *Memory) Take(ctx context.Context, s watchdog.Slice) (watchdog.Grant, error) {
	return m.events.Take(ctx, s)
}

// Return implements [watchdog.SpendStore].
func (m *Memory) Return(ctx context.Context, id string, unused watchdog.Totals) error {
	return m.events.Return(ctx, id, unused)
}

var _ watchdog.SpendStore = (*Memory)(nil)
