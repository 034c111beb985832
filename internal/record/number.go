package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Seconds are a length of time in a payload. Other writers may have left the number in a string.
type Seconds float64

// UnmarshalJSON reads a number, or a string that holds one.
func (s *Seconds) UnmarshalJSON(text []byte) error {
	n, err := number(text)
	if err == nil {
		*s = Seconds(n)
	}
	return err
}

// A Count is a whole number in a payload, read as [Seconds] are.
type Count int

// UnmarshalJSON reads a number, or a string that holds one.
func (c *Count) UnmarshalJSON(text []byte) error {
	n, err := number(text)
	switch {
	case err != nil:
		return err
	case n != math.Trunc(n) || math.Abs(n) > math.MaxInt32:
		return fmt.Errorf("%s is not a count", text)
	}
	*c = Count(n)
	return nil
}

// A Number is a whole number of any size in a payload, read as [Seconds] are.
type Number int64

// UnmarshalJSON reads a number, or a string that holds one.
func (n *Number) UnmarshalJSON(text []byte) error {
	if whole, err := strconv.ParseInt(unquoted(text), 10, 64); err == nil {
		*n = Number(whole)
		return nil
	}
	f, err := number(text)
	switch {
	case err != nil:
		return err
	case f != math.Trunc(f) || math.Abs(f) >= math.MaxInt64:
		return fmt.Errorf("%s is not a whole number", text)
	}
	*n = Number(f)
	return nil
}

func unquoted(text []byte) string {
	var quoted string
	if json.Unmarshal(text, &quoted) != nil {
		return string(text)
	}
	return quoted
}

// number reads a number, or a string that holds one. Null is zero.
func number(text []byte) (float64, error) {
	if bytes.Equal(text, []byte("null")) {
		return 0, nil
	}
	n, err := strconv.ParseFloat(unquoted(text), 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return 0, fmt.Errorf("%s is not a number", text)
	}
	return n, nil
}

// WholeSeconds floors, as elapsed_seconds must be.
func WholeSeconds(d time.Duration) Seconds { return Seconds(d / time.Second) }

// ExactSeconds are to the microsecond, as times are.
func ExactSeconds(d time.Duration) Seconds { return Seconds(d.Truncate(time.Microsecond).Seconds()) }

// FloatSeconds are as exact as a number can be.
func FloatSeconds(d time.Duration) Seconds { return Seconds(d.Seconds()) }

// Duration is the length that a payload's seconds stand for. The longest that there is means no limit.
func Duration(seconds Seconds) time.Duration {
	if float64(seconds) >= math.MaxInt64/float64(time.Second) {
		return math.MaxInt64
	}
	return time.Duration(math.Round(float64(seconds)*1e6)) * time.Microsecond
}
