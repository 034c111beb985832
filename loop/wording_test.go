package loop_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/loop"
)

// TestWording tells searches that are put in other words from those for one thing after the other. Both find nothing.
func TestWording(t *testing.T) {
	for name, c := range map[string]struct {
		inputs   []string
		rephrase bool
	}{
		"one word each": {[]string{"chalk", "debug", "express", "glob", "helmet", "jose", "koa", "lodash", "mocha", "nock"}, false},
		"two words each": {[]string{
			"Ada Berg", "Nils Aas", "Ola Moe", "Kari Lund", "Per Vik", "Eva Dahl", "Jon Bakke", "Siri Haug", "Tor Holm", "Liv Strand",
		}, false},
		"one name within the same words": {[]string{
			"CVE of chalk in 2026", "CVE of debug in 2026", "CVE of glob in 2026", "CVE of got in 2026", "CVE of helmet in 2026",
			"CVE of ini in 2026", "CVE of joi in 2026", "CVE of jose in 2026", "CVE of kleur in 2026",
		}, false},
		"numbers of many digits": {[]string{
			"order 10032", "order 10441", "order 10771", "order 10800", "order 10912", "order 11003", "order 11118", "order 11230", "order 11400",
		}, false},
		"spellings of one name": {[]string{
			"fooBar", "foo_bar", "FooBar", "foo-bar", "foobar", "FOO_BAR", "Foo_Bar", "_fooBar",
		}, true},
		"other words around a word": {[]string{
			"lag alert", "alert for slot lag", "slot lag threshold", "replication lag limit", "max lag slots", "lag", "postgres lag warning",
			"alert when lag grows",
		}, true},
		"words in another order":   {[]string{"one two three", "two three one", "three one two", "one three two", "two one three", "three two one", "one two three", "two one three"}, true},
		"words that are too short": {[]string{"a", "b", "c", "d", "e", "f", "g", "h"}, true},
		"words added and left out": {[]string{"retry policy", "retry", "retry policy http", "retry policy", "policy", "policy retry", "retry", "http retry"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDetector(t, loop.Config{}).Without(loop.ThePair)
			turn := 0
			for n, input := range c.inputs {
				v := d.Step(loop.Step{Tool: "search", Class: loop.Look, Input: fmt.Appendf(nil, `{"q":%q,"in":"all"}`, input), Outcome: []byte("[]")})
				if v.Advice == loop.Ask && turn == 0 {
					require.Equal(t, loop.Futile, v.Rule)
					turn = n + 1
				}
				d = restart(t, d, loop.Config{}).Without(loop.ThePair)
			}
			require.Equal(t, map[bool]int{true: 8}[c.rephrase], turn)
		})
	}
	t.Run("a hundred names that are not on a list are never asked", func(t *testing.T) {
		d := newDetector(t, loop.Config{})
		for n := range 100 {
			name := strings.Repeat(string(rune('a'+n%26)), 3+n/26)
			v := d.Step(loop.Step{Tool: "lookup", Class: loop.Look, Input: fmt.Appendf(nil, `{"name":%q}`, name), Outcome: []byte("null")})
			require.Empty(t, v.Rule, n)
		}
	})
}

// TestSameAnswer protects runs in which other inputs get one and the same answer.
func TestSameAnswer(t *testing.T) {
	text := strings.Repeat("12 def index(): return render()\n", 9)
	words := []string{"alpha beta", "beta alpha", "alpha gamma", "gamma beta", "alpha delta", "delta beta", "alpha", "gamma alpha"}
	for _, c := range []struct {
		name, tool, field, outcome string
		futile                     bool
	}{
		{"searches in other words with the same hits", "search", "q", text, true},
		{"searches in other words with the same number", "search", "q", "3", false},
		{"reads at other places with the same text", "read_file", "offset", text, true},
		{"reads at other places with a short text", "read_file", "offset", "}", false},
		{"reads of other files with the same text", "read_file", "path", text, false},
		{"a call that fails in the same way", "task", "prompt", "Error: the token lacks the scope repo", true},
		{"a call that works in the same way", "task", "prompt", "done", false},
		{"a tool that there is not", "list_it", "", "Invalid tool: list_it.", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDetector(t, loop.Config{})
			for n, word := range words {
				input := fmt.Appendf(nil, `{%q:%q}`, c.field, word)
				if c.field == "offset" || c.field == "" {
					input = fmt.Appendf(nil, `{"path":"a","n":"alpha","offset":%d}`, 100*n)
				}
				v := d.Step(loop.Step{Tool: c.tool, Input: input, Outcome: []byte(c.outcome)})
				require.Equal(t, c.futile && n == 7, v.Rule == loop.Futile, n)
			}
		})
	}
	t.Run("another text in between is progress", func(t *testing.T) {
		d := newDetector(t, loop.Config{})
		for n := range 14 {
			v := d.Step(look(fmt.Sprintf(`{"path":"a","offset":%d}`, n), text+strings.Repeat("x", n/7)))
			require.Empty(t, v.Rule)
		}
	})
}
