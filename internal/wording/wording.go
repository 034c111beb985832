// Package wording writes amounts, lengths of time and why a limit stopped a run, as people read them.
//
// It decides nothing, and knows no event and no row.
package wording

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog/internal/record"
)

// Amount is a count with a comma between thousands; with a currency it is of micro-units, and has two decimals, or as
// many more as it needs.
func Amount(n int64, currency string) string {
	if currency == "" {
		return grouped(n)
	}
	decimals := strings.TrimRight(fmt.Sprintf("%06d", n%1e6), "0")
	return fmt.Sprintf("%s.%s%s %s", grouped(n/1e6), decimals, strings.Repeat("0", max(2-len(decimals), 0)), currency)
}

// grouped is a number that is not negative, with a comma between thousands.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Length is a limit of time: "4 h", "1 h 30 min", "2.5 s", "300 ms".
func Length(d time.Duration) string { return length(d, 0) }

// Used is how much of a limit of time was used. It says more than the limit needs, so that one sees that it is more:
// "4 h 0 min 1 s", "2.0 s".
func Used(d, limit time.Duration) string {
	decimals := ""
	if limit >= time.Second {
		_, decimals, _ = strings.Cut(strconv.FormatFloat(limit.Seconds(), 'f', -1, 64), ".")
	}
	return length(d, min(max(len(decimals), 1), 3))
}

// length writes so many decimals of a second, or with 0 those that it needs, and with some no unit less than seconds.
func length(d time.Duration, decimals int) string {
	switch {
	case d < time.Millisecond:
		return strings.Replace(strings.Replace(d.String(), "ns", " ns", 1), "µs", " µs", 1)
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute && decimals == 0:
		return strconv.FormatFloat(d.Truncate(time.Millisecond).Seconds(), 'f', -1, 64) + " s"
	case d < time.Minute:
		unit := time.Second
		for range decimals {
			unit /= 10
		}
		return strconv.FormatFloat(d.Truncate(unit).Seconds(), 'f', decimals, 64) + " s"
	}
	text := fmt.Sprintf("%d min %d s", d/time.Minute%60, d/time.Second%60)
	if hours := d / time.Hour; hours > 0 {
		text = fmt.Sprintf("%d h %s", hours, text)
	}
	if decimals == 0 {
		text = strings.TrimSuffix(strings.TrimSuffix(text, " 0 s"), " 0 min")
	}
	return text
}

const holdExceeded = "hold_exceeded"

const hostLost = "its process was found dead or cut off, and "

// NeverOutput is the reason of a command that has printed nothing at all; in events it is no reason of its own.
const NeverOutput = "never_output"

// others are the reasons that no limit gives its name to: how the sentence of a length of time begins, and what it is
// without numbers, as docs/events-codes.md has it.
var others = [...]struct{ reason, lead, meaning string }{
	{"loop_detected", "", "it did the same again and got the same"},
	{"no_output", "no output for", "its command wrote nothing for too long"},
	{NeverOutput, "no output at all for", "its command wrote nothing at all"},
	{"no_progress", "", "what its command works on did not change for too many probes"},
	{"terminal", "", "its command came to a state that it cannot get out of"},
	{"idle_timeout", "nothing new for", "the session had nothing new in the database for too long, whoever ran it"},
	{"host_lost", hostLost + "nothing new for", hostLost + "nothing new came for too long"},
}

// Meaning is why a run is stopped for a reason, without numbers; empty for a reason that is not known.
func Meaning(reason string) string {
	_, meaning := of(reason)
	return meaning
}

func of(reason string) (lead, meaning string) {
	if limit := record.LimitOfCode(record.CodePrefix + reason); limit != nil {
		return limit.Lead, limit.Meaning
	}
	for _, o := range others {
		if o.reason == reason {
			return o.lead, o.meaning
		}
	}
	return "", ""
}

// Stop is why a run was stopped for a reason, with the numbers that decided: "no output for 2.0 s of 2 s". A length
// that is not known is 0. It is empty for a reason that is not known if neither is.
func Stop(reason string, used, limit time.Duration, hold string) string {
	text, meaning := of(reason)
	if used <= 0 && limit <= 0 {
		return meaning
	}
	if text == "" {
		text = strings.TrimPrefix(meaning+", after", ", ")
	}
	if reason == holdExceeded && hold != "" {
		text, hold = fmt.Sprintf("hold %q was open for", hold), ""
	}
	switch {
	case limit <= 0:
		text += " " + Used(used, 0)
	case used <= 0:
		text += " more than " + Length(limit)
	default:
		text += fmt.Sprintf(" %s of %s", Used(used, limit), Length(limit))
	}
	if hold != "" {
		text += fmt.Sprintf(" in hold %q", hold)
	}
	return text
}
