package bound

import "github.com/seed62658d38/watchdog/internal/seam"

// record has the run that the call was made in put on record that it overran or was abandoned. It has no part of what
// the work returned or panicked with, which may be a secret.
func (i *invocation) record(how ending) {
	overran := how.layer == LayerSoft || how.layer == LayerHard
	if !i.onRecord || !overran && !how.abandoned {
		return
	}
	i.run.RecordOverrun(seam.Overrun{
		Key: i.call.Key, Layer: string(how.layer), Note: i.note(), Limit: i.call.Limit, Elapsed: how.elapsed,
		Abandoned: how.abandoned, LimitedBy: i.limitedBy,
	})
}
