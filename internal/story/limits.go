package story

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/wording"
	"github.com/seed62658d38/watchdog/session"
)

// A Limit is one that the run had: a length of time or a count.
type Limit struct {
	// Limit is its name, as events have it.
	Limit    string `json:"limit"`
	Hold     string `json:"hold,omitempty"`
	Tool     string `json:"tool,omitempty"`
	Currency string `json:"currency,omitempty"` // its counts are micro-units then
	// Length and Count are with what was given more.
	Length        Span  `json:"length_seconds,omitempty"`
	Extended      Span  `json:"extended_seconds,omitempty"`
	Count         int64 `json:"count,omitempty"`
	ExtendedCount int64 `json:"extended_count,omitempty"`
}

// String is the limit with its value.
func (l Limit) String() string {
	text := limitName(l.Limit)
	switch {
	case l.Limit == "hold":
		text = fmt.Sprintf("hold %q", l.Hold)
	case l.Hold != "":
		text += fmt.Sprintf(" in hold %q", l.Hold)
	}
	if l.Tool != "" {
		text += fmt.Sprintf(" of %q", l.Tool)
	}
	if l.Length > 0 {
		text += " " + l.Length.String()
		if l.Extended > 0 {
			text += fmt.Sprintf(" (with %v more)", l.Extended)
		}
		return text
	}
	text += " " + wording.Amount(l.Count, l.Currency)
	if l.ExtendedCount > 0 {
		text += fmt.Sprintf(" (with %s more)", wording.Amount(l.ExtendedCount, l.Currency))
	}
	return text
}

func limitName(limit string) string { return strings.ReplaceAll(limit, "_", " ") }

// usageOf is how far a counted limit is used, nil for none.
func usageOf(s *record.Spend) *watchdog.Usage {
	if s == nil {
		return nil
	}
	return &watchdog.Usage{
		Limit: s.Limit, Tool: s.Tool, Currency: s.Currency, Used: int64(s.Used),
		Admitted: int64(s.Admitted), Allowed: int64(s.Allowed), Needed: int64(s.Needed), Pattern: s.Pattern,
	}
}

// span reads a length of a payload. One below zero is none.
func span(s record.Seconds) Span { return Span(max(record.Duration(max(s, 0)), 0)) }

// allow notes a limit of time. The longest that was told counts: a window is only ever given more.
func (t *teller) allow(limit, hold string, length Span) {
	if limit == "" || length <= 0 || time.Duration(length) >= watchdog.NoLimit {
		return
	}
	name := [2]string{limit, hold}
	if i, known := t.lengths[name]; known {
		t.Allowed[i].Length = max(t.Allowed[i].Length, length)
		return
	}
	t.lengths[name] = len(t.Allowed)
	t.Allowed = append(t.Allowed, Limit{Limit: limit, Hold: hold, Length: length})
}

// spend notes a counted limit, and how far it is used.
func (s *Story) spend(u *watchdog.Usage) {
	if u == nil || u.Pattern != "" { // a loop that an earlier version found
		return
	}
	l := s.counted(u.Limit, u.Tool)
	l.Currency, l.Count = cmp.Or(u.Currency, l.Currency), max(l.Count, u.Allowed)
	i := s.spentOf(u.Limit, u.Tool)
	if i < 0 {
		i = len(s.Spent)
		s.Spent = append(s.Spent, session.Spent{Limit: u.Limit, Tool: u.Tool, Currency: u.Currency})
	}
	spent := &s.Spent[i]
	spent.Used, spent.Admitted, spent.Allowed = max(spent.Used, u.Used), u.Admitted, max(spent.Allowed, u.Allowed)
}

// total notes what was used when the run ended.
func (s *Story) total(all []record.Spend) {
	for i := range all {
		s.spend(usageOf(&all[i]))
	}
}

// spentOf is the index of what is known of a counted limit's use, -1 for nothing.
func (s *Story) spentOf(limit, tool string) int {
	return slices.IndexFunc(s.Spent, func(x session.Spent) bool {
		return x.Limit == limit && x.Tool == tool
	})
}

// reserveOf is the part of a limit that is kept for wrapping up, as people read it; empty for none.
func (s *Story) reserveOf(l Limit) string {
	if l.Length > 0 {
		if l.Limit == "wall_clock" && s.Reserve > 0 {
			return s.Reserve.String()
		}
		return ""
	}
	if i := s.spentOf(l.Limit, l.Tool); i >= 0 && s.Spent[i].Reserve > 0 {
		return wording.Amount(s.Spent[i].Reserve, l.Currency)
	}
	return ""
}

func (s *Story) counted(limit, tool string) *Limit {
	i := slices.IndexFunc(s.Allowed, func(l Limit) bool {
		return l.Limit == limit && l.Tool == tool && l.Length == 0
	})
	if i < 0 {
		i = len(s.Allowed)
		s.Allowed = append(s.Allowed, Limit{Limit: limit, Tool: tool})
	}
	return &s.Allowed[i]
}

func (s *Story) extend(x Extension) {
	s.Extensions = append(s.Extensions, x)
	for _, c := range x.Counts {
		l := s.counted(c.Limit, c.Tool)
		l.Currency, l.ExtendedCount = cmp.Or(c.Currency, l.Currency), l.ExtendedCount+c.Count
		l.Count = max(l.Count, c.Allowed)
	}
}

// AllowedText says which limits are known.
func (s Story) AllowedText() string {
	limits := make([]string, len(s.Allowed))
	for i, l := range s.Allowed {
		limits[i] = l.String()
		if reserve := s.reserveOf(l); reserve != "" {
			limits[i] += fmt.Sprintf(" (%s of it reserve)", reserve)
		}
	}
	return strings.Join(limits, ", ")
}

// SpentText says how far a counted limit is used.
func SpentText(s session.Spent) string { return usedOf(s).String() }

func usedOf(s session.Spent) watchdog.Usage {
	return watchdog.Usage{
		Limit: s.Limit, Tool: s.Tool, Currency: s.Currency,
		Used: s.Used, Admitted: s.Admitted, Allowed: s.Allowed,
	}
}
