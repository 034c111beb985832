package redact_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/redact"
)

func TestAlso(t *testing.T) {
	const secret = "correct horse battery"
	r, err := newRedactor(t).Also(secret, "", "tiny", "horse\nback")
	require.NoError(t, err)
	for name, test := range map[string]struct{ text, want string }{
		"anywhere": {
			"a correct horse battery and\ncorrect horse battery", "a [REDACTED:named] and\n[REDACTED:named]",
		},
		"inside a word":                  {"xcorrect horse batteryx", "x[REDACTED:named]x"},
		"over lines":                     {"a horse\nback", "a [REDACTED:named]"},
		"cut at its beginning":           {"horse battery staple", "[REDACTED:named] staple"},
		"cut at its end":                 {"is correct hor", "is [REDACTED:named]"},
		"the fewest bytes at its end":    {"tery staple", "[REDACTED:named] staple"},
		"the fewest bytes at its start":  {"is corr", "is [REDACTED:named]"},
		"too few bytes at the beginning": {"ery staple", "ery staple"},
		"too few bytes at the end":       {"is cor", "is cor"},
		"one after the other":            {"tinytinytiny", "[REDACTED:named]"},
		"not in another case":            {"Correct Horse Battery", "Correct Horse Battery"},
		"next to invalid UTF-8":          {"\xfftiny\xff", "\xff[REDACTED:named]\xff"},
		"shorter than the text":          {"tin", "tin"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.want, string(r.Bytes([]byte(test.text))))
		})
	}
}

// TestAlsoWithPattern checks that a named secret is removed whole if a pattern finds a part of it too.
func TestAlsoWithPattern(t *testing.T) {
	token := canaries(1)["a GitHub token"].secret
	for name, secret := range map[string]string{
		"it holds the credential":   "x:" + token + "@host",
		"it overlaps its beginning": "x:" + token[:20],
		"it overlaps its end":       token[20:] + "@host",
		"it is within":              token[10:20],
		"it is just the credential": token,
	} {
		t.Run(name, func(t *testing.T) {
			r, err := newRedactor(t).Also(secret)
			require.NoError(t, err)
			got := string(r.Bytes([]byte("see https://x:" + token + "@host for it")))
			require.Equal(t, 1, strings.Count(got, "[REDACTED:"), got)
			require.NotContains(t, got, token[:5])
			require.NotContains(t, got, token[len(token)-5:])
			require.Regexp(t, `^see https://(x:)?\[REDACTED:[a-z-]+\](@host)? for it$`, got)
		})
	}
}

// TestAlsoReceiver checks that Also does not change its receiver.
func TestAlsoReceiver(t *testing.T) {
	first, err := newRedactor(t).Also("first secret")
	require.NoError(t, err)
	second, err := first.Also("second secret")
	require.NoError(t, err)

	text := []byte("first secret, second secret")
	require.Equal(t, "[REDACTED:named], second secret", string(first.Bytes(text)))
	require.Equal(t, "[REDACTED:named], [REDACTED:named]", string(second.Bytes(text)))
	require.Equal(t, string(text), string(newRedactor(t).Bytes(text)))
}

func TestShortSecret(t *testing.T) {
	_, err := newRedactor(t).Also("long enough", "pin")
	require.ErrorIs(t, err, redact.ErrShortSecret)
	require.ErrorContains(t, err, "number 2 of 2 has 3 bytes")
	require.NotContains(t, err.Error(), "pin")
}
