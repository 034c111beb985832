package page

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog/session"
)

// An item is a session of a list, and how many runs of the list are around it.
type item struct {
	*session.Session
	depth int
	left  float64 // of its limit nearest its end, of a hundred
}

// A sorting is an order that a reader can choose.
type sorting struct {
	Name, Label string
	compare     func(a, b item) int
}

// sorts are all of them; nil keeps the order of the list.
var sorts = []sorting{
	{"", "live first, newest first", nil},
	{"oldest", "oldest first", func(a, b item) int { return began(a.Session).Compare(began(b.Session)) }},
	{"left", "nearest a limit first", func(a, b item) int { return cmp.Compare(a.left, b.left) }},
	{"id", "by ID", func(a, b item) int { return strings.Compare(a.RunID, b.RunID) }},
	{"host", "by host", func(a, b item) int { return strings.Compare(a.Host, b.Host) }},
}

// arrange sorts sessions, which have the order of the list, and puts each under the run around it.
func arrange(all []item, by string, now time.Time) []item {
	if by == "left" {
		for i := range all {
			all[i].left = leftOf(all[i].Session, now)
		}
	}
	for _, s := range sorts {
		if s.Name == by && s.compare != nil {
			slices.SortStableFunc(all, s.compare)
		}
	}
	return nest(all)
}

// noLimitLeft is of a session that has no limit, or has ended: it comes after all others.
const noLimitLeft = 101

// leftOf is what is left of the limit that is nearest its end.
func leftOf(s *session.Session, now time.Time) float64 {
	var state session.State
	if s.Status != session.Active || json.Unmarshal(s.State, &state) != nil {
		return noLimitLeft
	}
	if b, _ := nearest(barsOf(*s, state, now)); b != nil {
		return b.Left
	}
	return noLimitLeft
}

// nest puts each session under the run around it, if that is in the list, in the order that they have. A live one is
// never put under a run that has ended: it would be at the end of the list.
func nest(all []item) []item {
	if !slices.ContainsFunc(all, func(i item) bool { return i.Parent != "" }) {
		return all
	}
	place := make(map[string]int, len(all))
	for i, s := range all {
		place[s.RunID] = i
	}
	inside := map[int][]int{}
	top := func(i int) bool {
		around, there := place[all[i].Parent]
		return !there || all[i].Status == session.Active && all[around].Status != session.Active
	}
	for i := range all {
		if !top(i) {
			around := place[all[i].Parent]
			inside[around] = append(inside[around], i)
		}
	}
	nested, done := make([]item, 0, len(all)), make([]bool, len(all))
	var add func(i, depth int)
	add = func(i, depth int) {
		if done[i] {
			return
		}
		done[i] = true
		s := all[i]
		s.depth = depth
		nested = append(nested, s)
		for _, below := range inside[i] {
			add(below, depth+1)
		}
	}
	for i := range all {
		if top(i) {
			add(i, 0)
		}
	}
	for i := range all {
		add(i, 0) // rows that say that they are inside each other
	}
	return nested
}
