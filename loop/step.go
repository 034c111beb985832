package loop

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"
)

// A Class is what kind of tool a step calls.
type Class string

// The classes. Without one the [Detector] guesses from the tool's name, its input and outcome, and the Gap. Declare
// them where you can: a guess takes a slow call that repeats for a poll.
const (
	// Look reads and changes nothing: a search, a file that is read, a test that is run.
	Look Class = "look"
	// Change changes what the run works on: an edit, a commit, a message that is sent. The first time that a change
	// succeeds is progress.
	Change Class = "change"
	// Wait passes time: a poll, a sleep.
	Wait Class = "wait"
	// Drive moves something along that has its own state: keys, clicks, scrolling, standard input.
	Drive Class = "drive"
	// Person says that a person said something: the detector begins anew, and no rule counts over it. What a program says
	// in the name of a user is no Person.
	Person Class = "person"
)

// A Step is one call of a tool, with what came back. What a model writes beside its calls is not a step.
type Step struct {
	// Tool is the name of the tool.
	Tool string
	// Input and Outcome are JSON or plain text. The detector keeps neither and changes neither.
	Input, Outcome []byte
	// Class is the class of the tool. A class that is not one of the constants counts as none.
	Class Class
	// Gap is how long after the step before this one came. Zero means that it is not known. It tells a poll from a call
	// that repeats: of a Wait it says how long the wait took.
	Gap time.Duration
	// Refused says that the call was not carried out, because a person or a policy refused it.
	Refused bool
	// Failed says that the tool reported an error. Without it, an outcome that says so counts as failed.
	Failed bool
	// Retry says that the call failed for now, such as with status 429 or 5xx, and that it is tried again. Retries are
	// no loop; give them a limit of their own.
	Retry bool
}

func (c Class) declared() bool { return c == Look || c == Change || c == Wait || c == Drive }

// counts says whether a step of that class is compared. Waits, drives and retries repeat by nature.
func (s Step) counts(class Class) bool {
	return !s.Retry && class != Wait && class != Drive && class != Person
}

// An Advice is what a [Verdict] asks the host to do.
type Advice string

// What a verdict asks for.
const (
	// Go goes on.
	Go Advice = "go"
	// Ask tells the run that it repeats itself: deliver an UNSTUCK, and call [Detector.Delivered].
	Ask Advice = "ask"
	// End ends the run.
	End Advice = "end"
)

// A Rule is what a run broke.
type Rule string

// The rules.
const (
	// Tail is rounds of the same turns, one right after the other.
	Tail Rule = "tail"
	// Pair is the same pair of input and outcome again and again, with other steps between.
	Pair Rule = "pair"
	// Futile is a tool that gets nothing, or the same, or fails in the same way, however its input is put.
	Futile Rule = "futile"
	// Streak is failures in a row, whatever was called. It is asked about, and ends no run.
	Streak Rule = "streak"
	// Redo is the same change again and again, one right after the other, whatever comes back.
	Redo Rule = "redo"
	// Poll is a call that may be a poll and gets the same for very long. It is asked about, and ends a run only as
	// [Config].Waits says.
	Poll Rule = "poll"
)

// A Verdict is the answer to one turn. It holds the name of a tool, digests and no other text.
type Verdict struct {
	Advice Advice
	// Rule is the rule that the turn broke. Empty means none. It is also set where the advice is Go because the run was
	// told already and has not yet used up its last rounds.
	Rule Rule
	// Tool is the name of a tool that was called again, one of them if there are several. It is empty without a Rule.
	Tool string
	// Period is the number of turns in a round of a Tail, else 0.
	Period int
	// Rounds is how many whole rounds a Tail has, how often a Pair came, how often a Redo came, how many turns
	// were Futile or in a Streak, or how many calls a Poll was.
	Rounds int
	// Since is how many turns that count there were, with this one, since the first of what Rounds counts.
	Since int
	// Pattern is 16 hexadecimal digits that are the same whenever the same thing repeats. It is empty without a Rule.
	Pattern string
	// New says that the turn has a pair of input and outcome that was not seen before. Waits, drives and retries are
	// never new.
	New bool
}

// String says in one sentence what was the same, how often and since when, for the model that is to do something else.
// It is empty without a Rule.
func (v Verdict) String() string {
	tool := strconv.Quote(v.Tool[:min(len(v.Tool), 64)]) // a model may have made it up
	again := tool + " was called with the same input and got the same result "
	switch {
	case v.Rule == Tail && v.Period == 1:
		return fmt.Sprintf("%s%d times in a row%s", again, v.Rounds, instead)
	case v.Rule == Tail:
		return fmt.Sprintf("The last %d turns are %d rounds of the same %d calls with the same results, the last one of %s%s",
			v.Since, v.Rounds, v.Period, tool, instead)
	case v.Rule == Pair:
		return fmt.Sprintf("%s%d times in the last %d turns%s", again, v.Rounds, v.Since, instead)
	case v.Rule == Futile:
		return fmt.Sprintf("%s was called %d times in the last %d turns and found nothing, got the same or failed in the "+
			"same way, however it was put%s", tool, v.Rounds, v.Since, instead)
	case v.Rule == Streak:
		return fmt.Sprintf("All that was called in the last %d turns failed, at last %s%s", v.Rounds, tool, instead)
	case v.Rule == Redo:
		return fmt.Sprintf("%s was called with the same input %d times in a row to change things%s", tool, v.Rounds, instead)
	case v.Rule == Poll:
		return fmt.Sprintf("%s was called with the same input %d times, and nothing has changed%s", tool, v.Rounds, instead)
	}
	return ""
}

const instead = "; do something else, or say what is missing."

// A finding is the verdict of one rule, with the pattern as a number: text is only made for the one that counts.
type finding struct {
	Verdict
	pattern uint64
}

// judged is the finding if it asks now, asked when the UNSTUCK was delivered, or has since gone on to the end.
func (f finding) judged(asks, asked, ends bool) finding {
	switch {
	case asked && ends:
		f.Advice = End
	case asked && asks:
		f.Advice = Go
	case asks:
		f.Advice = Ask
	default:
		return finding{}
	}
	return f
}

// worst returns the one that counts more. Of equal ones by one rule that with more rounds counts, of others the first.
func worst(first, second finding) finding {
	a, b := first.rank(), second.rank()
	if b > a || b == a && second.Rule == first.Rule && second.Rounds > first.Rounds {
		return second
	}
	return first
}

// rank puts findings in order. Who goes on with rounds is not asked about their parts, which would put off the end.
func (f *finding) rank() int {
	switch {
	case f.Advice == End:
		return 4
	case f.Advice == Go && (f.Rule == Tail || f.Rule == Pair):
		return 3
	case f.Advice == Ask:
		return 2
	case f.Rule != "":
		return 1
	}
	return 0
}

// verdict is the finding for the host.
func (f *finding) verdict(isNew bool) Verdict {
	if f.Rule == "" {
		return Verdict{Advice: Go, New: isNew}
	}
	f.New, f.Pattern = isNew, hex.EncodeToString(binary.BigEndian.AppendUint64(nil, f.pattern))
	return f.Verdict
}
