package config

import (
	"cmp"
	"strconv"
	"strings"
)

// count is the kind of how often something has to happen.
type count struct {
	field    func(*Config) *int
	standard int // the default
	least    int
}

// maxCount is more often than anything here happens.
const maxCount = 1_000_000

func (n count) fromVariable(text string) value { return written(text) }

func (n count) set(c *Config, v value) *flaw {
	if problem := numberProblem(v); problem != "" {
		return v.flaw(problem)
	}
	if strings.Contains(v.text, ".") {
		return v.flaw("is not a whole number")
	}
	number, err := strconv.Atoi(v.text)
	if err != nil || number < n.least || number > maxCount {
		return v.flaw("is out of range")
	}
	*n.field(c) = number
	return nil
}

func (n count) show(c *Config) string { return strconv.Itoa(cmp.Or(*n.field(c), n.standard)) }
func (n count) off(*Config) bool      { return false }
func (n count) rest(c *Config)        { *n.field(c) = 0 }
