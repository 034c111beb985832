package loop

import "slices"

// A pieces is parts of the rules. Tests leave them out one by one, to see what each is for.
type pieces uint32

const (
	theTail pieces = 1 << iota
	thePair
	theFutile
	thePoll
	theRedo
	theStreak
	theReasons  // fields beside a command that say why it is run are left out
	theState    // looks at how things stand end nothing
	thePace     // repeats at the speed of a model are asked about
	theGuess    // of classes
	theWaiting  // what comes after waits is a poll
	theReset    // by a new successful change
	theWording  // searches for one thing after the other are not futile
	theAim      // reads at other places of one thing are futile
	theBlur     // of times, durations, addresses and temporary paths
	theFailure  // failures are compared by what they say first, and without what has digits
	theVolatile // forms of known agents
)

// rule reports whether a rule is left out.
func (p pieces) rule(rule Rule) bool {
	i := slices.Index([]Rule{Tail, Pair, Futile, Poll, Redo, Streak}, rule) // in the order of their pieces
	return i >= 0 && p>>i&1 != 0
}

// lacks reports whether a piece is left out.
func (p pieces) lacks(piece pieces) bool { return p&piece != 0 }
