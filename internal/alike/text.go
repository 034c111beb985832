package alike

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
)

// AgentLines are the lines that differ in every outcome of a known agent: of the shells of Codex and of Gemini CLI, and
// of the sub-agents of Claude Code.
var AgentLines = []string{
	"Chunk ID", "Wall time", "Original token count", "Process Group PGID", "Background PIDs", "agentId",
}

// maxName is how long the name of a volatile line may be, with the blanks before it.
const maxName = 64

// text returns the digest of a text, of an outcome without the lines that are volatile, and with a mark in place of
// what differs from one time to the next though the outcome is the same: times, durations with units, UUIDs,
// hexadecimal addresses, temporary paths, the IDs of processes, and the line at which a shell says that it failed.
func (r *Reader) text(text []byte) (digest uint64) {
	if !r.outcome {
		r.say(text)
		return Sum(0, text)
	}
	for len(text) > 0 {
		n := bytes.IndexByte(text, '\n') + 1
		if n == 0 {
			n = len(text)
		}
		if line := text[:n]; !r.leavesOut(line) {
			digest = r.line(digest, line)
		}
		text = text[n:]
	}
	return digest
}

// say keeps the beginning of what an outcome says.
func (r *Reader) say(text []byte) {
	if room := maxSaid - len(r.said); r.outcome && !r.muted && room > 0 {
		r.said = append(r.said, text[:min(room, len(text))]...)
	}
}

func (r *Reader) leavesOut(line []byte) bool {
	n := bytes.IndexByte(line[:min(len(line), maxName)], ':')
	return n > 0 && r.Volatile.has(bytes.TrimLeft(line[:n], " \t"))
}

func (r *Reader) line(digest uint64, line []byte) uint64 {
	kept := 0 // what comes before it is in the digest
	for i := 0; i < len(line); {
		if i+8 <= len(line) && !anyBlurred(binary.LittleEndian.Uint64(line[i:])) {
			i += 8
			continue
		}
		if b := line[i]; b > '9' || b < '-' {
			i++
			continue
		}
		start, n := blurredAt(line, i, kept)
		if n == 0 {
			i = skip(line, i)
			continue
		}
		r.say(line[kept:start])
		digest = Mix(Sum(digest, line[kept:start]), blurred)
		i = start + n
		kept = i
	}
	r.say(line[kept:])
	return Sum(digest, line[kept:])
}

// anyBlurred reports whether one of eight bytes can be of what is blurred: from the dash to the nine.
func anyBlurred(eight uint64) bool {
	const each, high = 0x0101010101010101, 0x8080808080808080
	low := eight &^ high
	return (low+each*(0x80-'-'))&^(low+each*(0x80-':'))&^eight&high != 0
}

// blurredAt returns the start and the length of what is blurred and begins at i, or before it if that is in a UUID. The
// length is 0 if there is nothing.
func blurredAt(line []byte, i, kept int) (start, n int) {
	switch b := line[i]; {
	case b == '-':
		if i >= kept+8 && matches(line[i-8:], "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx") {
			return i - 8, 36
		}
	case b == '/':
		return i, temporaryPath(line, i)
	case isDigit(b) && (i == 0 || !isWord(line[i-1])):
		return i, blurredNumber(line, i)
	}
	return i, 0
}

// skip returns where to go on: all of a number is one.
func skip(line []byte, i int) int {
	if !isDigit(line[i]) {
		return i + 1
	}
	for i < len(line) && (isWord(line[i]) || line[i] == '.') {
		i++
	}
	return i
}

// matches reports whether a text begins with a form, in which 0 is a digit, x a hexadecimal one, T a T or a space, and
// + a sign.
func matches(text []byte, form string) bool {
	if len(text) < len(form) {
		return false
	}
	for i := range len(form) {
		if !fits(text[i], form[i]) {
			return false
		}
	}
	return true
}

func fits(b, form byte) bool {
	switch form {
	case '0':
		return isDigit(b)
	case 'x':
		return isHex(b)
	case 'T':
		return b|0x20 == 't' || b == ' '
	case '+':
		return b == '+' || b == '-'
	}
	return b == form
}

// blurredNumber returns the length of the number that begins at i if it is one to blur, or 0.
func blurredNumber(line []byte, i int) int {
	rest := line[i:]
	if n := timestamp(rest); n > 0 {
		return n
	}
	if n := durations(rest); n > 0 {
		return n
	}
	end := 0
	for end < len(rest) && isWord(rest[end]) {
		end++
	}
	address := bytes.HasPrefix(rest, []byte("0x")) && matches(rest[2:], "xxxxxx")
	if address || numbered(line[:i], rest[end:]) {
		return end
	}
	return 0
}

// numbered reports whether a number is that of a shell's line or the ID of a process, by what is before and after it.
func numbered(before, after []byte) bool {
	if len(after) > 0 && after[0] == ':' && bytes.HasSuffix(before, []byte("sh: line ")) {
		return true
	}
	n := len(before)
	return n >= 4 && isOf(" =", before[n-1]) && isOf("dDs:", before[n-2]) && oneOf(processes, before, bytes.HasSuffix)
}

func isOf(set string, b byte) bool { return strings.IndexByte(set, b) >= 0 }

var processes = []string{"pid ", "pid: ", "pid=", "PID ", "PID: ", "PID=", "process ", "Process "}

// timestamp is a time of a day, and the day if there is one.
func timestamp(text []byte) (n int) {
	switch {
	case matches(text, "0000-00-00T00:00:00"):
		n = 19
	case matches(text, "00:00:00"):
		n = 8
	default:
		return 0
	}
	if n < len(text) && text[n] == ',' {
		n += 1 + digits(text[n+1:])
	} else {
		n = fraction(text, n)
	}
	switch rest := text[n:]; {
	case len(rest) > 0 && rest[0]|0x20 == 'z':
		n++
	case matches(rest, "+00:00"):
		n += 6
	}
	return n
}

func digits(text []byte) (n int) {
	for n < len(text) && isDigit(text[n]) {
		n++
	}
	return n
}

// fraction returns the end of the fraction of a number that may begin at n.
func fraction(text []byte, n int) int {
	if n < len(text) && text[n] == '.' {
		if more := digits(text[n+1:]); more > 0 {
			return n + 1 + more
		}
	}
	return n
}

// durations is durations one after the other, such as 1m30s and 1 min 30 s.
func durations(text []byte) (n int) {
	for start := 0; start < len(text); {
		end := fraction(text, start+digits(text[start:]))
		unit := unitLength(text[end:])
		if end == start || unit == 0 {
			break
		}
		n = end + unit
		start = n
		if n < len(text) && text[n] == ' ' {
			start++
		}
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
	for n < len(text) && (isLetter(text[n]) || text[n] >= 0x80 || text[n] == '_') {
		n++
	}
	switch string(text[start:n]) {
	case "ns", "us", "µs", "μs", "ms", "s", "sec", "secs", "second", "seconds", "min", "mins", "minute", "minutes",
		"h", "hr", "hrs", "hour", "hours", "day", "days", "milliseconds", "microseconds":
		return n
	case "m", "d":
		if start == 0 {
			return n
		}
	}
	return 0
}

var temporaryFolders = []string{"/tmp/", "/var/tmp/", "/private/tmp/", "/var/folders/", "/private/var/folders/"}

func temporaryPath(line []byte, i int) int {
	inner := i > 0 && (isWord(line[i-1]) || bytes.IndexByte([]byte(".-~"), line[i-1]) >= 0)
	if inner || !oneOf(temporaryFolders, line[i:], bytes.HasPrefix) {
		return 0
	}
	if n := bytes.IndexAny(line[i:], " \t\r\n\"'`,;:()[]<>|*?&="); n >= 0 {
		return n
	}
	return len(line) - i
}

// oneOf reports whether one of the list is where is looks for it in the text.
func oneOf(list []string, text []byte, is func(text, part []byte) bool) bool {
	return slices.ContainsFunc(list, func(part string) bool { return is(text, []byte(part)) })
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }

func isHex(b byte) bool { return isDigit(b) || 'a' <= b|0x20 && b|0x20 <= 'f' }

func isLetter(b byte) bool { return 'a' <= b|0x20 && b|0x20 <= 'z' }

func isWord(b byte) bool { return isDigit(b) || isLetter(b) || b == '_' }

// differs reports whether the number in the field of that name says how long something took, or when, or which process
// did it, as elapsed_ms and durationSeconds do.
func differs(key []byte) bool {
	return len(key) > 0 && bytes.IndexByte([]byte("scnpd"), key[len(key)-1]) >= 0 && oneOf(measures, key, bytes.HasSuffix)
}

var measures = []string{"_ns", "_us", "_ms", "_s", "_sec", "_secs", "_seconds", "_mins", "_minutes", "_hours",
	"Ns", "Us", "Ms", "Sec", "Secs", "Seconds", "Minutes", "Hours", "_millis", "Millis", "timestamp", "pid"}

// How long the first line of a failure is that says something, and what is compared of it, in bytes.
const (
	leastLine = 20
	mostLine  = 60
)

// Failure returns what the last outcome, which is a failure, has in common with others: of the same input, all but the
// words that have a digit; of another input, its first line, because the others often echo the input.
func (r *Reader) Failure() (all, first uint64) {
	r.spare = r.spare[:0]
	for said := r.said; len(said) > 0; {
		n, digit := 0, false
		for n < len(said) && isWord(said[n]) {
			digit = digit || isDigit(said[n])
			n++
		}
		switch n = max(n, 1); {
		case digit:
			r.spare = append(r.spare, '#')
		default:
			r.spare = append(r.spare, said[:n]...)
		}
		said = said[n:]
	}
	return Sum('f', r.spare), Sum('f', firstLine(r.spare))
}

// firstLine returns the beginning of the first line of a failure that says more than that it is one, or all of it.
func firstLine(text []byte) []byte {
	line, rest, _ := bytes.Cut(text, []byte("\n"))
	if len(line) < leastLine {
		line, _, _ = bytes.Cut(rest, []byte("\n"))
	}
	line = bytes.TrimSpace(line[:min(len(line), mostLine)])
	if len(line) < leastLine || line[len(line)-1] == ':' { // such as the one above a traceback
		return text
	}
	return line
}
