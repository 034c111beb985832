package verdict

import "time"

// Instant is the first instant at which the wall clock shows that much.
func (p *Pauses) Instant(worked time.Duration) time.Duration { return p.instant(worked) }

// Merged is how many pauses were merged for all questions so far.
func (p *Pauses) Merged() int { return p.merged }
