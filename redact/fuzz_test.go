package redact_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzBytes checks for any bytes that no pattern fails, the size of the result is bounded, and a named secret is gone.
func FuzzBytes(f *testing.F) {
	for _, c := range canaries(1) {
		f.Add([]byte(c.line))
		f.Add([]byte("\n\n" + c.line + "\n"))
		f.Add([]byte(c.line + c.line[len(c.line)/2:]))
	}
	f.Add([]byte("%61%70%69_key=%41%4b\xff\n6768705f"))
	_, lines := planted(1, 1)
	for _, line := range lines {
		f.Add([]byte(line))
	}
	const secret = "canary-in-the-mine"
	r, err := newRedactor(f).Also(secret)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, p []byte) {
		p = slices.Concat(p, []byte(secret), p)
		got := r.Bytes(p)
		require.NotContains(t, string(got), secret)
		require.NotEqual(t, "[REDACTED:all]", string(got), "a pattern failed")
		require.LessOrEqual(t, len(got), 16*len(p))
		require.False(t, len(got) > 0 && bytes.Equal(got, p))
	})
}

// FuzzPlanted checks that a planted secret is removed whatever lines are around its own.
func FuzzPlanted(f *testing.F) {
	f.Add(uint64(1), []byte(`{"pass`+`word":"`), []byte(`"}`))
	f.Add(uint64(2), []byte("mysql -p'"), []byte("'"))
	f.Add(uint64(3), []byte("Coo"+"kie: a='b\n-----BEGIN PRI"+"VATE KEY-----"), []byte("\xff@host"))
	redactor := newRedactor(f)
	f.Fuzz(func(t *testing.T, seed uint64, before, after []byte) {
		secrets, lines := planted(seed, 1)
		i := int(seed % uint64(len(lines)))
		got := string(redactor.Bytes(slices.Concat(before, []byte("\n"+lines[i]+"\n"), after)))
		require.NotContains(t, strings.ReplaceAll(got, string(before), ""), secrets[i])
	})
}
