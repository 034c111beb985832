package postgres

import (
	"strconv"
	"time"
)

// An array is the text of an array without its end. An argument of it is one string, whatever it has. Rejected: lists,
// of which pgx makes an object or two for each element.
type array []byte

// next begins the next element.
func (a array) next() array {
	if len(a) == 0 {
		return append(a, '{')
	}
	return append(a, ',')
}

// appendText appends a text to an array.
func appendText[T ~string | ~[]byte](a array, text T) array {
	a = append(a.next(), '"')
	for i := range len(text) {
		if c := text[i]; c == '"' || c == '\\' {
			a = append(a, '\\')
		}
		a = append(a, text[i])
	}
	return append(a, '"')
}

func (a array) null() array { return append(a.next(), "NULL"...) }

// textOrNull appends NULL for an empty text.
func (a array) textOrNull(text string) array {
	if text == "" {
		return a.null()
	}
	return appendText(a, text)
}

func (a array) number(n int64) array { return strconv.AppendInt(a.next(), n, 10) }

// time appends a time of the years 1 to 9999, cut off below the microsecond.
func (a array) time(t time.Time) array {
	return t.UTC().AppendFormat(a.next(), `"2006-01-02 15:04:05.000000Z"`)
}

// String is the whole text.
func (a array) String() string {
	if len(a) == 0 {
		return "{}"
	}
	return string(append(a, '}'))
}
