package loop

import "time"

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
