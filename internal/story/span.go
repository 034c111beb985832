package story

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog/internal/record"
)

// A Span is a length of time. Its JSON form is in seconds.
type Span time.Duration

// MarshalJSON writes seconds, to the microsecond.
func (s Span) MarshalJSON() ([]byte, error) {
	return json.Marshal(record.ExactSeconds(time.Duration(s)))
}

// UnmarshalJSON reads them.
func (s *Span) UnmarshalJSON(text []byte) error {
	var seconds record.Seconds
	err := json.Unmarshal(text, &seconds)
	*s = Span(record.Duration(seconds))
	return err
}

// String is the length as people read it: to the second, or for less than a minute to the millisecond.
func (s Span) String() string {
	d := time.Duration(s)
	unit := time.Second
	if d.Abs() < time.Minute {
		unit = time.Millisecond
	}
	text := d.Truncate(unit).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
