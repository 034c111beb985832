package session

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// MaxUnreadable is how many unreadable rows the first page of stalled sessions reports at most.
const MaxUnreadable = 100

// A Place is the position of a session in a search: a time, then its run ID. A search for stalled sessions has the time
// when each exceeded its threshold, and a list the time when it was made. A store makes the [Page].Next of the place of
// the page's last row.
type Place struct {
	Due   int64 // microseconds since 1970
	RunID string
}

// ParsePlace reads the After of a query. An empty text is the place before all others.
func ParsePlace(text string) (Place, error) {
	if text == "" {
		return Place{Due: math.MinInt64}, nil
	}
	due, runID, found := strings.Cut(text, " ")
	at, err := strconv.ParseInt(due, 10, 64)
	if err != nil || !found {
		return Place{}, fmt.Errorf("find stalled sessions: %q is not the end of a page; pass the Next of the page before",
			text)
	}
	return Place{at, runID}, nil
}

// Compare returns -1 if p comes before other, +1 if it comes after, and 0 if they are equal.
func (p Place) Compare(other Place) int {
	return cmp.Or(cmp.Compare(p.Due, other.Due), strings.Compare(p.RunID, other.RunID))
}

// String returns the text that [ParsePlace] reads: the Next of a page.
func (p Place) String() string { return strconv.FormatInt(p.Due, 10) + " " + p.RunID }
