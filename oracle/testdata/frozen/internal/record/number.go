package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
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
	var quoted string
	if json.Unmarshal(text, &quoted) != nil {
		quoted = string(text)
	}
	if whole, err := strconv.ParseInt(quoted, 10, 64); err == nil {
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

// number reads a number, or a string that holds one. Null is zero.
func number(text []byte) (float64, error) {
	if bytes.Equal(text, []byte("null")) {
		return 0, nil
	}
	var quoted string
	if json.Unmarshal(text, &quoted) != nil {
		quoted = string(text)
	}
	n, err := strconv.ParseFloat(quoted, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return 0, fmt.Errorf("%s is not a number", text)
	}
	return n, nil
}
