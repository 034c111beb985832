package event

import (
	"fmt"
	"time"
)

// A Stamp is a time as events carry it: UTC, RFC 3339, truncated to the microsecond and written with all six digits.
// Databases and other languages keep no more.
type Stamp time.Time

const stampLayout = "2006-01-02T15:04:05.000000Z"

// Truncate makes a time comparable with == to one that went through a store.
func Truncate(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// String is the time as events have it, which is the name of a session's window, too.
func (s Stamp) String() string { return Truncate(time.Time(s)).Format(stampLayout) }

// MarshalText implements [encoding.TextMarshaler].
func (s Stamp) MarshalText() ([]byte, error) {
	return Truncate(time.Time(s)).AppendFormat(make([]byte, 0, 32), stampLayout), nil
}

// UnmarshalText reads what MarshalText wrote and the times of other writers: any offset, or none for UTC, any number of
// digits, a space for the T.
func (s *Stamp) UnmarshalText(text []byte) error {
	var first error
	for _, layout := range [...]string{
		time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00",
		"2006-01-02 15:04:05.999999999",
	} {
		t, err := time.Parse(layout, string(text))
		if err == nil {
			*s = Stamp(Truncate(t))
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return fmt.Errorf("time %q is not RFC 3339: %w", text, first)
}
