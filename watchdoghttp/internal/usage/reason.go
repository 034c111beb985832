package usage

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// A Reason is why something cannot be bounded or read.
type Reason uint8

// The reasons. Unknown is a field or type that this package does not know: it may be anything.
const (
	Readable   Reason = iota
	Reference         // input that the API keeps or fetches
	Media             // images, sound, documents: their tokens have nothing to do with their bytes
	Opaque            // encrypted content, which may stand for more than it is long
	ServerTool        // tools of the API's own, whose definitions and results are input
	Unknown           // a field or a type that is not known here
	NoMaximum         // the request does not say how much output there may be
	Malformed         // not the JSON that the API takes or sends
	Encoded           // compressed in a way that is not read
	TooLong           // a body longer than is read ahead
	Unseekable        // a body that can be read only once
)

var reasonTexts = [...]string{
	"readable", "its input is by reference", "its input is not only text", "its input is encrypted",
	"the API's own tools add input", "it has a part that is not known", "it has no maximum of output",
	"it is malformed", "its encoding is not read", "its body is too long to be read ahead",
	"its body can be read only once",
}

// String says the reason in words that follow "cannot be read, because".
func (r Reason) String() string { return reasonTexts[r] }

// ErrUnbounded is found by errors.Is in every [Unbounded].
var ErrUnbounded = errors.New("unbounded call")

// Unbounded is the error of a call whose most is not known. Part names the field or the type that is to blame, never
// its content; it can be empty, as the model can, of which only a maximum for any is declared.
type Unbounded struct {
	Reason Reason
	Part   string
	Model  string
}

// Error says what cannot be bounded, why, and what helps.
func (u *Unbounded) Error() string {
	part := ""
	if u.Part != "" {
		part = fmt.Sprintf(" (%s)", u.Part)
	}
	return fmt.Sprintf("what the call can use is unbounded: %v%s; declare the maximum of a call of model %q",
		u.Reason, part, cmp.Or(u.Model, "*"))
}

// Unwrap returns [ErrUnbounded].
func (u *Unbounded) Unwrap() error { return ErrUnbounded }

// longestPart is the length up to which the name of a field or a type is kept.
const longestPart = 64

// partName returns the name if it looks like one, so that no text of a prompt is ever taken for a name.
func partName(name string) string {
	if len(name) > longestPart || strings.ContainsFunc(name, isOther) {
		return ""
	}
	return name
}

// isOther reports whether a character is in no name.
func isOther(c rune) bool {
	isLetter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
	return !isLetter && (c < '0' || c > '9') && c != '_' && c != '-' && c != '.'
}
