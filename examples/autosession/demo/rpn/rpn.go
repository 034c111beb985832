// Package rpn calculates in reverse Polish notation: "3 4 + 2 *" is 14. It is the project on which the example
// autosession runs its phases.
//
// It handles whole numbers only and keeps no state between expressions.
package rpn

import (
	"fmt"
	"strconv"
	"strings"
)

// Eval returns the value of an expression: numbers and the operators + - *, separated by spaces.
func Eval(expression string) (int, error) {
	var stack []int
	for word := range strings.FieldsSeq(expression) {
		operator, ok := operators[word]
		if !ok {
			number, err := strconv.Atoi(word)
			if err != nil {
				return 0, fmt.Errorf("%q is neither a number nor an operator", word)
			}
			stack = append(stack, number)
			continue
		}
		if len(stack) < 2 {
			return 0, fmt.Errorf("operator %q without two numbers before it", word)
		}
		rest, a, b := stack[:len(stack)-2], stack[len(stack)-2], stack[len(stack)-1]
		stack = append(rest, operator(a, b))
	}
	if len(stack) != 1 {
		return 0, fmt.Errorf("%d numbers are left over", len(stack))
	}
	return stack[0], nil
}

var operators = map[string]func(a, b int) int{
	"+": func(a, b int) int { return a + b },
	"-": func(a, b int) int { return a - b },
	"*": func(a, b int) int { return a * b },
}
