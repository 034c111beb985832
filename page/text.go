package page

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// length is a duration for people: two units at most.
func length(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return units(d, time.Minute, "m", time.Second, "s")
	case d < 48*time.Hour:
		return units(d, time.Hour, "h", time.Minute, "m")
	}
	return units(d, 24*time.Hour, "d", time.Hour, "h")
}

func units(d, big time.Duration, bigName string, small time.Duration, smallName string) string {
	text := strconv.Itoa(int(d/big)) + bigName
	if rest := d % big / small; rest > 0 {
		text += fmt.Sprintf(" %d%s", rest, smallName)
	}
	return text
}

// seconds are those of a payload or a row, as a duration. What is too large is the largest that there is.
func seconds(s float64) time.Duration {
	if s >= math.MaxInt64/float64(time.Second) {
		return math.MaxInt64
	}
	return time.Duration(s * float64(time.Second))
}

// number writes a whole number with commas between the thousands.
func number(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// money writes micro-units with two digits, or as many as a small sum needs.
func money(micros int64, currency string) string {
	text := strconv.FormatFloat(float64(micros)/1e6, 'f', 2, 64)
	if micros%10_000 != 0 && micros < 1_000_000 {
		text = strconv.FormatFloat(float64(micros)/1e6, 'f', -1, 64)
	}
	return strings.TrimSpace(text + " " + currency)
}

// words is a name of the code as people write it.
func words(name string) string { return strings.ReplaceAll(name, "_", " ") }

// shellQuote quotes a word for a POSIX shell. One with characters that cannot be seen is written with escapes, which
// bash, zsh and ksh read, so that what is copied is what was shown.
func shellQuote(word string) string {
	if word != "" && strings.IndexFunc(word, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_./:@%+=,", r)
	}) < 0 {
		return word
	}
	if strings.IndexFunc(word, func(r rune) bool { return r != ' ' && !unicode.IsGraphic(r) }) < 0 {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	var quoted strings.Builder
	for _, r := range word {
		switch {
		case r == '\'' || r == '\\':
			quoted.WriteString(`\` + string(r))
		case r == ' ' || unicode.IsGraphic(r):
			quoted.WriteRune(r)
		case r > math.MaxUint16:
			fmt.Fprintf(&quoted, `\U%08x`, r)
		default:
			fmt.Fprintf(&quoted, `\u%04x`, r)
		}
	}
	return "$'" + quoted.String() + "'"
}
