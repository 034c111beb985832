package converge

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed62658d38/watchdog"
)

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
		Advice: action, Stage: t.config.Stages[t.stage], InRow: t.inRow, Oscillates: t.oscillates, Fingerprints: set,
	}
	d.New, d.Gone, d.Same = compare(before, set)
	return d, nil
}

// Reset puts the tracker back to the start, even after it gave up.
func (t *Tracker) Reset() { *t = Tracker{config: t.config} }

func (t *Tracker) add(set []string) Advice {
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
func (t *Tracker) judge() Advice {
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

// The largest result of an iteration.
const (
	MaxFingerprint  = 200  // bytes of one
	MaxFingerprints = 1000 // of one iteration
)

// normalise checks the fingerprints of an iteration and returns them sorted, without duplicates.
func normalise(fingerprints []string) ([]string, error) {
	if len(fingerprints) > MaxFingerprints {
		return nil, fmt.Errorf("%w fingerprint: there are %d; an iteration ends with at most %d",
			watchdog.ErrInvalid, len(fingerprints), MaxFingerprints)
	}
	for i, fingerprint := range fingerprints {
		if flaw := fingerprintFlaw(fingerprint); flaw != "" {
			return nil, fmt.Errorf("%w fingerprint: number %d of %d %s", watchdog.ErrInvalid, i+1, len(fingerprints), flaw)
		}
	}
	set := slices.Clone(fingerprints)
	slices.Sort(set)
	return slices.Compact(set), nil
}

// fingerprintFlaw does not quote the fingerprint, because an invalid one can be any text.
func fingerprintFlaw(fingerprint string) string {
	switch at := strings.IndexFunc(fingerprint, notAllowed); {
	case fingerprint == "":
		return "is empty"
	case len(fingerprint) > MaxFingerprint:
		return fmt.Sprintf("has %d bytes; use at most %d", len(fingerprint), MaxFingerprint)
	case at >= 0:
		return fmt.Sprintf("has a character at byte %d that none may have; use letters, digits and ._:/@=+-", at)
	}
	return ""
}

func notAllowed(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune("._:/@=+-", r)
}

// compare returns what only the newer set has, what only the older set has, and what both have.
func compare(older, newer []string) (added, gone, same []string) {
	for _, fingerprint := range newer {
		if _, found := slices.BinarySearch(older, fingerprint); found {
			same = append(same, fingerprint)
		} else {
			added = append(added, fingerprint)
		}
	}
	for _, fingerprint := range older {
		if _, found := slices.BinarySearch(newer, fingerprint); !found {
			gone = append(gone, fingerprint)
		}
	}
	return added, gone, same
}
