package sqlite_test

import (
	"testing"
	"time"

	"github.com/seed62658d38/watchdog/store/sqlite"
)

func TestParseTime(t *testing.T) {
	t.Parallel()
	at := func(hour, minute, second, microsecond int) time.Time {
		return time.Date(2026, 3, 4, hour, minute, second, microsecond*1000, time.UTC)
	}
	for text, want := range map[string]time.Time{
		"2026-03-04 12:00:00.000000":                          at(12, 0, 0, 0),
		"2026-03-04 12:00:00.123456":                          at(12, 0, 0, 123456),
		"2026-03-04T12:00:00.123456Z":                         at(12, 0, 0, 123456),
		"2026-03-04t12:00:00.123456z":                         at(12, 0, 0, 123456),
		"2026-03-04T12:00:00.123456+00:00":                    at(12, 0, 0, 123456),
		"2026-03-04 12:00:00+00":                              at(12, 0, 0, 0),
		"2026-03-04 12:00:00.5+02":                            at(10, 0, 0, 500000),
		"2026-03-04 12:00:00 +0200":                           at(10, 0, 0, 0),
		"2026-03-04 12:00:00-05:30":                           at(17, 30, 0, 0),
		"2026-03-04 12:00:00.1":                               at(12, 0, 0, 100000),
		"2026-03-04 12:00:00.123456789":                       at(12, 0, 0, 123456),
		"2026-03-04 12:00:00.999999999999":                    at(12, 0, 0, 999999),
		"2026-03-04 12:00:00,25":                              at(12, 0, 0, 250000),
		"2026-03-04 12:00":                                    at(12, 0, 0, 0),
		"2026-03-04T12:00Z":                                   at(12, 0, 0, 0),
		" 2026-03-04 12:00:00 UTC ":                           at(12, 0, 0, 0),
		"2026-03-04 12:00:00.123456789 +0000 UTC":             at(12, 0, 0, 123456),
		"2026-03-04 14:00:00 +0200 CEST":                      at(12, 0, 0, 0),
		"2026-03-04 12:00:00.5 +0000 UTC m=+0.000123":         at(12, 0, 0, 500000),
		"0001-01-01 00:00:00.000001":                          time.Date(1, 1, 1, 0, 0, 0, 1000, time.UTC),
		"9999-12-31 23:59:59.999999":                          time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC),
		"1969-12-31 23:59:59.9999999":                         time.Date(1969, 12, 31, 23, 59, 59, 999999000, time.UTC),
		"2024-02-29 00:00:00":                                 time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC),
		time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC).String(): at(12, 0, 0, 0),
	} {
		if got, err := sqlite.ParseTime(text); err != nil || got != want {
			t.Errorf("%q is read as %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestParseInvalidTime(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", " ", "now", "2026-03-04", "12:00:00", "1772625600", "2461104.5",
		"2026-03-04_12:00:00", "2026-02-30 12:00:00", "2026-03-04 25:00:00",
		"2026-03-04 12:00:60", "2026-03-04 12:00:00 Mars",
		"2026-03-04 12:00:00+99:99", "26-03-04 12:00:00", "12026-03-04 12:00:00",
		"0001-01-01 00:00:00+14:00", "9999-12-31 23:59:59-14:00",
		"2026-03-04 12:00:00.", "2026-03-04 12:00:00ZZ", "２０２６-03-04 12:00:00",
	} {
		if got, err := sqlite.ParseTime(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

// FuzzParseTime checks that a time that was read is one that an event can have, and is the same after it is written.
func FuzzParseTime(f *testing.F) {
	for _, seed := range []string{
		"2026-03-04 12:00:00.123456", "2026-03-04T12:00:00Z", "2026-03-04 12:00:00.5 +0000 UTC m=+0.1",
		"2026-03-04 12:00-07", "0001-01-01 00:00:00+14:00",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		read, err := sqlite.ParseTime(text)
		if err != nil {
			return
		}
		if read.Location() != time.UTC || read.Year() < 1 || read.Year() > 9999 || read.Nanosecond()%1000 != 0 {
			t.Fatalf("%q is read as %v", text, read)
		}
		if again, err := sqlite.ParseTime(sqlite.FormatTime(read)); err != nil || again != read {
			t.Fatalf("%q is read as %v, written as %q, and then read as %v, %v", text, read, sqlite.FormatTime(read), again, err)
		}
	})
}
