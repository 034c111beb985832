package storerows_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed62658d38/watchdog/internal/storerows"
)

func TestWithoutRepeats(t *testing.T) {
	for batch, parts := range map[string][]string{
		"":       {""},
		"abc":    {"abc"},
		"aa":     {"a", "a"},
		"abAcaB": {"ab", "Ac", "aB"}, // a key is the letter, whatever its case
	} {
		var got []string
		for _, part := range storerows.WithoutRepeats([]byte(batch), func(b byte) byte { return b | 0x20 }) {
			got = append(got, string(part))
		}
		assert.Equal(t, parts, got, batch)
	}
}
