package loop

// Pieces are parts of the rules, for tests that leave some out.
type Pieces = pieces

const (
	TheTail   = theTail
	ThePair   = thePair
	TheFutile = theFutile
	ThePoll   = thePoll
	TheRedo   = theRedo
)

// Rows are the pieces with their names in the table of what each is for.
var Rows = []struct {
	Name  string
	Piece Pieces
}{
	{"tail", theTail},
	{"pair", thePair},
	{"futile", theFutile},
	{"poll", thePoll},
	{"redo", theRedo},
	{"streak", theStreak},
	{"reasons beside a command", theReasons},
	{"looks at how things stand", theState},
	{"repeats at the speed of a model", thePace},
	{"guess of classes", theGuess},
	{"waiting", theWaiting},
	{"reset after a change", theReset},
	{"wording", theWording},
	{"reads at other places", theAim},
	{"blur", theBlur},
	{"first line of failures", theFailure},
	{"forms of agents", theVolatile},
}

// Without leaves pieces of the rules out.
func (d *Detector) Without(p Pieces) *Detector {
	d.without = p
	_ = d.configure(d.config)
	return d
}
