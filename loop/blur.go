package loop

import "bytes"

// appendBlurred appends the text of an outcome. A mark takes the place of what differs from one time to the next though
// the outcome is the same: durations with units, RFC 3339 times, hexadecimal addresses, and temporary paths.
func appendBlurred(out, text []byte) []byte {
	kept := 0 // what comes before it is in out
	for i := 0; i < len(text); {
		n := 0
		switch b := text[i]; {
		case isDigit(b):
			n = blurredNumber(text, i)
		case b == '/':
			n = temporaryPath(text, i)
		case b == ':':
			if n = temporaryDrivePath(text, i-1); n > 0 {
				i-- // the letter of the drive
			}
		}
		if n == 0 {
			i = skip(text, i)
			continue
		}
		out = append(append(out, text[kept:i]...), blurMark)
		i += n
		kept = i
	}
	return append(out, text[kept:]...)
}

// skip returns where to go on: all of a number is one.
func skip(text []byte, i int) int {
	if !isDigit(text[i]) {
		return i + 1
	}
	for i < len(text) && (isWord(text[i]) || text[i] == '.') {
		i++
	}
	return i
}

// blurredNumber returns the length of the time, the address or the duration that begins at i, or 0.
func blurredNumber(text []byte, i int) int {
	if i > 0 && isWord(text[i-1]) {
		return 0
	}
	rest := text[i:]
	if n := address(rest); n > 0 {
		return n
	}
	if n := timestamp(rest); n > 0 {
		return n
	}
	return durations(rest)
}

// address is 0x and at least six digits: less is a number.
func address(text []byte) int {
	if len(text) < 8 || text[0] != '0' || text[1]|0x20 != 'x' {
		return 0
	}
	n := 2
	for n < len(text) && isHex(text[n]) {
		n++
	}
	if n < 8 || n > 18 || n < len(text) && isWord(text[n]) {
		return 0
	}
	return n
}

// timestamp is an RFC 3339 time, with a T or a space in the middle.
func timestamp(text []byte) int {
	const form = "0000-00-00T00:00:00"
	if len(text) <= len(form) {
		return 0
	}
	for i := range len(form) {
		switch b := text[i]; form[i] {
		case '0':
			if !isDigit(b) {
				return 0
			}
		case 'T':
			if b != 'T' && b != 't' && b != ' ' {
				return 0
			}
		default:
			if b != form[i] {
				return 0
			}
		}
	}
	n := fraction(text, len(form))
	if zone := zoneLength(text[n:]); zone > 0 {
		return n + zone
	}
	return 0
}

// fraction returns the end of the fraction of a number that may begin at n.
func fraction(text []byte, n int) int {
	end := n + 1
	for end < len(text) && isDigit(text[end]) {
		end++
	}
	if n < len(text) && text[n] == '.' && end > n+1 {
		return end
	}
	return n
}

func zoneLength(text []byte) int {
	switch {
	case len(text) == 0:
		return 0
	case text[0]|0x20 == 'z':
		return 1
	case len(text) >= 6 && (text[0] == '+' || text[0] == '-') && text[3] == ':' &&
		isDigit(text[1]) && isDigit(text[2]) && isDigit(text[4]) && isDigit(text[5]):
		return 6
	}
	return 0
}

// durations is durations one after the other, such as 1m30s and 1 min 30 s.
func durations(text []byte) (n int) {
	for {
		start := n
		if n > 0 && n < len(text) && text[n] == ' ' {
			start++
		}
		length := duration(text[start:])
		if length == 0 {
			return n
		}
		n = start + length
	}
}

// duration is one number with a unit, or several without a space between, such as 1m30s.
func duration(text []byte) (n int) {
	for n < len(text) && isDigit(text[n]) {
		end := n
		for end < len(text) && isDigit(text[end]) {
			end++
		}
		end = fraction(text, end)
		unit := unitLength(text[end:])
		if unit == 0 {
			return 0
		}
		n = end + unit
	}
	if n < len(text) && isWord(text[n]) {
		return 0
	}
	return n
}

// unitLength returns the length of a unit of time, and of the space before it. One m or d after a space is rather
// something else.
func unitLength(text []byte) int {
	start := 0
	if len(text) > 0 && text[0] == ' ' {
		start = 1
	}
	n := start
	for n < len(text) && (isLetter(text[n]) || text[n] >= 0x80) {
		n++
	}
	switch string(text[start:n]) {
	case "ns", "us", "µs", "μs", "ms", "s", "sec", "secs", "second", "seconds", "min", "mins", "minute", "minutes",
		"h", "hr", "hrs", "hour", "hours", "day", "days",
		"nanoseconds", "microseconds", "millisecond", "milliseconds", "msec", "usec", "nsec":
		return n
	case "m", "d":
		if start == 0 {
			return n
		}
	}
	return 0
}

var temporaryFolders = []string{"/tmp/", "/var/tmp/", "/private/tmp/", "/var/folders/", "/private/var/folders/"}

func temporaryPath(text []byte, i int) int {
	if i > 0 && (isWord(text[i-1]) || text[i-1] == '.' || text[i-1] == '-' || text[i-1] == '~') {
		return 0
	}
	for _, folder := range temporaryFolders {
		if bytes.HasPrefix(text[i:], []byte(folder)) {
			return pathLength(text[i:])
		}
	}
	return 0
}

// temporaryDrivePath is a path such as C:\Users\me\AppData\Local\Temp\x.
func temporaryDrivePath(text []byte, i int) int {
	if i < 0 || !isLetter(text[i]) || i > 0 && isWord(text[i-1]) || i+2 >= len(text) || text[i+2] != '\\' {
		return 0
	}
	n := 2 + pathLength(text[i+2:])
	if !bytes.Contains(text[i:i+n], []byte(`\Temp\`)) {
		return 0
	}
	return n
}

func pathLength(text []byte) int {
	if n := bytes.IndexAny(text, " \t\r\n\"'`,;:()[]<>|*?&="); n >= 0 {
		return n
	}
	return len(text)
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }

func isLetter(b byte) bool { return 'a' <= b|0x20 && b|0x20 <= 'z' }

func isWord(b byte) bool { return isDigit(b) || isLetter(b) || b == '_' }

// namesDuration reports whether the name of a field ends with a unit of time, as elapsed_ms and durationSeconds do.
func namesDuration(key []byte) bool {
	for _, unit := range []string{
		"_ns", "_us", "_ms", "_s", "_sec", "_secs", "_seconds", "_min", "_mins", "_minutes", "_hours",
		"Ns", "Us", "Ms", "Sec", "Secs", "Seconds", "Minutes", "Hours", "_millis", "Millis",
	} {
		if bytes.HasSuffix(key, []byte(unit)) {
			return true
		}
	}
	return false
}
