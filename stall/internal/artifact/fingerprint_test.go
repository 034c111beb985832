package artifact_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/stall/internal/artifact"
)

func TestFingerprint(t *testing.T) {
	tooLong := artifact.Fingerprint("", strings.Repeat("x", 201))
	for want, got := range map[string]string{
		"stall/no_output":                   artifact.NoOutputFingerprint,
		"ci/stall/no_output:never":          artifact.Fingerprint("ci", artifact.NeverOutputFingerprint),
		"stall/no_progress:001122334455":    artifact.NoProgressFingerprint(digest),
		"stall/terminal:pattern-1":          artifact.PatternFingerprint(1),
		"stall/probe_blind:timeout":         artifact.BlindFingerprint("timeout"),
		"k8s/crd/missing:widgets.example":   artifact.Fingerprint("k8s", "crd/missing:widgets.example"),
		"A-Z_a.z:0/9@x=y+z":                 artifact.Fingerprint("", "A-Z_a.z:0/9@x=y+z"),
		"two_words-a03f1d611645":            artifact.Fingerprint("", "two words"),
		"_-e3b0c44298fc":                    "_" + artifact.Fingerprint("", ""),
		"gr__e-d353a2671b67":                artifact.Fingerprint("", "größe"),
		"ci/stall/no_output-not":            artifact.Fingerprint("ci", "stall/no_output-not"),
		strings.Repeat("x", 200):            artifact.Fingerprint("", strings.Repeat("x", 200)),
		strings.Repeat("x", 187) + "-other": strings.TrimRight(tooLong, "0123456789abcdef") + "other",
	} {
		require.Equal(t, want, got)
	}
}

// TestFingerprintUnique checks that every text has a valid fingerprint of its own.
func TestFingerprintUnique(t *testing.T) {
	long := strings.Repeat("x", 300)
	texts := []string{
		"", " ", "\n", "a b", "a\tb", "a_b", "größe", "gr\xff", long, long + "y", long + "z", "\x00", "界", "a\"b", "<a>",
	}
	seen := map[string]string{}
	for _, prefix := range []string{"", "ci", "two words", long} {
		for _, text := range texts {
			got := artifact.Fingerprint(prefix, text)
			require.True(t, artifact.ValidFingerprint(got), "%q of %q", got, text)
			require.Equal(t, got, artifact.Fingerprint(prefix, text), "it is stable")
			require.Empty(t, seen[got], "%q and %q have the same fingerprint", text, seen[got])
			seen[got] = prefix + "|" + text
		}
	}
}

func TestInvalidFingerprint(t *testing.T) {
	for _, text := range []string{"", "a b", "a\n", "é", "a\xff", "a\x00", `a"`, "a,b", "a*", strings.Repeat("x", 201)} {
		require.False(t, artifact.ValidFingerprint(text), "%q", text)
	}
}

// TestSet checks that a set is sorted, is bounded and has no duplicates.
func TestSet(t *testing.T) {
	require.Equal(t, []string{}, artifact.Set(nil))
	given := []string{"b", "a", "b", "two words", "a"}
	require.Equal(t, []string{"a", "b", "two_words-a03f1d611645"}, artifact.Set(given))
	require.Equal(t, []string{"b", "a", "b", "two words", "a"}, given, "the argument is not changed")

	many := []string{}
	for i := range 100 {
		many = append(many, fmt.Sprintf("f-%03d", 99-i))
	}
	set := artifact.Set(many)
	require.Len(t, set, artifact.MaxFingerprints)
	require.Equal(t, []string{"f-000", "f-031"}, []string{set[0], set[31]})
	require.Equal(t, set, artifact.Set(set))
}
