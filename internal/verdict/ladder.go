package verdict

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

// Ladders list the directives of a limit's trips, in order. If a list is empty, the first trip cancels the run.
type Ladders struct {
	Idle, NoProgress, Hold []Directive
}

// directive returns what the next trip asks for after that many attempts: a cancel past the end of the ladder, and for
// limits without a ladder.
func (l *Ladders) directive(limit Limit, attempts int) Directive {
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
