package stall

import (
	"slices"

	"github.com/seed62658d38/watchdog/stall/internal/probe"
)

// volatileAfter is how many results in a row have to differ in exactly the same fields.
const volatileAfter = 5

// A volatility finds fields of a probe's results that differ every time, such as the time of the result. Because of
// them no two results are equal, and a stall is never seen. It only notices: a counter that grows is progress.
type volatility struct {
	last   []byte
	fields []string
	times  int
	said   bool
}

// observe adds the output of a probe that saw something. It returns the fields once, when they have differed often
// enough.
func (v *volatility) observe(output []byte) []string {
	if v.said {
		return nil
	}
	var fields []string
	if v.last != nil {
		fields = probe.Differ(v.last, output)
	}
	v.last = output
	switch {
	case len(fields) == 0:
		v.times = 0
	case slices.Equal(fields, v.fields):
		v.times++
	default:
		v.times = 1
	}
	v.fields = fields
	if v.times < volatileAfter {
		return nil
	}
	v.said = true
	return fields
}
