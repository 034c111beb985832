package probe_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/verdict"
	"github.com/seed62658d38/watchdog/stall/internal/probe"
)

// TestTerminalAnyway checks that a wrong field does not hide a terminal state.
func TestTerminalAnyway(t *testing.T) {
	for _, c := range []struct {
		fields                string
		fingerprints, reasons []string
	}{
		{`"fingerprints": ["two words", "k8s/crd/missing:x", 7, ""]`, []string{"k8s/crd/missing:x"}, nil},
		{`"fingerprints": "x", "reasons": {}, "summary": 7, "digest": []`, nil, nil},
		{`"fingerprints": ["x"], "reasons": ["` + strings.Repeat("r", 201) + `", "why"]`, []string{"x"}, []string{"why"}},
	} {
		seen, err := probe.Parse(fmt.Appendf(nil, `{"class": "terminal", %s}`, c.fields))
		require.NoError(t, err, c.fields)
		require.Equal(t, verdict.ClassTerminal, seen.Class)
		require.Equal(t, c.fingerprints, seen.Fingerprints)
		require.Equal(t, c.reasons, seen.Reasons)
		for _, class := range []string{"stalled", "progressing"} {
			_, err = probe.Parse(fmt.Appendf(nil, `{"class": %q, %s}`, class, c.fields))
			require.ErrorIs(t, err, probe.ErrField)
		}
	}
	many, err := probe.Parse([]byte(`{"class": "terminal", "fingerprints": ["a"` + strings.Repeat(`,"a"`, 32) + `]}`))
	require.NoError(t, err)
	require.Len(t, many.Fingerprints, probe.MaxFingerprints)
}
