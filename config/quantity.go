package config

import (
	"math"
	"strconv"
	"strings"

	"github.com/seed62658d38/watchdog"
)

// quantity is the kind of a number of tokens or calls. 0 is none.
type quantity struct {
	field func(*Config) *int64
}

func (q quantity) fromVariable(text string) value { return fromText(text) }

func (q quantity) set(c *Config, v value) *invalidValue {
	n, problem := parseQuantity(v)
	if problem != "" {
		return v.invalid(problem)
	}
	*q.field(c) = n
	return nil
}

func (q quantity) show(c *Config) string {
	if q.off(c) {
		return "off"
	}
	return strconv.FormatInt(*q.field(c), 10)
}

func (q quantity) off(c *Config) bool { return *q.field(c) == 0 || *q.field(c) == watchdog.NoLimit }
func (q quantity) disable(c *Config)  { *q.field(c) = 0 }

func parseQuantity(v value) (n int64, problem string) {
	if problem := numberProblem(v); problem != "" {
		return 0, problem
	}
	if strings.Contains(v.text, ".") {
		return 0, "is not a whole number"
	}
	n, err := strconv.ParseInt(v.text, 10, 64)
	if err != nil || n == math.MaxInt64 { // the largest number means no limit in Go code
		return 0, "is too large; at most 9223372036854775806 fits"
	}
	return n, ""
}
