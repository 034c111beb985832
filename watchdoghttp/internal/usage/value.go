package usage

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// A value is one JSON value, of JSON that was found valid as a whole. It is walked without a copy: package
// encoding/json keeps neither the order of members nor where they stand.
type value []byte

// isNothing reports whether the value says nothing: null, false, or empty.
func (v value) isNothing() bool {
	switch string(v) {
	case "null", "false", `""`, "[]", "{}":
		return true
	}
	return false
}

func (v value) isTrue() bool { return string(v) == "true" }

// number returns a count, and whether the value is one.
func (v value) number() (int64, bool) {
	n, err := strconv.ParseInt(string(v), 10, 64)
	return n, err == nil && n >= 0
}

// text returns what a string says; another value says nothing.
func (v value) text() string {
	if v[0] != '"' {
		return ""
	}
	if bytes.IndexByte(v, '\\') < 0 {
		return string(v[1 : len(v)-1])
	}
	var text string
	if json.Unmarshal(v, &text) != nil {
		return ""
	}
	return text
}

// members calls each with the members of an object, in order.
func (v value) members(each func(key string, member value)) {
	for i := skipSpace(v, 1); v[i] != '}'; {
		end := endOf(v, i)
		key := v[i:end].text()
		i = skipSpace(v, skipSpace(v, end)+1)
		end = endOf(v, i)
		each(key, v[i:end])
		i = afterComma(v, end)
	}
}

func (v value) elements(each func(element value)) {
	for i := skipSpace(v, 1); v[i] != ']'; {
		end := endOf(v, i)
		each(v[i:end])
		i = afterComma(v, end)
	}
}

func skipSpace(v value, i int) int {
	for isSpace(v[i]) {
		i++
	}
	return i
}

func afterComma(v value, i int) int {
	if i = skipSpace(v, i); v[i] == ',' {
		i = skipSpace(v, i+1)
	}
	return i
}

// endOf returns where the value ends that begins at i.
func endOf(v value, i int) int {
	switch v[i] {
	case '"':
		return endOfString(v, i)
	case '{', '[':
		return endOfContainer(v, i)
	}
	for i < len(v) && !isDelimiter(v[i]) {
		i++
	}
	return i
}

func endOfString(v value, i int) int {
	for {
		quote := i + 1 + bytes.IndexByte(v[i+1:], '"')
		begin := quote
		for v[begin-1] == '\\' {
			begin--
		}
		if i = quote; (quote-begin)%2 == 0 {
			return quote + 1
		}
	}
}

func endOfContainer(v value, i int) int {
	for depth := 0; ; i++ {
		switch v[i] {
		case '"':
			i = endOfString(v, i) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
}
