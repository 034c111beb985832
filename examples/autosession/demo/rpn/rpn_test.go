package rpn_test

import (
	"fmt"
	"testing"

	"github.com/seed62658d38/watchdog/examples/autosession/demo/rpn"
)

func TestEval(t *testing.T) {
	for expression, want := range map[string]string{
		"7":              "7",
		"3 4 + 2 *":      "14",
		"10 2 8 * + 3 -": "23",
		"":               "0 numbers are left over",
		"1 +":            `operator "+" without two numbers before it`,
		"1 2":            "2 numbers are left over",
		"1 x +":          `"x" is neither a number nor an operator`,
	} {
		t.Run(expression, func(t *testing.T) {
			value, err := rpn.Eval(expression)
			got := fmt.Sprint(value)
			if err != nil {
				got = err.Error()
			}
			if got != want {
				t.Errorf("Eval(%q) is %s; want %s", expression, got, want)
			}
		})
	}
}
