package rpn

import (
	"errors"
	"strconv"
	"strings"
)

// The errors of [Eval]. Eval wraps each, with the wrong word if there is one.
var (
	ErrEmpty        = errors.New("rpn: nothing to calculate")
	ErrTooFew       = errors.New("rpn: operator without two numbers before it")
	ErrLeftOver     = errors.New("rpn: numbers left over")
	ErrNotANumber   = errors.New("rpn: neither a number nor an operator")
	ErrDivideByZero = errors.New("rpn: division by zero")
)

// Eval returns the value of an expression: numbers and the operators + - * /, separated by spaces.
func Eval(expression string) (int, error) {
	var stack []int
	for word := range strings.FieldsSeq(expression) {
		var err error
		if stack, err = step(stack, word); err != nil {
			return 0, errors.Join(err, errors.New("at "+strconv.Quote(word)))
		}
	}
	switch len(stack) {
	case 0:
		return 0, ErrEmpty
	case 1:
		return stack[0], nil
	}
	return 0, ErrLeftOver
}

// step returns the stack after one word.
func step(stack []int, word string) ([]int, error) {
	operator, ok := operators[word]
	if !ok {
		number, err := strconv.Atoi(word)
		if err != nil {
			return nil, ErrNotANumber
		}
		return append(stack, number), nil
	}
	if len(stack) < 2 {
		return nil, ErrTooFew
	}
	rest, a, b := stack[:len(stack)-2], stack[len(stack)-2], stack[len(stack)-1]
	value, err := operator(a, b)
	return append(rest, value), err
}

var operators = map[string]func(a, b int) (int, error){
	"+": func(a, b int) (int, error) { return a + b, nil },
	"-": func(a, b int) (int, error) { return a - b, nil },
	"*": func(a, b int) (int, error) { return a * b, nil },
	"/": divide,
}

func divide(a, b int) (int, error) {
	if b == 0 {
		return 0, ErrDivideByZero
	}
	return a / b, nil
}
