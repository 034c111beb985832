//go:build linux

package histories_test

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed62658d38/watchdog/internal/racing"
)

// TestLinearizable has processes call each database while some of them are killed, stopped and cut off, and has the judge
// look at the history of each run and of each scope. WATCHDOG_LONG=1 makes it ten times longer.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	for name, newDatabase := range map[string]func(*testing.T) database{"SQLite": newFile, "PostgreSQL": newServer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			slots := int64(12) // in fewer, some of what is wanted below happens not at all
			if racing.Long {
				slots = 120
			}
			c := start(t, newDatabase(t), slots*callsOfSlot, everySlot)
			c.disturb()
			journals := c.journals()
			judge(t, sessions, sessions.histories(t, journals), outcomeOfSession, wantedOfSession...)
			judge(t, spends, spends.histories(t, journals), outcomeOfSpend, "granted", "refused", "returned", "no such slice")
		})
	}
}

// wantedOfSession are ends of what calls about runs come to in every test.
var wantedOfSession = []string{
	"attach", "attach expired", "read", "freshen", "freshen gone", "freshen expired", "end", "warn done", "warn changed", "claim done",
	"cancel done", "cancel all done", "cancel all changed", " taken", " end_stored", "complete finished",
	"complete cancelled", "renew lease", "expire lease", "expire lease expired", "ask lease", "ask lease told",
}

// everySlot has each slot its own objects.
const everySlot = math.MaxInt64

// judge has each history about such objects judged. Outcomes with each of these ends have to be there: what never
// happens proves nothing.
func judge(t *testing.T, o object, all []history, outcome func(in, out any) string, wanted ...string) {
	t.Helper()
	counts, calls, open := map[string]int{}, 0, 0
	for _, h := range all {
		for _, c := range h.calls {
			if calls++; c.Return == never {
				open++
				continue
			}
			counts[outcome(c.Input, c.Output)]++
		}
	}
	t.Logf("%d histories of %ss with %d calls, of which %d have no answer: %v", len(all), o.prefix, calls, open, counts)
	for _, end := range wanted {
		assert.Truef(t, slices.ContainsFunc(slices.Collect(maps.Keys(counts)), func(outcome string) bool {
			return strings.HasSuffix(outcome, end)
		}), "no call came to %q", end)
	}
	illegal := o.check(t, all)
	for _, h := range illegal[:min(len(illegal), 3)] {
		t.Errorf("this history is not linearizable; times are in microseconds: %s", o.shortest(h))
	}
}

// outcomeOfSession says what a call about a run came to.
func outcomeOfSession(in, out any) string {
	c, a := in.(sessionCall), out.(*sessionAnswer)
	switch {
	case a.Undone:
		return c.Do + " undone"
	case a.Expired:
		return c.Do + " expired"
	case a.Gone:
		return c.Do + " gone"
	case a.Ended != 0:
		return c.Do + " told"
	case a.Outcome != "":
		return c.Do + " " + string(a.Outcome)
	case a.End.Status != "":
		return c.Do + " " + string(a.End.Status)
	}
	return c.Do
}

// outcomeOfSpend says what a call about a scope came to.
func outcomeOfSpend(in, out any) string {
	c, a := in.(spendCall), out.(*spendAnswer)
	switch {
	case a.Invalid:
		return "no such slice"
	case c.Least == 0:
		return "returned"
	case a.Fits:
		return "granted"
	}
	return "refused"
}
