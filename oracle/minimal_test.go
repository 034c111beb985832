package oracle_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed62658d38/watchdog/oracle/drive"
	frozen "github.com/seed62658d38/watchdog/oracle/frozendrive"
	"github.com/seed62658d38/watchdog/oracle/history"
)

// differ reports whether the two differ in a history, and each time.
func (c *comparison) differ(t *testing.T, h *history.Script) (a, b history.Transcript, ok bool) {
	for range 3 {
		a, b = live(t, h, drive.Live), live(t, h, frozen.Live)
		if x, _ := history.Differ(a, b, c.out); x < 0 {
			return a, b, false
		}
	}
	return a, b, true
}

// minimal leaves out steps as long as the two differ, and shows what is left.
func (c *comparison) minimal(t *testing.T, h *history.Script, a, b history.Transcript) string {
	least := *h
	for n := max(len(h.Steps)/2, 1); n > 0; n /= 2 {
		for first := 0; first < len(least.Steps); {
			fewer := least.Without(first, min(first+n, len(least.Steps)))
			x, y, ok := c.differ(t, &fewer)
			if !ok {
				first += n
				continue
			}
			least, a, b = fewer, x, y
		}
	}
	return c.text(&least, a, b)
}

// text shows the two side by side up to where they differ.
func (c *comparison) text(h *history.Script, a, b history.Transcript) string {
	var s strings.Builder
	x, y := history.Differ(a, b, c.out)
	for _, line := range a[:x] {
		if !c.out.Has(line.Topic) {
			fmt.Fprintf(&s, "  %2d %-6v %s\n", line.Step, line.Topic, line.Text)
		}
	}
	for i := range 6 {
		showLine(&s, "live  ", a, x+i)
	}
	for i := range 6 {
		showLine(&s, "frozen", b, y+i)
	}
	return fmt.Sprintf("%d steps: %v\n%s", len(h.Steps), h.Steps, s.String())
}

func showLine(s *strings.Builder, who string, all history.Transcript, i int) {
	if i < len(all) {
		fmt.Fprintf(s, "%s %2d %-6v %s\n", who, all[i].Step, all[i].Topic, all[i].Text)
	}
}

// showOne shows a history, and how the two differ in it.
func (c *comparison) showOne(t *testing.T, seed uint64) {
	h := c.history(seed)
	a, b := live(t, h, drive.Live), live(t, h, frozen.Live)
	x, _ := history.Differ(a, b, c.out)
	if x < 0 {
		for _, line := range a {
			t.Logf("%2d %-6v %s", line.Step, line.Topic, line.Text)
		}
		t.Logf("both show the same")
		return
	}
	switch c.judge(t, h, a, b) {
	case differs:
		t.Errorf("seed %d:\n%s", seed, c.minimal(t, h, a, b))
	case chance:
		t.Errorf("the frozen package differs from itself, here or before:\n%s", c.text(h, a, b))
	case flickers:
		t.Errorf("the live package differs from itself:\n%s", c.text(h, a, b))
	}
}
