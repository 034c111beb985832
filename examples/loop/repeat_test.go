package main_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCycle protects that a circle of three tools is seen although no two answers of a tool are equal.
func TestCycle(t *testing.T) {
	p := play(t, "cycle", false)
	before, after, asked := strings.Cut(p.text, "unstuck: ")
	require.True(t, asked, p.text)
	_, before, _ = strings.Cut(before, "read_file answers")
	assert.Equal(t, 3*3, strings.Count(before, "s  tool: "), "asked in the third round")
	assert.Equal(t, 2*3, strings.Count(after, "s  tool: "), "ended two rounds after")

	answers := map[string]int{}
	for line := range strings.Lines(p.text) {
		if tool, answer, ok := strings.Cut(line, " answers {"); ok && !strings.Contains(tool, "read_file") {
			answers[answer]++
		}
	}
	assert.Len(t, answers, 5*3, "each answer differs from the others: %v", answers)
}

// TestBatch protects that a batch of edits which answer the same is left alone.
func TestBatch(t *testing.T) {
	p := play(t, "batch", false)
	assert.Contains(t, p.text, "tool: edit_file, 200 times: left alone 200 times")
	r := p.results[0]
	assert.Equal(t, "completed", r.Ended)
	assert.Empty(t, r.Directives)
	assert.Equal(t, []string{"complete"}, r.Kinds())
	for _, u := range r.Usage {
		assert.Zero(t, u.Used, "%v", u)
	}
}
