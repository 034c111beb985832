package verdict

import "time"

// A Directive is what a trip asks of the host.
type Directive string

// The directives. Only DirectCancel ends the run.
const (
	DirectWait    Directive = "wait"
	DirectRetry   Directive = "retry"
	DirectUnstick Directive = "unstuck"
	DirectWrapUp  Directive = "wrap_up" // at the reserve, never on a ladder
	DirectCancel  Directive = "cancel"
)

// Ladders list the directives of a limit's trips, in order. If a list is empty, the first trip cancels the run. If it
// ends in DirectWait, that stays its last rung, and no trip cancels the run. After any other end comes a cancel.
type Ladders map[Limit][]Directive

// next returns what the next trip asks for after that many attempts, and the rung that it is on, from 1. It reports
// whether that is the last rung: then nothing follows before the stretch that was measured ends.
func (l Ladders) next(limit Limit, attempts int) (asks Directive, rung int, last bool) {
	ladder := l.of(limit)
	end := lastRung(ladder)
	if rung = min(attempts+1, end); rung <= len(ladder) {
		return ladder[rung-1], rung, rung == end
	}
	return DirectCancel, rung, true
}

// lastRung returns the number of a ladder's last rung: that of the cancel after it, unless it ends in one or in a wait.
func lastRung(ladder []Directive) int {
	end := len(ladder)
	if endsInWait(ladder) || end > 0 && ladder[end-1] == DirectCancel {
		return end
	}
	return end + 1
}

func endsInWait(ladder []Directive) bool {
	return len(ladder) > 0 && ladder[len(ladder)-1] == DirectWait
}

// heldOn returns the rung of a hold that was opened at that instant and is found open, where it stands on its ladder:
// one that has had its last wait does not trip again.
func (l Ladders) heldOn(rung int, opened time.Duration) Rung {
	stood := l.StoodOn(Hold, rung)
	stood.At = opened
	return stood
}

// StoodOn returns where a limit stands on its ladder that had that rung before the attach: after a last wait nothing
// follows.
func (l Ladders) StoodOn(limit Limit, rung int) Rung {
	ladder := l.of(limit)
	return Rung{Attempts: rung, Last: endsInWait(ladder) && rung >= len(ladder)}
}

// askFirst is the ladder of loop if it has none: whoever repeats itself is asked to stop that before it is ended.
var askFirst = []Directive{DirectUnstick}

func (l Ladders) of(limit Limit) []Directive {
	if ladder := l[limit]; limit != Loop || len(ladder) > 0 {
		return ladder
	}
	return askFirst
}
