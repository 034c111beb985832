package session

import "time"

// MaxBehind is how many rows a lease names as behind. If there are more, it vouches for nothing more until there are
// fewer.
const MaxBehind = 64

// A RowBehind is a row that says less than its run did: a run that was silent woke up, ended, or may be silent for
// longer now, and its process cannot write that, because another transaction has locked the row, or a trigger or a
// constraint of the host's refuses it. Nobody knows the run's silence from the row, so that a sweeper judges it only up
// to Written.
type RowBehind struct {
	RunID   string `json:"run"`
	Attempt int    `json:"attempt"`
	// Written is the instant up to which the row is written, by the clock of the lease. A later one than the lease vouches
	// for counts as that.
	Written time.Duration `json:"written"`
}

func (b RowBehind) key() AttemptID { return AttemptID{b.RunID, b.Attempt} }

// silenceOf returns how long the lease vouches that the run of a row is silent, and whether it names the row as behind.
func (l *Lease) silenceOf(s Session) (silence time.Duration, behind bool) {
	upTo := max(l.Vouched, l.Covered)
	for _, b := range l.Behind {
		if b.RunID == s.RunID && b.Attempt == s.Attempt {
			upTo, behind = min(b.Written, upTo), true
		}
	}
	return max(upTo-s.Activity, 0), behind
}

// refutes reports whether the lease names the row of a session as behind, and does not vouch for the silence by which
// it was judged.
func (l *Lease) refutes(judged Session) bool {
	silence, behind := l.silenceOf(judged)
	return behind && judged.Silence > silence
}
