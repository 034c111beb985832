package notify

import (
	"context"
	"time"
)

// reportAgain is how often an outage that lasts is reported.
const reportAgain = time.Hour

// An outage is a time in which notices could not be delivered.
type outage struct {
	since, reported time.Time // zero for none
}

// report writes the log of what Run did.
func (s *Sender) report(ctx context.Context, d Delivery, err error) {
	s.mu.Lock()
	was, now := s.outage, time.Now()
	failing := err != nil
	switch {
	case failing && was.since.IsZero():
		s.outage = outage{now, now}
	case failing && now.Sub(was.reported) >= reportAgain:
		s.outage.reported = now
	case !failing && d.Delivered > 0:
		s.outage = outage{}
	}
	is := s.outage
	s.mu.Unlock()
	attrs := []any{"delivered", d.Delivered, "unwanted", d.Unwanted, "delayed", d.Delayed, "dropped", d.Dropped}
	switch {
	case failing && is.reported != was.reported:
		s.cfg.Logger.WarnContext(ctx, "notices could not be delivered, and are tried again",
			append(attrs, "since", is.since, "error", err)...)
	case !failing && !was.since.IsZero() && is.since.IsZero():
		s.cfg.Logger.InfoContext(ctx, "notices are delivered again", append(attrs, "since", was.since)...)
	default:
		s.cfg.Logger.DebugContext(ctx, "the outbox of notices was looked at", attrs...)
	}
}
