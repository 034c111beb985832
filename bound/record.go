package bound

import (
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/record"
)

// record has the run that the call was made in put on record that it overran or was abandoned. It has no part of what
// the work returned or panicked with, which may be a secret.
func (i *invocation) record(how ending) {
	overran := how.layer == LayerSoft || how.layer == LayerHard
	if !i.onRecord || !overran && !how.abandoned {
		return
	}
	handle.Of(i.run.Context()).RecordOverrun(record.Overrun{
		Key: i.call.Key, Layer: string(how.layer), Note: i.note(), LimitSeconds: recorded(i.call.Limit),
		ElapsedSeconds: record.ExactSeconds(how.elapsed), Abandoned: how.abandoned, LimitedBy: i.limitedBy,
	})
}

// recorded is a limit as events have it: 0 for none.
func recorded(limit time.Duration) record.Seconds {
	if limit == watchdog.NoLimit {
		return 0
	}
	return record.ExactSeconds(limit)
}
