package converge

import "slices"

// A Tracker follows the iterations of one loop. It is not safe for concurrent use.
type Tracker struct {
	config Config
	stage  int // index in config.Stages
	count  int // iterations that counted in this stage
	inRow  int // iterations that counted since the last new set
	// oscillates says that two neighbours of those in a row differed.
	oscillates bool
	gaveUp     bool
	recent     [][]string // the last sets, the newest last; at most config.Memory, none of them empty
}

// New returns a Tracker in its first stage. It wraps [watchdog.ErrInvalid] if the config is invalid.
func New(config Config) (*Tracker, error) {
	config, err := config.complete()
	if err != nil {
		return nil, err
	}
	return &Tracker{config: config}, nil
}

// Observe takes the fingerprints that an iteration ended with, in any order, and says how to go on. No fingerprints
// mean that the iteration ended well. After the tracker gave up, it ignores new fingerprints and answers [GiveUp]
// with those that it gave up on.
//
// Observe wraps [watchdog.ErrInvalid] if a fingerprint is invalid. Then nothing has changed.
func (t *Tracker) Observe(fingerprints []string) (Decision, error) {
	set, err := normalise(fingerprints)
	if err != nil {
		return Decision{}, err
	}
	before := t.last()
	if t.gaveUp {
		set = slices.Clone(before)
	}
	action := t.add(set)
	d := Decision{
		Action: action, Stage: t.config.Stages[t.stage], InRow: t.inRow, Oscillates: t.oscillates, Fingerprints: set,
	}
	d.New, d.Gone, d.Same = compare(before, set)
	return d, nil
}

// Reset puts the tracker back to the start, even after it gave up.
func (t *Tracker) Reset() { *t = Tracker{config: t.config} }

func (t *Tracker) add(set []string) Action {
	switch {
	case t.gaveUp:
		return GiveUp
	case len(set) == 0:
		t.Reset()
		return Continue
	}
	t.follow(set)
	return t.judge()
}

// follow counts the set if it is among the last ones. If not, it starts again.
func (t *Tracker) follow(set []string) {
	if t.isRecent(set) {
		t.oscillates = t.oscillates || !slices.Equal(set, t.last())
	} else {
		t.stage, t.count, t.inRow, t.oscillates = 0, 0, 0, false
	}
	t.count++
	t.inRow++
	t.remember(set)
}

// judge leaves the stage if the count is reached. A stored count can be greater than an After that was lowered since.
func (t *Tracker) judge() Action {
	switch {
	case t.count < t.config.Stages[t.stage].After:
		return Continue
	case t.stage == len(t.config.Stages)-1:
		t.gaveUp = true
		return GiveUp
	}
	t.stage++
	t.count = 0
	return Move
}

func (t *Tracker) isRecent(set []string) bool {
	return slices.ContainsFunc(t.recent, func(other []string) bool { return slices.Equal(other, set) })
}

func (t *Tracker) last() []string {
	if len(t.recent) == 0 {
		return nil
	}
	return t.recent[len(t.recent)-1]
}

// remember keeps a copy, because the caller gets the set itself.
func (t *Tracker) remember(set []string) {
	t.recent = append(t.recent, slices.Clone(set))
	t.recent = t.recent[max(len(t.recent)-t.config.Memory, 0):]
}
