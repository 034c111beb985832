package verdict

// A Directive is what a trip asks of the host.
type Directive string

// The directives. Only a cancel ends the run.
const (
	DirectWait    Directive = "wait"
	DirectRetry   Directive = "retry"
	DirectUnstick Directive = "unstuck"
	DirectCancel  Directive = "cancel"
)

// Ladders hold, for each limit that has one, the directives of its trips in order. An empty one is a cancel at once.
type Ladders struct {
	Idle, NoProgress, Hold []Directive
}

// rung is the directive of the trip after that many attempts. Past the last rung, and on the limits without a ladder, it is a cancel.
func (l *Ladders) rung(limit Limit, attempts int) Directive {
	if ladder := l.of(limit); attempts < len(ladder) {
		return ladder[attempts]
	}
	return DirectCancel
}

func (l *Ladders) of(limit Limit) []Directive {
	if l == nil {
		return nil
	}
	switch limit {
	case Idle:
		return l.Idle
	case NoProgress:
		return l.NoProgress
	case Hold:
		return l.Hold
	default:
		return nil
	}
}
