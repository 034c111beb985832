package main

import (
	"strconv"
	"strings"
	"unicode"
)

// safe is text from a database as it can be printed on a terminal: what is not printable, such as an escape sequence or
// a mark that turns the direction of writing, is escaped as in Go.
func safe(text string) string {
	if strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return text
	}
	quoted := strconv.Quote(text)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}
