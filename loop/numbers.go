package loop

import (
	"bytes"
	"strconv"
)

func (c *canon) number(key []byte) bool {
	n := numberLength(c.in[c.at:])
	if n == 0 {
		return false
	}
	literal := c.in[c.at : c.at+n]
	c.at += n
	switch {
	case c.outcome && differs(key), c.placed && namesPlace(key):
		c.out = append(c.out, blurMark)
	default:
		c.out = append(appendNumber(append(c.out, '#'), literal), endMark)
	}
	if c.outcome {
		c.signs.number(key, literal)
	} else if namesPlace(key) {
		c.hints.placed = true
	} else {
		c.hints.words.add(literal)
	}
	return true
}

// numberLength returns the length of the number that a text begins with, or 0.
func numberLength(text []byte) int {
	i := 0
	digits := func() bool {
		start := i
		for i < len(text) && isDigit(text[i]) {
			i++
		}
		return i > start
	}
	is := func(set string) bool { return i < len(text) && bytes.IndexByte([]byte(set), text[i]) >= 0 }
	if is("-") {
		i++
	}
	if is("0") {
		i++
	} else if !digits() {
		return 0
	}
	if is(".") {
		if i++; !digits() {
			return 0
		}
	}
	if is("eE") {
		if i++; is("+-") {
			i++
		}
		if !digits() {
			return 0
		}
	}
	return i
}

// appendNumber appends a number as its digits without zeros at either end, times a power of ten: -12.50 becomes
// -125e-1. Zero becomes 0. A number whose exponent is huge is written as it is.
func appendNumber(out, literal []byte) []byte {
	mantissa, exponent := literal, 0
	if i := bytes.IndexAny(literal, "eE"); i >= 0 {
		var err error
		if exponent, err = strconv.Atoi(string(literal[i+1:])); err != nil || exponent > 1e9 || exponent < -1e9 {
			return append(out, literal...)
		}
		mantissa = literal[:i]
	}
	start := len(out)
	mantissa, negative := bytes.CutPrefix(mantissa, []byte("-"))
	if negative {
		out = append(out, '-')
	}
	out, digits, power := appendDigits(out, mantissa)
	if digits == 0 {
		return append(out[:start], '0')
	}
	return strconv.AppendInt(append(out, 'e'), int64(exponent+power), 10)
}

// appendDigits appends the digits of a number without zeros at either end. It returns how many these are, and the power
// of ten that they are to be multiplied with.
func appendDigits(out, mantissa []byte) (_ []byte, digits, power int) {
	start := len(out)
	for i, b := range mantissa {
		switch {
		case b == '.':
			power = i + 1 - len(mantissa)
		case b != '0' || len(out) > start:
			out = append(out, b)
		}
	}
	for len(out) > start && out[len(out)-1] == '0' {
		out = out[:len(out)-1]
		power++
	}
	return out, len(out) - start, power
}
