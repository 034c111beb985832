package loop

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

// pieceOf returns the piece that a rule is.
func pieceOf(rule Rule) pieces {
	switch rule {
	case Tail:
		return theTail
	case Pair:
		return thePair
	case Futile:
		return theFutile
	case Streak:
		return theStreak
	case Redo:
		return theRedo
	case Poll:
		return thePoll
	}
	return 0
}

// lacks reports whether a piece is left out.
func (p pieces) lacks(piece pieces) bool { return p&piece != 0 }
