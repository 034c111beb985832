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

// seen returns the outage after deliveries at a time.
func (o outage) seen(now time.Time, delivered int, failing bool) outage {
	switch {
	case failing && o.since.IsZero():
		return outage{since: now, reported: now}
	case failing && now.Sub(o.reported) >= reportAgain:
		o.reported = now
	case !failing && delivered > 0:
		return outage{}
	}
	return o
}

// report writes the log of what Run did.
func (s *Sender) report(ctx context.Context, d Delivery, err error) {
	s.mu.Lock()
	was := s.outage
	s.outage = was.seen(time.Now(), d.Delivered, err != nil)
	is := s.outage
	s.mu.Unlock()
	attrs := []any{"delivered", d.Delivered, "unwanted", d.Unwanted, "delayed", d.Delayed, "dropped", d.Dropped}
	switch {
	case err != nil && is.reported != was.reported:
		s.cfg.Logger.WarnContext(ctx, "notices could not be delivered, and are tried again",
			append(attrs, "since", is.since, "error", err)...)
	case err == nil && is.since != was.since:
		s.cfg.Logger.InfoContext(ctx, "notices are delivered again", append(attrs, "since", was.since)...)
	default:
		s.cfg.Logger.DebugContext(ctx, "the outbox of notices was looked at", attrs...)
	}
}
