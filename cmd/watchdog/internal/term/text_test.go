package term_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/term"
)

func TestPlain(t *testing.T) {
	for raw, want := range map[string]string{
		"s-1": "s-1", "\x1b[31mred": `\x1b[31mred`, "a\u202eb": `a\u202eb`, "a\tb\n": `a\x09b\x0a`, "\u0085": `\u0085`,
		"漢字": "漢字", "\xff": `\xff`, "\U000e0041": `\U000e0041`, "é": "é", "\ufffd": "\ufffd",
	} {
		assert.Equal(t, want, term.Plain(raw))
	}
	assert.Equal(t, 4, term.Columns("漢字"))
	assert.Equal(t, 2, term.Columns("🐕"))
	assert.Equal(t, 1, term.Columns("e\u0301"))
}

func TestTable(t *testing.T) {
	t.Parallel()
	rows := term.Table{{"RUN", "NOTE", "HOST"}, {"短い", "", "a"}, {"e\u0301te\u0301", "", "long \x1b[31m host"}}
	for name, test := range map[string]struct {
		width int
		want  string
	}{
		"columns are aligned, and empty ones left out": {0, "RUN   HOST\n短い  a\ne\u0301te\u0301   long \\x1b[31m host\n"},
		"a line is cut to the width of a terminal":     {10, "RUN   HOST\n短い  a\ne\u0301te\u0301   lon…\n"},
		"a wide character is not cut in two":           {4, "RUN…\n短…\ne\u0301te\u0301…\n"},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, test.want, rows.Text(test.width)) })
	}
}
