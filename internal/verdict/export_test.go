package verdict

import "time"

// Instant is the first instant at which the wall clock shows that much.
func (p *Pauses) Instant(worked time.Duration) time.Duration { return p.instant(worked) }
