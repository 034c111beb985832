package watchdog

import (
	"context"

	"github.com/seed62658d38/watchdog/event"
)

// nowhere is the store of a run that nothing guards, or that records nothing. It takes everything and keeps nothing, so
// that what the host does to the run has its effect without a special case.
type nowhere struct{}

func (nowhere) Append(context.Context, ...Event) error { return nil }

func (nowhere) Read(context.Context, string, string) ([]Event, error) { return nil, nil }

func (nowhere) Select(context.Context, event.Selection) ([]Event, error) { return nil, nil }

// Transact has each exchange find no event, and keep what it decides.
func (nowhere) Transact(_ context.Context, exchanges ...*event.Exchange) error {
	for _, x := range exchanges {
		x.Kept = x.Decide(nil)
	}
	return nil
}
