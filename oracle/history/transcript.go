package history

import (
	"fmt"
	"slices"
	"strings"
)

// A Topic is what an entry of a transcript tells of.
type Topic uint8

// The topics.
const (
	Did        Topic = iota // what the step did
	Called                  // what a call returned
	Took                    // how long it took
	Saw                     // what a run shows of itself: its context, times, usage
	Looked                  // what a poll finds: Fired, Stop, directives
	Told                    // a directive of a subscriber
	Warned                  // OnWarning
	Traced                  // OnSignal
	Logged                  // a log record
	Stored                  // an event
	Charged                 // what a window of a scope is charged with
	Kept                    // a call of the keeper
	Inside                  // what the packages beside the root see of a run
	StoreCalls              // calls of the store
	Topics
)

var topicNames = [Topics]string{
	"did", "called", "took", "saw", "looked", "told", "warned", "traced", "logged", "stored", "charged", "kept", "inside",
	"storecalls",
}

// String names the kind.
func (k Topic) String() string { return topicNames[k] }

// A TopicSet is topics.
type TopicSet uint32

// ParseTopics reads a list of topics, separated by commas.
func ParseTopics(list string) (s TopicSet, err error) {
	for name := range strings.SplitSeq(list, ",") {
		i := slices.Index(topicNames[:], name)
		if i < 0 && name != "" {
			return 0, fmt.Errorf("%q is no topic; use some of %v", name, topicNames)
		}
		if name != "" {
			s |= 1 << i
		}
	}
	return s, nil
}

// Has reports whether the kind is in the set.
func (s TopicSet) Has(k Topic) bool { return s&(1<<k) != 0 }

// An Entry is one thing that could be seen.
type Entry struct {
	Step  int
	Topic Topic
	Text  string
}

// A Transcript is all that could be seen of a history.
type Transcript []Entry

// Differ returns where two transcripts differ first, beside lines of kinds that are left out, as an index of each; none
// are -1.
func Differ(a, b Transcript, out TopicSet) (x, y int) {
	for ; ; x, y = x+1, y+1 {
		for x < len(a) && out.Has(a[x].Topic) {
			x++
		}
		for y < len(b) && out.Has(b[y].Topic) {
			y++
		}
		switch {
		case x == len(a) && y == len(b):
			return -1, -1
		case x == len(a) || y == len(b) || a[x] != b[y]:
			return x, y
		}
	}
}
