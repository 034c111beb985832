package main_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// TestCap protects that sub-agents that ask at the same time share a cap, and that none of them oversteps it.
func TestCap(t *testing.T) {
	p := play(t, "cap", false)
	r := p.results[0]
	assert.Equal(t, string(watchdog.CostExceeded), r.Ended)
	assert.Equal(t, []watchdog.DirectiveKind{watchdog.DirectiveWrapUp, watchdog.DirectiveCancel}, r.Directives)
	cost := r.Usage[0]
	assert.EqualValues(t, 1_000_000, cost.Allowed)
	assert.EqualValues(t, 850_000, cost.Used)
	assert.EqualValues(t, 140_000, cost.Admitted, "the calls that were cut off stay charged")

	var refused []string
	charged := 0
	for line := range strings.Lines(p.text) {
		if _, round, ok := strings.Cut(line, "s  round "); ok && !strings.Contains(round, " 0 of 3 calls refused") {
			refused = append(refused, round)
		}
		if strings.Contains(line, " of 1.00 EUR charged") {
			charged++
			assert.Contains(t, line, " 0.", "none oversteps the cap")
		}
	}
	assert.Equal(t, 7+1, charged)
	require.Len(t, refused, 2, p.text)
	assert.Contains(t, refused[0], "5: 1 of 3 calls refused, 0.74 of", "the reserve is kept")
	assert.Contains(t, refused[1], "7: 1 of 3 calls refused, 0.99 of")
}
