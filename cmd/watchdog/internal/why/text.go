package why

import (
	"fmt"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/term"
	"github.com/seed62658d38/watchdog/internal/story"
)

// A story is told in at most maxLines lines of maxColumns columns. What a section says comes after its label.
const (
	maxLines, maxColumns = 24, 80
	labelColumns         = 9
	// maxWrapped is how many lines one entry may take.
	maxWrapped = 3
	timeLayout = "2006-01-02 15:04:05"
)

// A section is what a story says of one thing. Entries of a list may be left out, the first ones first.
type section struct {
	label   string
	entries []string
	list    bool
	whole   bool // it is neither wrapped nor cut
}

// Text tells a story for people.
func Text(s story.Story) string {
	sections := sectionsOf(s)
	if left := fit(sections, maxLines-1); left > 0 {
		what := fmt.Sprintf("%d lines; --json has all", left)
		sections = append(sections, section{label: "left out", entries: []string{what}})
	}
	var b strings.Builder
	for _, x := range sections {
		for i, line := range x.lines() {
			label := ""
			if i == 0 {
				label = x.label
			}
			fmt.Fprintf(&b, "%-*s%s\n", labelColumns, label, line)
		}
	}
	return b.String()
}

// fit leaves out the first entries of the longest lists until all is in so many lines, or one more if nothing is left
// out, and returns how many lines that were.
func fit(sections []section, most int) (left int) {
	total := 0
	for _, x := range sections {
		total += len(x.lines())
	}
	for total > most && (left > 0 || total > most+1) {
		longest := -1
		for i, x := range sections {
			if x.list && len(x.entries) > 1 && (longest < 0 || len(x.entries) > len(sections[longest].entries)) {
				longest = i
			}
		}
		if longest < 0 {
			break
		}
		x := &sections[longest]
		gone := len(section{entries: x.entries[:1]}.lines())
		x.entries = x.entries[1:]
		left, total = left+gone, total-gone
	}
	return left
}

func (x section) lines() (lines []string) {
	for _, entry := range x.entries {
		if x.whole {
			lines = append(lines, entry)
			continue
		}
		wrapped := term.Wrap(term.Plain(entry), maxColumns-labelColumns)
		if len(wrapped) > maxWrapped {
			wrapped = append(wrapped[:maxWrapped-1], term.Cut(wrapped[maxWrapped-1]+" …", maxColumns-labelColumns))
		}
		lines = append(lines, wrapped...)
	}
	return lines
}

// sectionsOf are what there is to say, as a person would tell it.
func sectionsOf(s story.Story) (all []section) {
	add := func(label string, list bool, entries ...string) {
		said := make([]string, 0, len(entries))
		for _, entry := range entries {
			if entry != "" {
				said = append(said, entry)
			}
		}
		if len(said) > 0 {
			all = append(all, section{label: label, entries: said, list: list})
		}
	}
	t := clockOf(s)
	add("run", false, whoText(s))
	add("state", false, stateText(s))
	if s.End != nil {
		add("why", false, s.End.Meaning, s.End.String())
	}
	add("doing", false, lastNoted(s.Noted))
	add("before", true, t.before(s)...)
	add("started", false, startedText(s))
	add("allowed", false, s.AllowedText())
	add("used", false, usedText(s))
	add("events", true, t.each(s)...)
	add("command", false, commandTexts(s)...)
	add("layers", true, layerTexts(s)...)
	add("others", true, otherTexts(s, t)...)
	add("next", false, s.Next.Advice)
	if line := s.Next.Line(); line != "" {
		all = append(all, section{entries: []string{line}, whole: true})
	}
	return all
}

func whoText(s story.Story) string {
	text := s.RunID
	if s.Host != "" {
		text += " on " + s.Host
	}
	if s.Attempt > 1 {
		text += fmt.Sprintf(", attempt %d", s.Attempt)
	}
	if s.Parent != "" {
		text += ", layer of " + s.Parent
	}
	return text
}

func stateText(s story.Story) string {
	switch {
	case s.End == nil || s.End.At.IsZero():
		text := string(s.State)
		if s.Escalation != nil {
			text += ": " + story.EscalationText(s.Escalation)
		}
		if s.Silence > 0 {
			text += fmt.Sprintf(", silent for %v", s.Silence)
		}
		if s.OpenHolds > 0 {
			text += fmt.Sprintf(", holds open: %d", s.OpenHolds)
		}
		return text
	case s.LeftAlive() != "":
		return endedText(s) + "; " + s.LeftAlive()
	case !s.End.CorrectedAt.IsZero():
		return endedText(s) + "; a stop was recorded, and corrected"
	}
	return endedText(s)
}

func endedText(s story.Story) string {
	text := fmt.Sprintf("%s %s UTC", s.State, s.End.At.Format(timeLayout))
	if s.End.AtLastSign {
		text = fmt.Sprintf("%s; its last sign of life was at %s UTC", s.State, s.End.At.Format(timeLayout))
	}
	if ago := s.ToldAt.Sub(s.End.At); ago > 0 {
		text += fmt.Sprintf(", %v ago", roughly(ago))
	}
	return text
}

// roughly is a length of which nobody needs more than two units.
func roughly(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= 2*day:
		return fmt.Sprintf("%d days", d/day)
	case d >= time.Hour:
		return story.Span(d.Truncate(time.Minute)).String()
	}
	return story.Span(d.Truncate(time.Second)).String()
}

func lastNoted(note string) string {
	if note == "" {
		return ""
	}
	return fmt.Sprintf("last noted %q", note)
}

func startedText(s story.Story) string {
	if s.StartedAt.IsZero() {
		return ""
	}
	text := s.StartedAt.Format(timeLayout) + " UTC"
	if n := len(s.Before); n > 0 {
		text += fmt.Sprintf(", window %d", n+1)
	}
	return text
}

// before is a line for each window before, in which the run was tried.
func (c clock) before(s story.Story) (entries []string) {
	for _, w := range s.Before {
		entries = append(entries, c.at(w.StartedAt, w.String()))
	}
	return entries
}

func usedText(s story.Story) string {
	if s.StartedAt.IsZero() || s.End != nil && s.End.RowOnly && s.Elapsed == 0 {
		return ""
	}
	text := fmt.Sprintf("%v", s.Elapsed)
	if s.Paused > 0 {
		text += fmt.Sprintf(", besides paused for %v", s.Paused)
	}
	used := []string{text}
	for _, spent := range s.Spent {
		used = append(used, story.SpentText(spent))
	}
	return strings.Join(used, ", ")
}

// A clock writes times beside each other.
type clock struct{ day string }

func clockOf(s story.Story) clock { return clock{s.StartedAt.Format(time.DateOnly)} }

// at is a time with what was then. The date is only there if it is not that of the start.
func (c clock) at(at time.Time, what string) string {
	layout := time.TimeOnly
	if at.Format(time.DateOnly) != c.day {
		layout = timeLayout
	}
	return at.Format(layout) + " " + what
}

// each is what happened to the run, in the order of time.
func (c clock) each(s story.Story) (entries []string) {
	for _, m := range s.Moments() {
		entries = append(entries, c.at(m.At, m.What))
	}
	return entries
}

func commandTexts(s story.Story) []string {
	c := s.Command
	if c == nil {
		return nil
	}
	texts := []string{c.String()}
	if s.End == nil || s.End.Meaning != c.Reason {
		texts = []string{c.Reason, c.String()}
	}
	if c.ExitCode != nil {
		texts = append(texts, fmt.Sprintf("it exited with status %d", *c.ExitCode))
	}
	if c.Log != "" {
		texts = append(texts, "its log is "+c.Log)
	}
	return texts
}

func layerTexts(s story.Story) (entries []string) {
	if s.MoreLayers > 0 {
		entries = append(entries, fmt.Sprintf("%d more are not read", s.MoreLayers))
	}
	for i := range s.Layers { // the latest is the last that is left out
		entries = append(entries, s.Layers[len(s.Layers)-1-i].String())
	}
	return entries
}

func otherTexts(s story.Story, t clock) (entries []string) {
	for _, o := range s.Others {
		entries = append(entries, t.at(o.At, fmt.Sprintf("%s: %s", o.Type, o.Problem)))
	}
	return entries
}

// StepsText is one line for each command of a folder.
func StepsText(all []story.Story) string {
	var b strings.Builder
	const most = maxLines - 2
	for _, s := range all[:min(len(all), most)] {
		line := fmt.Sprintf("%s %s", s.Command.Step, s.State)
		if s.End != nil {
			line = fmt.Sprintf("%s UTC %s: %s", s.End.At.Format(timeLayout), line, s.End.Meaning)
		}
		fmt.Fprintln(&b, term.Cut(term.Plain(line), maxColumns))
	}
	if more := len(all) - most; more > 0 {
		fmt.Fprintf(&b, "%d more; --json has all\n", more)
	}
	fmt.Fprintln(&b, "watchdog why DIR/STEP tells more of one")
	return b.String()
}
