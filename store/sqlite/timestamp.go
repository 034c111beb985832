package sqlite

import (
	"fmt"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog/store/internal/storeflow"
)

// timeLayout is the form of a timestamp in the table. Such texts sort as the times do.
const timeLayout = "2006-01-02 15:04:05.000000"

// formatTime writes UTC and cuts off below the microsecond.
func formatTime(t time.Time) string { return t.UTC().Format(timeLayout) }

func nullTime(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return formatTime(t)
}

// databaseTime is the SQL for the current time, which SQLite knows to the millisecond, databaseMicros as a number.
const (
	databaseTime   = `strftime('%Y-%m-%d %H:%M:%f', 'now') || '000'`
	databaseMicros = `CAST(strftime('%s', 'now') AS INTEGER) * 1000000 ` +
		`+ CAST(substr(strftime('%f', 'now'), 4) AS INTEGER) * 1000`
)

// The forms of other writers: a clock time with or without seconds, then a zone; no zone means UTC. time.Parse
// accepts any number of digits after the seconds without a layout of their own.
var (
	clocks = []string{"2006-01-02T15:04:05", "2006-01-02T15:04"}
	zones  = []string{"", "Z07:00", "-0700", "-07", "-0700 MST"}
)

// parseTime reads a timestamp of any writer: with T or a space, any number of digits, and Z, an offset or no zone. It
// also reads the form in which Go drivers write a time.Time. It returns UTC, cut off below the microsecond.
func parseTime(text string) (time.Time, error) {
	plain := normalize(text)
	for _, clock := range clocks {
		for _, zone := range zones {
			t, err := time.Parse(clock+zone, plain)
			if t = storeflow.Truncate(t); err == nil && t.Year() >= 1 && t.Year() <= 9999 {
				return t, nil
			}
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time such as %q", clip(text), timeLayout)
}

// normalize puts a T between date and clock time, and removes the space before a numeric zone.
func normalize(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), " m=") // the monotonic clock reading of time.Time.String
	const date = len("2006-01-02")
	if len(text) <= date {
		return text
	}
	day, clock := text[:date], strings.ToUpper(text[date+1:])
	if !strings.ContainsRune(" Tt", rune(text[date])) {
		return text
	}
	clock = strings.TrimSuffix(clock, " UTC")
	for _, sign := range []string{"+", "-"} {
		clock = strings.Replace(clock, " "+sign, sign, 1)
	}
	return day + "T" + clock
}

func clip(text string) string {
	const enough = 64
	if len(text) <= enough {
		return text
	}
	return text[:enough] + "…"
}
