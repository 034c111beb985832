package rpn_test

import (
	"errors"
	"testing"

	"github.com/seed62658d38/watchdog/examples/autosession/demo/rpn"
)

func TestEval(t *testing.T) {
	for expression, want := range map[string]int{
		"7":              7,
		"3 4 + 2 *":      14,
		"10 2 8 * + 3 -": 23,
		" -6   4 / ":     -1,
	} {
		t.Run(expression, func(t *testing.T) {
			if got, err := rpn.Eval(expression); got != want || err != nil {
				t.Errorf("Eval(%q) = %d, %v; want %d", expression, got, err, want)
			}
		})
	}
}

func TestEvalErrors(t *testing.T) {
	for expression, want := range map[string]error{
		"":      rpn.ErrEmpty,
		"1 +":   rpn.ErrTooFew,
		"1 2":   rpn.ErrLeftOver,
		"1 x +": rpn.ErrNotANumber,
		"1 0 /": rpn.ErrDivideByZero,
	} {
		t.Run(expression, func(t *testing.T) {
			if _, err := rpn.Eval(expression); !errors.Is(err, want) {
				t.Errorf("Eval(%q) failed with %v; want %v", expression, err, want)
			}
		})
	}
}
