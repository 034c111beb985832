package config

import (
	"cmp"
	"strconv"
	"strings"
)

// count is the kind of a number of times.
type count[T int | int64] struct {
	field       func(*Config) *T
	fallback    int // the default
	least, most int // the largest is maxCount if most is 0
}

// maxCount is more than anything here happens.
const maxCount = 1_000_000

func (n count[T]) fromVariable(text string) value { return fromText(text) }

func (n count[T]) set(c *Config, v value) *invalidValue {
	if problem := numberProblem(v); problem != "" {
		return v.invalid(problem)
	}
	if strings.Contains(v.text, ".") {
		return v.invalid("is not a whole number")
	}
	number, err := strconv.Atoi(v.text)
	if err != nil || number < n.least || number > cmp.Or(n.most, maxCount) {
		return v.invalid("is out of range")
	}
	*n.field(c) = T(number)
	return nil
}

func (n count[T]) show(c *Config) string {
	return strconv.FormatInt(cmp.Or(int64(*n.field(c)), int64(n.fallback)), 10)
}

func (n count[T]) off(*Config) bool  { return false }
func (n count[T]) disable(c *Config) { *n.field(c) = 0 }
