package page

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog/internal/record"
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

// seconds are those of a row, as a duration.
func seconds(s float64) time.Duration { return record.Duration(record.Seconds(s)) }

// number writes a whole number, a large one shortly: 9,999, 41.3k, 1.76M.
func number(n int64) string {
	switch {
	case n >= 10_000_000_000 || n <= -10_000_000_000:
		return short(n, 1e9, "G")
	case n >= 1_000_000 || n <= -1_000_000:
		return short(n, 1e6, "M")
	case n >= 10_000 || n <= -10_000:
		return short(n, 1e3, "k")
	case n >= 1000:
		return fmt.Sprintf("%d,%03d", n/1000, n%1000)
	}
	return strconv.FormatInt(n, 10)
}

// short rounds down to three digits, so that what is left never looks like more.
func short(n int64, unit float64, name string) string {
	value := float64(n) / unit
	digits := max(2-int(math.Log10(math.Abs(value))), 0)
	scale := math.Pow(10, float64(digits))
	return strconv.FormatFloat(math.Trunc(value*scale)/scale, 'f', -1, 64) + name
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
